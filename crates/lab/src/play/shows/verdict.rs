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
    sold: i64,
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
    /// Attempts that made no order.
    refused: u64,
    /// From the first attempt to the last answer.
    elapsed_ms: f64,
    /// Of all answers, from when each attempt was due.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

fn refused(report: &CrowdReport) -> u64 {
    let told = report.told();
    told.outcomes.values().sum::<u64>() - told.count(ORDERED) - told.count(ACCEPTED)
}

impl ShowVerdict {
    /// On this server, at whose sale others may have bought, too.
    pub(super) fn ours(verdict: &CrowdVerdict, report: &CrowdReport) -> Self {
        Self {
            holds: verdict.holds,
            sold: verdict.audit.orders,
            oversold: verdict.audit.oversold(),
            duplicates: verdict.audit.duplicates(),
            undersold: verdict.undersold,
            lost: verdict.lost,
            untold: verdict.untold,
            unexpected: verdict.unexpected,
            refused: refused(report),
            elapsed_ms: verdict.elapsed_ms,
            p50_ms: verdict.latency_ms.map(|latency| latency.p50),
            p99_ms: verdict.latency_ms.map(|latency| latency.p99),
        }
    }

    /// On a rung.
    pub(super) fn of_rung(rush: &RushReport, report: &CrowdReport) -> Self {
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
            refused: refused(report),
            elapsed_ms: rush.elapsed_ms,
            p50_ms: rush.latency_ms.map(|latency| latency.p50),
            p99_ms: rush.latency_ms.map(|latency| latency.p99),
        }
    }
}
