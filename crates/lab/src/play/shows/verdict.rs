//! What came of one half of a show, the same for both.

use load::crowd::CrowdReport;
use load::outcome::{ACCEPTED, ORDERED};
use serde::Serialize;

use crate::RushReport;
use crate::play::crowd_verdict::CrowdVerdict;

/// The books of a sale held against what its crowd was told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ShowVerdict {
    /// Whether every promise was kept.
    holds: bool,
    /// Orders in the database.
    pub(super) sold: i64,
    /// Orders beyond the stock.
    oversold: i64,
    /// Orders beyond one per user.
    duplicates: i64,
    /// Vouchers that vanished, or stayed unsold though they were wanted.
    undersold: i64,
    /// Orders that a buyer was told of and that are not there.
    lost: i64,
    /// Orders that no buyer was told of.
    untold: i64,
    /// Attempts without a proper answer.
    unexpected: u64,
    /// Attempts that were told no.
    refused: u64,
    /// Attempts that were never made: the time was up.
    not_made: u64,
    /// What the judge says is wrong, where no figure above does.
    reasons: Vec<String>,
    /// From the first attempt to the last answer.
    elapsed_ms: f64,
    /// Of all answers, from when each attempt was due.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

/// How many attempts were told no, and how many were not made.
fn refused_and_not_made(report: &CrowdReport, total: u64, unexpected: u64) -> (u64, u64) {
    let told = report.told();
    let made: u64 = told.outcomes.values().sum();
    let yes = told.count(ORDERED) + told.count(ACCEPTED);
    (made.saturating_sub(yes + unexpected), total.saturating_sub(made))
}

impl ShowVerdict {
    /// On this server, at whose sale others may have bought, too. The crowd was to make `total` attempts.
    pub(super) fn ours(verdict: &CrowdVerdict, report: &CrowdReport, total: u64) -> Self {
        let (refused, not_made) = refused_and_not_made(report, total, verdict.unexpected);
        Self {
            holds: verdict.holds,
            sold: verdict.audit.orders,
            oversold: verdict.audit.oversold(),
            duplicates: verdict.audit.duplicates(),
            undersold: verdict.undersold,
            lost: verdict.lost,
            untold: verdict.untold,
            unexpected: verdict.unexpected,
            refused,
            not_made,
            reasons: verdict.sentences.clone(),
            elapsed_ms: verdict.elapsed_ms,
            p50_ms: verdict.latency_ms.map(|latency| latency.p50),
            p99_ms: verdict.latency_ms.map(|latency| latency.p99),
        }
        .with_reasons_if_needed()
    }

    /// On a rung.
    pub(super) fn of_rung(rush: &RushReport, report: &CrowdReport, total: u64) -> Self {
        let (refused, not_made) = refused_and_not_made(report, total, rush.unexpected);
        let missing = rush.written_later.map_or(0, |later| later.missing);
        Self {
            holds: rush.holds,
            sold: rush.orders,
            oversold: rush.oversold,
            duplicates: rush.duplicates,
            undersold: rush.undersold,
            lost: rush.lost.max(missing),
            untold: 0,
            unexpected: rush.unexpected,
            refused,
            not_made,
            reasons: rush.witnesses.clone(),
            elapsed_ms: rush.elapsed_ms,
            p50_ms: rush.latency_ms.map(|latency| latency.p50),
            p99_ms: rush.latency_ms.map(|latency| latency.p99),
        }
        .with_reasons_if_needed()
    }

    /// The judge's sentences go where the figures say what is wrong, or nothing is.
    fn with_reasons_if_needed(mut self) -> Self {
        let Self { oversold, duplicates, undersold, lost, untold, .. } = self;
        let is_said =
            [oversold, duplicates, undersold, lost, untold].iter().any(|count| *count != 0);
        if self.holds || is_said {
            self.reasons.clear();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::told::Told;

    #[test]
    fn silence_is_no_refusal_and_what_was_not_made_is_counted_apart() {
        let outcomes = [("ordered", 2), ("accepted", 1), ("sold_out", 4), ("no_answer", 2)];
        let outcomes = outcomes.into_iter().chain([("http_500", 1)]);
        let outcomes = outcomes.map(|(code, count)| (code.to_owned(), count)).collect();
        let told = Told { outcomes, ..Told::default() };
        let report = CrowdReport {
            sent: 10,
            told_at: [("/p".into(), told)].into(),
            connections: 1,
            elapsed_ms: 1.0,
            answers_per_s: 0.0,
            latency_ms: None,
            latency_ordered_ms: None,
        };
        for (total, not_made) in [(10, 0), (12, 2)] {
            assert_eq!(refused_and_not_made(&report, total, 3), (4, not_made));
        }
    }
}
