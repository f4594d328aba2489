//! The verdict on a demo: what the database holds against what the buyers were told, of each sale
//! and of all together.

use std::ops::AddAssign;

use serde::Serialize;

use load::crowd::{CrowdReport, Outcomes, count_others};
use load::latency::LatencyMs;
use seckill::model::VoucherId;
use seckill::purchase::audit::VoucherAudit;

/// The codes a buyer may be answered with in a demo: none of them is a failure.
const EXPECTED: [&str; 4] = ["ordered", "sold_out", "already_bought", "order_in_progress"];

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Attempts of each buyer.
    pub attempts: usize,
    /// Server processes.
    pub nodes: usize,
    /// How it was sold.
    pub strategy: &'static str,
}

/// What was found of one sale, or of several together.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[allow(missing_docs)] // fixed by the product; the names say it
pub struct Findings {
    pub stock: i64,
    pub users: i64,
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
    /// Orders that no buyer was told of, where every buyer had a proper answer.
    pub untold: i64,
    /// Attempts answered with something no buyer should hear, or not at all.
    pub unexpected: u64,
}

impl AddAssign for Findings {
    fn add_assign(&mut self, other: Self) {
        self.stock += other.stock;
        self.users += other.users;
        self.orders += other.orders;
        self.remaining += other.remaining;
        self.oversold += other.oversold;
        self.duplicates += other.duplicates;
        self.undersold += other.undersold;
        self.lost += other.lost;
        self.untold += other.untold;
        self.unexpected += other.unexpected;
    }
}

impl Findings {
    /// Each promise that was broken, in words.
    pub fn failures(&self) -> Vec<String> {
        let Self { oversold, duplicates, undersold, lost, untold, unexpected, .. } = self;
        let all = [
            (*oversold != 0, format!("{oversold} sold that did not exist")),
            (*duplicates != 0, format!("{duplicates} sold twice to one buyer")),
            (*undersold != 0, format!("{undersold} left unsold while buyers wanted them")),
            (*lost != 0, format!("{lost} acknowledged orders lost")),
            (*untold != 0, format!("{untold} orders that no buyer was told of")),
            (*unexpected != 0, format!("{unexpected} attempts without a proper answer")),
        ];
        all.into_iter().filter(|(broken, _)| *broken).map(|(_, words)| words).collect()
    }
}

/// The verdict on one voucher.
#[derive(Debug, Clone, Serialize)]
pub struct VoucherVerdict {
    /// The voucher.
    pub voucher_id: VoucherId,
    /// What was found.
    #[serde(flatten)]
    pub found: Findings,
    /// Whether every promise was kept.
    pub holds: bool,
}

impl VoucherVerdict {
    /// Judges: `users` wanted one of `stock` and were told `outcomes`; `audit` is what the database
    /// holds, `lost` comes from [`count_lost`](seckill::purchase::audit::count_lost).
    pub fn new(
        (stock, users): (i64, i64),
        audit: &VoucherAudit,
        lost: i64,
        outcomes: &Outcomes,
    ) -> Self {
        // Everybody tried: as many as there are buyers or vouchers must have been sold.
        let unsold = (stock.min(users) - audit.orders).max(0);
        let vanished = (stock - audit.orders - audit.stock).max(0);
        let told = outcomes.get("ordered").copied().unwrap_or(0);
        let untold = audit.orders - i64::try_from(told).unwrap_or(i64::MAX);
        let unexpected = count_others(outcomes, &EXPECTED);
        let found = Findings {
            stock,
            users,
            orders: audit.orders,
            remaining: audit.stock,
            oversold: audit.oversold(),
            duplicates: audit.duplicates(),
            undersold: unsold.max(vanished),
            lost,
            untold: if unexpected == 0 { untold.max(0) } else { 0 },
            unexpected,
        };
        let holds = found.failures().is_empty() && audit.holds;
        Self { voucher_id: audit.voucher_id, found, holds }
    }
}

/// The result of a demo; the JSON of `seckill demo --json`.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // fixed by the product; the names say it
pub struct DemoVerdict {
    pub attempts: usize,
    pub nodes: usize,
    pub strategy: &'static str,
    /// Where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voucher_id: Option<VoucherId>,
    /// In all.
    #[serde(flatten)]
    pub found: Findings,
    /// Attempts by answer.
    pub outcomes: Outcomes,
    pub elapsed_ms: f64,
    pub orders_per_s: f64,
    pub answers_per_s: f64,
    /// Of all answers.
    pub latency_ms: Option<LatencyMs>,
    /// Each voucher on sale.
    pub vouchers: Vec<VoucherVerdict>,
    /// Whether every promise was kept.
    pub holds: bool,
}

