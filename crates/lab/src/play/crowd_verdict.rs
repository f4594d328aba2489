//! The verdict on a crowd that was sent at a sale in which others may buy, too.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use load::crowd::CrowdReport;
use load::latency::LatencyMs;
use load::verdict::{Expectations, Verdict, judge};
use seckill::http::verdicts::AuditBody;
use seckill::purchase::audit::VoucherAudit;
use seckill_tools::verdict::books;

/// What the database holds against what the crowd was told.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct CrowdVerdict {
    /// Whether every promise was kept.
    pub holds: bool,
    /// Orders that the crowd has.
    pub orders: i64,
    /// Of these, orders that no buyer was told of, beyond the attempts that may have made them unheard.
    pub untold: i64,
    /// Orders acknowledged with 201 that the database does not hold as acknowledged.
    pub lost: i64,
    /// Vouchers that vanished, or were left though buyers of the crowd went away without one.
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
    pub latency_ms: Option<LatencyMs>,
    /// The books of the voucher, other buyers' orders included.
    pub audit: AuditBody,
    /// What was found, as values.
    #[serde(skip)]
    pub verdict: Verdict,
}

impl CrowdVerdict {
    /// Judges: `audit` is what the database holds of the voucher, `orders` how many of them are the
    /// crowd's, `lost` comes from [`count_lost`](seckill::purchase::audit::count_lost).
    pub(super) fn new(audit: VoucherAudit, orders: i64, lost: i64, crowd: &CrowdReport) -> Self {
        let told = crowd.told();
        let verdict = judge(&books(&audit, orders, lost), &told, &Expectations::BESIDE_OTHERS);
        let found = verdict.counts();
        Self {
            holds: verdict.holds(),
            orders,
            untold: found.untold,
            lost: found.lost,
            undersold: found.undersold,
            unexpected: found.unexpected,
            elapsed_ms: crowd.elapsed_ms,
            orders_per_s: crowd.orders_per_s(orders),
            answers_per_s: crowd.answers_per_s,
            latency_ms: crowd.latency_ms,
            outcomes: told.outcomes,
            audit,
            verdict,
        }
    }
}
