//! What is said of cells and rushes, in words: the same on a terminal and on the page.

use std::collections::BTreeMap;

use super::{LabReport, NoRush};
use crate::Cell;
use crate::told::InWords;
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

impl Cell {
    /// "breaks, as claimed".
    pub fn outcome(&self) -> String {
        self.outcome_in(Language::English)
    }

    /// The same in either language.
    pub fn outcome_in(&self, language: Language) -> String {
        let seen = self.observed.in_words(language);
        match language {
            _ if self.is_skipped() => seen,
            Language::English if self.is_as_claimed() => format!("{seen}, as claimed"),
            Language::English => {
                format!("{seen}, NOT as claimed: it claims to {}", self.claimed.infinitive())
            }
            Language::Chinese if self.is_as_claimed() => format!("{seen}，与声明相符"),
            Language::Chinese => {
                format!("{seen}，与声明不符：声明的是{}", self.claimed.in_words(language))
            }
        }
    }

    /// "r03_version_cas  herd", and what happens there.
    pub fn heading(&self, language: Language) -> (String, &'static str) {
        let name = format!("{}  {}", self.rung, self.scenario);
        (name, self.scenario.story(language))
    }

    /// What the verdict rests on, in either language.
    pub fn witness_in(&self, language: Language) -> Option<String> {
        self.witness.as_ref().map(|witness| witness.in_words(language))
    }

    /// "r03_version_cas, herd: holds no_undersell, NOT as claimed".
    fn in_full(&self) -> String {
        let witness = self.witness.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        format!("{} {}: {} {}{witness}", self.rung, self.scenario, self.invariant, self.outcome())
    }
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
            let name = format!("{} {}", cell.rung, cell.scenario);
            by_reason.entry(reason).or_default().push(name);
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
