//! What is said of cells and rushes, in words: the same on a terminal and on the page.

use std::collections::BTreeMap;

use super::{LabReport, NoRush};
use crate::{Cell, MatrixPlace};
use ladder::Rung;
use seckill::http::Language;

/// "r07a" of `r07a_user_mutex_inside_tx`.
pub(super) fn label(rung: &Rung) -> &'static str {
    rung.id.split_once('_').map_or(rung.id, |(label, _)| label)
}

/// "7a".
pub(super) fn short_label(rung: &Rung) -> &'static str {
    label(rung).trim_start_matches('r').trim_start_matches('0')
}

/// "user mutex inside tx".
pub(super) fn mechanism(rung: &Rung) -> String {
    rung.id.split_once('_').map_or("", |(_, mechanism)| mechanism).replace('_', " ")
}

impl LabReport {
    /// Everything that speaks against the ladder, a sentence each.
    pub fn objections(&self) -> Vec<String> {
        let cells = self.cells.iter().filter(|cell| cell.is_wrong()).map(Cell::in_full);
        let rushes = self.rushes.iter().filter(|rush| !rush.as_claimed);
        let rushes = rushes.map(|rush| {
            format!("{} rush: {} ({})", rush.rung, rush.outcome(), rush.witnesses.join("; "))
        });
        let failed = self.no_rushes.iter().filter(|rush| !rush.skipped);
        let failed = failed.map(|rush| format!("{} rush: unknown ({})", rush.rung, rush.reason));
        cells.chain(rushes).chain(failed).collect()
    }

    /// What was skipped, by the sentence that says how to get what is missing.
    pub fn skipped(&self) -> Vec<(String, Vec<String>)> {
        let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for cell in self.cells.iter().filter(|cell| cell.is_skipped()) {
            let reason = cell.witness_in(Language::English);
            let reason = reason.unwrap_or_else(|| "no reason was given".to_owned());
            by_reason.entry(reason).or_default().push(cell.of.name());
        }
        for NoRush { rung, reason, .. } in self.no_rushes.iter().filter(|rush| rush.skipped) {
            by_reason.entry(reason.clone()).or_default().push(format!("{rung} rush"));
        }
        by_reason.into_iter().collect()
    }

    /// The verdict, in a line.
    pub fn verdict(&self) -> String {
        let skipped = self.cells.iter().filter(|cell| cell.is_skipped()).count();
        let played = self.cells.len() - skipped;
        let right = self.cells.iter().filter(|cell| cell.is_as_claimed()).count();
        let mut counts = vec![format!("{right} of {} as claimed", counted(played, "cell"))];
        let rushes = self.rushes.len() + self.no_rushes.iter().filter(|it| !it.skipped).count();
        if rushes > 0 {
            let right = self.rushes.iter().filter(|rush| rush.as_claimed).count();
            counts.push(format!(
                "{right} of {} kept what the rung claims",
                counted_es(rushes, "rush")
            ));
        }
        let names: Vec<String> = self.skipped().into_iter().flat_map(|(_, names)| names).collect();
        if !names.is_empty() {
            counts.push(format!("{} skipped ({})", names.len(), names.join(", ")));
        }
        let word = if self.is_as_claimed() { "AS CLAIMED" } else { "NOT AS CLAIMED" };
        format!("{word}: {}.", counts.join("; "))
    }
}

/// "1 cell", "2 cells".
pub fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// "1 rush", "2 rushes".
pub fn counted_es(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "es" })
}
