//! What came of one half of a show, the same for both.

use load::crowd::CrowdReport;
use load::outcome::{
    ACCEPTED, NO_ANSWER, NOT_SENT, ORDERED, REFUSED, SALE_ENDED, SALE_NOT_STARTED, UNAVAILABLE,
};
use load::verdict::{Counts, Expectations, Verdict};
use serde::Serialize;

/// People buy at the same sale, and a server was killed: who was at it, or came to it, has no answer.
pub(super) const BESIDE_A_KILL: Expectations = Expectations {
    also_proper: &[SALE_NOT_STARTED, SALE_ENDED, REFUSED, UNAVAILABLE, NO_ANSWER, NOT_SENT],
    ..Expectations::BESIDE_OTHERS
};

/// The books of a sale held against what its crowd was told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ShowVerdict {
    /// Whether every promise was kept.
    holds: bool,
    /// Orders in the database.
    pub(super) sold: i64,
    /// What is wrong, as figures.
    #[serde(flatten)]
    counts: Counts,
    /// Attempts that were told no.
    refused: u64,
    /// Attempts that were never made: the time was up.
    not_made: u64,
    /// Attempts that met a dead server.
    silent: u64,
    /// What the judge says is wrong, where no figure above does.
    reasons: Vec<String>,
    /// From the first attempt to the last answer.
    elapsed_ms: f64,
    /// Of all answers, from when each attempt was due.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

/// How many attempts were told no, how many were not made, and how many had no answer.
fn refused_not_made_and_silent(
    report: &CrowdReport,
    total: u64,
    unexpected: u64,
) -> (u64, u64, u64) {
    let told = report.told();
    let made: u64 = told.outcomes.values().sum();
    let silent = told.count(NO_ANSWER) + told.count(NOT_SENT);
    // Silence is unexpected where no server was killed.
    let others = told.count(ORDERED) + told.count(ACCEPTED) + unexpected.max(silent);
    (made.saturating_sub(others), total.saturating_sub(made), silent)
}

impl ShowVerdict {
    /// Of the crowd of this `report`, which was to make `total` attempts, at a sale with so many orders.
    pub(super) fn new(verdict: &Verdict, sold: i64, report: &CrowdReport, total: u64) -> Self {
        let counts = verdict.counts();
        let (refused, not_made, silent) =
            refused_not_made_and_silent(report, total, counts.unexpected);
        // The judge's sentences go where the figures say what is wrong, or nothing is.
        let is_said = Counts { unexpected: 0, ..counts } != Counts::default();
        let reasons = if verdict.holds() || is_said { Vec::new() } else { verdict.sentences() };
        Self {
            holds: verdict.holds(),
            sold,
            counts,
            refused,
            not_made,
            silent,
            reasons,
            elapsed_ms: report.elapsed_ms,
            p50_ms: report.latency_ms.map(|latency| latency.p50),
            p99_ms: report.latency_ms.map(|latency| latency.p99),
        }
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
            told_at: [("/p".into(), told)].into(),
            connections: 1,
            elapsed_ms: 1.0,
            answers_per_s: 0.0,
            latency_ms: None,
        };
        for (total, not_made) in [(10, 0), (12, 2)] {
            assert_eq!(refused_not_made_and_silent(&report, total, 3), (4, not_made, 2));
        }
    }
}
