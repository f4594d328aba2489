//! The verdict on a crowd that was sent at a sale in which others may buy, too.

use std::collections::BTreeMap;

use seckill::http::verdicts::AuditBody;
use serde::Serialize;
use utoipa::ToSchema;

use load::crowd::{CrowdReport, RefusedBuyers, count_others};
use load::latency::LatencyMs;
use seckill::purchase::audit::VoucherAudit;

/// How long the answers took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[allow(missing_docs)] // the names say it
pub(super) struct CrowdLatency {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

/// What the database holds against what the crowd was told.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct CrowdVerdict {
    /// Whether every promise was kept.
    pub holds: bool,
    /// Orders that the crowd has.
    pub orders: i64,
    /// Of these, orders that no buyer was told of though every attempt was answered.
    pub untold: i64,
    /// Orders acknowledged with 201 that the database does not hold as acknowledged.
    pub lost: i64,
    /// Vouchers left though members of the crowd were refused without a reason for it.
    pub undersold: i64,
    /// Attempts without a proper answer.
    pub unexpected: u64,
    /// Attempts by answer: `ordered`, or a code.
    pub outcomes: BTreeMap<String, u64>,
    /// From the first attempt to the last answer.
    pub elapsed_ms: f64,
    /// Confirmed orders a second.
    pub orders_per_s: f64,
    /// Answers a second.
    pub answers_per_s: f64,
    /// Of all answers; `null` without any.
    #[schema(required = true)]
    pub latency_ms: Option<CrowdLatency>,
    /// The books of the voucher, other buyers' orders included.
    pub audit: AuditBody,
}

/// What a buyer may be answered.
const PROPER: [&str; 7] = [
    "ordered",
    "sold_out",
    "already_bought",
    "order_in_progress",
    "sale_not_started",
    "sale_ended",
    "unavailable",
];

/// After these alone a buyer has no order because there is no stock.
const FOR_WANT_OF_STOCK: [&str; 2] = ["sold_out", "order_in_progress"];

/// Judges: `audit` is what the database holds of the voucher, `orders` how many of them are the
/// crowd's, `lost` comes from [`count_lost`](seckill::purchase::audit::count_lost).
pub(super) fn judge(
    audit: VoucherAudit,
    orders: i64,
    lost: i64,
    crowd: CrowdReport,
) -> CrowdVerdict {
    let unexpected = count_others(&crowd.outcomes, &PROPER);
    let count = |code: &str| crowd.outcomes.get(code).copied().unwrap_or(0);
    let told = i64::try_from(count("ordered")).unwrap_or(i64::MAX);
    // After a 503 it may be unknown whether there is an order, and nobody asks again.
    let all_known = unexpected == 0 && count("unavailable") == 0;
    let without: u64 =
        crowd.refused_buyers.iter().filter(is_refused_for_stock).map(|g| g.buyers).sum();
    let without = i64::try_from(without).unwrap_or(i64::MAX);
    let mut verdict = CrowdVerdict {
        holds: false,
        orders,
        untold: if all_known { (orders - told).max(0) } else { 0 },
        lost,
        undersold: without.min(audit.stock).max(0),
        unexpected,
        elapsed_ms: crowd.elapsed_ms,
        orders_per_s: (orders as f64 / crowd.elapsed_ms.max(1.0) * 10_000.0).round() / 10.0,
        answers_per_s: crowd.answers_per_s,
        latency_ms: crowd.latency_ms.map(|LatencyMs { p50, p95, p99, max }| CrowdLatency {
            p50,
            p95,
            p99,
            max,
        }),
        outcomes: crowd.outcomes,
        audit,
    };
    let CrowdVerdict { untold, lost, undersold, .. } = verdict;
    verdict.holds = verdict.audit.holds && [untold, lost, undersold] == [0; 3] && unexpected == 0;
    verdict
}

fn is_refused_for_stock(group: &&RefusedBuyers) -> bool {
    group.codes.iter().all(|code| FOR_WANT_OF_STOCK.contains(&code.as_str()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use seckill::model::VoucherId;

    /// A sale of 100 of which `sold` are sold, 10 of them before the crowd came; the crowd was told of
    /// `told` orders, and `refused` of its buyers went away with `codes`.
    fn verdict(sold: i64, told: u64, lost: i64, refused: u64, codes: &[&str]) -> CrowdVerdict {
        let Some(voucher_id) = VoucherId::new(1) else { unreachable!("1 is positive") };
        let audit = VoucherAudit {
            voucher_id,
            initial_stock: 100,
            stock: 100 - sold,
            orders: sold,
            distinct_users: sold,
            holds: true,
            violations: Vec::new(),
        };
        let mut outcomes = BTreeMap::from([("ordered".to_owned(), told)]);
        outcomes.extend(codes.iter().map(|code| ((*code).to_owned(), refused)));
        let codes = codes.iter().map(|code| (*code).to_owned()).collect();
        let crowd = CrowdReport {
            sent: told + refused,
            outcomes,
            outcomes_by_path: BTreeMap::new(),
            acknowledged: Vec::new(),
            connections: 1,
            elapsed_ms: 500.0,
            answers_per_s: 20.0,
            latency_ms: None,
            latency_ordered_ms: None,
            refused_buyers: vec![RefusedBuyers { codes, buyers: refused }],
        };
        judge(audit, sold - 10, lost, crowd)
    }

    #[test]
    fn a_crowd_that_was_answered_truly_holds_also_beside_other_buyers() {
        for (sold, told, codes) in [
            (100, 90, &["sold_out"][..]),
            (50, 40, &["sale_ended"]),
            (50, 40, &["sold_out", "unavailable"]),
            // Its answer was lost on the way, and nobody asked again.
            (50, 39, &["unavailable"]),
        ] {
            let verdict = verdict(sold, told, 0, 7, codes);
            assert!(verdict.holds, "{verdict:?}");
            assert_eq!(
                (verdict.orders, verdict.orders_per_s),
                (sold - 10, (sold - 10) as f64 * 2.0)
            );
        }
    }

    #[test]
    fn every_broken_promise_of_a_crowd_is_found() {
        let broken = [
            (verdict(100, 90, 3, 7, &["sold_out"]), (0, 3, 0, 0)),
            (verdict(100, 88, 0, 7, &["sold_out"]), (2, 0, 0, 0)),
            (verdict(95, 85, 0, 7, &["sold_out", "order_in_progress"]), (0, 0, 5, 0)),
            (verdict(100, 88, 0, 7, &["no_answer"]), (0, 0, 0, 7)),
        ];
        for (verdict, found) in broken {
            let CrowdVerdict { holds, untold, lost, undersold, unexpected, .. } = verdict;
            assert_eq!((untold, lost, undersold, unexpected), found);
            assert!(!holds);
        }
    }
}
