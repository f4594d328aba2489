//! The verdict on a sale, as the API says it.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::schemas::Id;
use crate::model::VoucherId;
use crate::seckill::audit::VoucherAudit;

/// The books of a voucher, as `seckill audit --json` writes them.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct AuditBody {
    /// The voucher.
    #[schema(value_type = Id)]
    pub voucher_id: VoucherId,
    /// Vouchers at the beginning.
    pub initial_stock: i64,
    /// Vouchers left.
    pub stock: i64,
    /// Orders written.
    pub orders: i64,
    /// Different users among them.
    pub distinct_users: i64,
    /// Whether every promise was kept.
    pub holds: bool,
    /// Each promise that was not: its name, a colon, and the figures in words. The names are
    /// `no_oversell`, `one_per_user`, `no_undersell`, `orphans` and `sale_window`.
    pub violations: Vec<String>,
}

impl From<VoucherAudit> for AuditBody {
    fn from(audit: VoucherAudit) -> Self {
        let VoucherAudit { voucher_id, initial_stock, stock, orders, distinct_users, .. } = audit;
        let VoucherAudit { holds, violations, .. } = audit;
        Self { voucher_id, initial_stock, stock, orders, distinct_users, holds, violations }
    }
}

/// How long the answers took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[allow(missing_docs)] // the names say it
pub struct CrowdLatency {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

/// What the database holds against what the crowd was told.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CrowdVerdict {
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