impl DemoVerdict {
    /// Sums up the verdicts on all `vouchers`.
    pub fn new(terms: Terms, vouchers: Vec<VoucherVerdict>, crowd: CrowdReport) -> Self {
        let mut found = Findings::default();
        for voucher in &vouchers {
            found += voucher.found;
        }
        let Terms { attempts, nodes, strategy } = terms;
        Self {
            attempts,
            nodes,
            strategy,
            voucher_id: if let [only] = &vouchers[..] { Some(only.voucher_id) } else { None },
            found,
            orders_per_s: (found.orders as f64 / crowd.elapsed_ms * 10_000_000.0).round()
                / 10_000.0,
            elapsed_ms: crowd.elapsed_ms,
            answers_per_s: crowd.answers_per_s,
            outcomes: crowd.outcomes,
            latency_ms: crowd.latency_ms,
            holds: vouchers.iter().all(|voucher| voucher.holds),
            vouchers,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn verdict(
        orders: i64,
        users: i64,
        left: i64,
        lost: i64,
        outcomes: &[(&str, u64)],
    ) -> VoucherVerdict {
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
        VoucherVerdict::new((10, 20), &audit, lost, &outcomes)
    }

    fn together(vouchers: &[VoucherVerdict]) -> DemoVerdict {
        let crowd = CrowdReport {
            sent: 20,
            outcomes: BTreeMap::new(),
            outcomes_by_path: BTreeMap::new(),
            acknowledged: Vec::new(),
            connections: 1,
            elapsed_ms: 1000.0,
            answers_per_s: 20.0,
            latency_ms: None,
            latency_ordered_ms: None,
            refused_buyers: Vec::new(),
        };
        let terms = Terms { attempts: 1, nodes: 1, strategy: "locked" };
        DemoVerdict::new(terms, vouchers.to_vec(), crowd)
    }

    const ANSWERS: &[(&str, u64)] = &[("ordered", 10), ("sold_out", 10)];

    #[test]
    fn a_sale_that_sold_everything_once_holds() {
        let good = verdict(10, 10, 0, 0, ANSWERS);
        assert!(good.holds, "{:?}", good.found.failures());
    }

    #[test]
    fn every_broken_promise_is_named() {
        let broken = [
            (verdict(12, 12, 0, 0, &[("ordered", 12), ("sold_out", 8)]), "did not exist"),
            (verdict(10, 9, 0, 0, ANSWERS), "twice to one buyer"),
            (verdict(9, 9, 1, 0, &[("ordered", 9), ("sold_out", 11)]), "left unsold"),
            (verdict(10, 10, 0, 1, ANSWERS), "lost"),
            (verdict(10, 10, 0, 0, &[("ordered", 9), ("sold_out", 11)]), "no buyer was told"),
            (verdict(10, 10, 0, 0, &[("ordered", 10), ("no_answer", 10)]), "proper answer"),
        ];
        for (verdict, words) in broken {
            assert!(!verdict.holds, "{words}");
            let failures = verdict.found.failures().join("; ");
            assert!(failures.contains(words), "{failures} should say {words}");
        }
    }

    /// One voucher too many here and one too few there are two mistakes, and not none.
    #[test]
    fn sales_hold_together_only_when_each_of_them_does() {
        let good = verdict(10, 10, 0, 0, ANSWERS);
        let oversold = verdict(11, 11, 0, 0, &[("ordered", 11), ("sold_out", 9)]);
        let undersold = verdict(9, 9, 1, 0, &[("ordered", 9), ("sold_out", 11)]);
        let all = together(&[good.clone(), good.clone()]);
        assert!(all.holds && all.voucher_id.is_none());
        assert_eq!((all.found.stock, all.found.users, all.found.orders), (20, 40, 20));
        let all = together(&[good, oversold, undersold]);
        assert!(!all.holds);
        assert_eq!((all.found.orders, all.found.oversold, all.found.undersold), (30, 1, 1));
    }
}
