//! The verdict on a sale: what the database holds against what the buyers were told.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::load::crowd::CrowdReport;
use crate::load::latency::LatencyMs;
use crate::model::VoucherId;
use crate::seckill::audit::VoucherAudit;

/// The codes a buyer may be answered with in a demo: none of them is a failure.
const EXPECTED: [&str; 4] = ["ordered", "sold_out", "already_bought", "order_in_progress"];

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Vouchers on sale.
    pub stock: i64,
    /// Buyers.
    pub users: i64,
    /// Attempts of each.
    pub attempts: usize,
    /// Server processes.
    pub nodes: usize,
    /// How it was sold.
    pub strategy: &'static str,
}

/// The result of a demo; the JSON of `seckill demo --json`.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // fixed by the product; the names say it
pub struct DemoVerdict {
    pub stock: i64,
    pub users: i64,
    pub attempts: usize,
    pub nodes: usize,
    pub strategy: &'static str,
    pub voucher_id: VoucherId,
    /// Orders in the database.
    pub orders: i64,
    /// Stock left in the database.
    pub remaining: i64,
    /// Orders beyond the stock.
    pub oversold: i64,
    /// Orders beyond one per user.
    pub duplicates: i64,
    /// Vouchers that stayed unsold, or vanished, though there were buyers for them.
    pub undersold: i64,
    /// Orders acknowledged with 201 that the database does not hold as acknowledged.
    pub lost: i64,
    /// Attempts answered with something no buyer should hear, or not at all.
    pub unexpected: u64,
    /// Attempts by answer.
    pub outcomes: BTreeMap<String, u64>,
    pub elapsed_ms: f64,
    pub orders_per_s: f64,
    pub answers_per_s: f64,
    /// Of all answers.
    pub latency_ms: Option<LatencyMs>,
    /// Whether every promise was kept.
    pub holds: bool,
}

impl DemoVerdict {
    /// Judges: `audit` is what the database holds, `lost` comes from [`count_lost`](crate::seckill::audit::count_lost).
    pub fn new(terms: Terms, audit: &VoucherAudit, lost: i64, crowd: CrowdReport) -> Self {
        let unexpected = crowd
            .outcomes
            .iter()
            .filter(|(code, _)| !EXPECTED.contains(&code.as_str()))
            .map(|(_, count)| count)
            .sum();
        // Everybody tried: as many as there are buyers or vouchers must have been sold.
        let unsold = (terms.stock.min(terms.users) - audit.orders).max(0);
        let vanished = (terms.stock - audit.orders - audit.stock).max(0);
        let mut verdict = Self {
            stock: terms.stock,
            users: terms.users,
            attempts: terms.attempts,
            nodes: terms.nodes,
            strategy: terms.strategy,
            voucher_id: audit.voucher_id,
            orders: audit.orders,
            remaining: audit.stock,
            oversold: audit.oversold(),
            duplicates: audit.duplicates(),
            undersold: unsold.max(vanished),
            lost,
            unexpected,
            orders_per_s: (audit.orders as f64 / crowd.elapsed_ms * 10_000_000.0).round()
                / 10_000.0,
            elapsed_ms: crowd.elapsed_ms,
            answers_per_s: crowd.answers_per_s,
            outcomes: crowd.outcomes,
            latency_ms: crowd.latency_ms,
            holds: false,
        };
        verdict.holds = verdict.failures().is_empty() && audit.holds;
        verdict
    }

    /// Each promise that was broken, in words.
    pub fn failures(&self) -> Vec<String> {
        let sold: u64 = self.outcomes.get("ordered").copied().unwrap_or(0);
        let told = i64::try_from(sold).unwrap_or(i64::MAX);
        let all = [
            (self.oversold != 0, format!("{} sold that did not exist", self.oversold)),
            (self.duplicates != 0, format!("{} sold twice to one buyer", self.duplicates)),
            (
                self.undersold != 0,
                format!("{} left unsold while buyers wanted them", self.undersold),
            ),
            (self.lost != 0, format!("{} acknowledged orders lost", self.lost)),
            (
                told < self.orders && self.unexpected == 0,
                format!("{} orders that no buyer was told of", self.orders - told),
            ),
            (self.unexpected != 0, format!("{} attempts without a proper answer", self.unexpected)),
        ];
        all.into_iter().filter(|(broken, _)| *broken).map(|(_, words)| words).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(
        orders: i64,
        users: i64,
        left: i64,
        lost: i64,
        outcomes: &[(&str, u64)],
    ) -> DemoVerdict {
        let terms = Terms { stock: 10, users: 20, attempts: 1, nodes: 1, strategy: "locked" };
        let Some(voucher_id) = VoucherId::new(1) else { unreachable!("1 is positive") };
        let audit = VoucherAudit {
            voucher_id,
            initial_stock: 10,
            stock: left,
            orders,
            distinct_users: users,
            holds: orders + left == 10 && orders == users,
            violations: Vec::new(),
        };
        let outcomes = outcomes.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect();
        let crowd = CrowdReport {
            sent: 20,
            outcomes,
            acknowledged: Vec::new(),
            connections: 1,
            elapsed_ms: 1000.0,
            answers_per_s: 20.0,
            latency_ms: None,
            latency_ordered_ms: None,
            refused_buyers: Vec::new(),
        };
        DemoVerdict::new(terms, &audit, lost, crowd)
    }

    #[test]
    fn a_sale_that_sold_everything_once_holds() {
        let good = verdict(10, 10, 0, 0, &[("ordered", 10), ("sold_out", 10)]);
        assert!(good.holds, "{:?}", good.failures());
    }

    #[test]
    fn every_broken_promise_is_named() {
        let answers: &[(&str, u64)] = &[("ordered", 10), ("sold_out", 10)];
        let broken = [
            (verdict(12, 12, 0, 0, &[("ordered", 12), ("sold_out", 8)]), "did not exist"),
            (verdict(10, 9, 0, 0, answers), "twice to one buyer"),
            (verdict(9, 9, 1, 0, &[("ordered", 9), ("sold_out", 11)]), "left unsold"),
            (verdict(10, 10, 0, 1, answers), "lost"),
            (verdict(10, 10, 0, 0, &[("ordered", 9), ("sold_out", 11)]), "no buyer was told"),
            (verdict(10, 10, 0, 0, &[("ordered", 10), ("no_answer", 10)]), "proper answer"),
        ];
        for (verdict, words) in broken {
            assert!(!verdict.holds, "{words}");
            let failures = verdict.failures().join("; ");
            assert!(failures.contains(words), "{failures} should say {words}");
        }
    }
}
