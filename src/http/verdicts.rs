//! The verdict on a sale, as the API says it.

use serde::Serialize;
use utoipa::ToSchema;

use super::schemas::Id;
use crate::model::VoucherId;
use crate::purchase::audit::VoucherAudit;

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
