//! The audit of a voucher while it is on sale, from the database alone.

use std::time::Duration;

use axum::Json;
use axum::extract::State;

use super::auth::AdminSession;
use super::problem::Code;
use super::vouchers::PathId;
use super::{ApiError, App};
use crate::model::VoucherId;
use crate::purchase::audit::{self, VoucherAudit};

/// How long one audit may take. `seckill audit` has longer.
pub const AUDITED_WITHIN: Duration = Duration::from_secs(30);

/// When to ask again while another audit is under way.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Audits a voucher: counts its orders in the database and judges the promises. One audit is under way
/// at a time in one server.
#[utoipa::path(post, path = "/api/vouchers/{id}/audit", tag = "operations", operation_id = "audit_voucher",
    responses((status = 200, body = VoucherAudit, description = "the verdict, from one snapshot")))]
pub async fn create(
    State(app): State<App>,
    _: AdminSession,
    PathId(id): PathId<VoucherId>,
) -> Result<Json<VoucherAudit>, ApiError> {
    let Ok(_permit) = app.memory().limits.audits.take(None) else {
        let busy = ApiError::too_many_requests(RETRY_AFTER);
        return Err(busy.detail("another audit is under way in this server"));
    };
    // The router runs this request in a task of its own: the audit goes on when its client leaves.
    let audit = audit::run_within(AUDITED_WITHIN, &app.database, id).await?;
    audit.map(Json).ok_or(ApiError::new(Code::VoucherNotFound))
}
