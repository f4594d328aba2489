//! A crowd of made-up buyers, sent at a sale to see it work. Only a server that has its own private
//! PostgreSQL and Redis, and the load generator, sends one.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::auth::AdminSession;
use super::body::JsonBody;
use super::crowd_sender::{CrowdBody, CrowdSender, MAX_ATTEMPTS, MAX_USERS, NewCrowd};
use super::problem::Code;
use super::{ApiError, App};
use crate::model::{Clock, Refusal, VoucherId};

/// A crowd waits no longer for its sale to begin.
const MAX_WAIT: Duration = Duration::from_secs(60);

fn sender(app: &App) -> Result<&dyn CrowdSender, ApiError> {
    let missing = "this server sends no crowds: only one with its own private PostgreSQL and Redis, \
                   and with the load generator, does";
    app.crowds.as_deref().ok_or_else(|| ApiError::new(Code::NotFound).detail(missing))
}

fn check(crowd: NewCrowd) -> Result<NewCrowd, ApiError> {
    if !(1..=MAX_USERS).contains(&crowd.users) {
        return Err(ApiError::invalid(format!("users must be 1 to {MAX_USERS}")));
    }
    if !(1..=MAX_ATTEMPTS).contains(&crowd.attempts) {
        return Err(ApiError::invalid(format!("attempts must be 1 to {MAX_ATTEMPTS}")));
    }
    Ok(crowd)
}

/// How long it is until the sale begins at which a crowd is to be sent.
async fn begins_in(app: &App, voucher: VoucherId) -> Result<Duration, ApiError> {
    let Some(sale) = app.purchases.sale(voucher).await? else {
        return Err(ApiError::new(Code::VoucherNotFound));
    };
    let now = app.purchases.clock().now();
    let wait = (sale.voucher.begin_time - now).to_std().unwrap_or_default();
    match sale.refusal_at(now) {
        Some(refusal @ Refusal::SaleEnded) => Err(refusal.into()),
        Some(refusal @ Refusal::SaleNotStarted { .. }) if wait > MAX_WAIT => Err(refusal.into()),
        _ => Ok(wait),
    }
}

/// Sends a crowd at a sale, from a process of its own. One crowd is under way at a time. Of a sale that
/// begins within a minute it waits for the beginning.
#[utoipa::path(post, path = "/api/crowds", tag = "crowds", operation_id = "send_crowd",
    request_body = NewCrowd,
    security(("token" = [])),
    responses(
        (status = 202, body = CrowdBody, description = "it is on its way",
            headers(("Location" = String, description = "how far it is"))),
        (status = 401, description = "`unauthenticated`"),
        (status = 403, description = "`forbidden`: not an administrator"),
        (status = 404, description = "`voucher_not_found`; `not_found`: this server sends no crowds"),
        (status = 409, description = "`crowd_in_progress`; `sale_not_started` (with `begin_time`): it \
            begins in more than a minute; `sale_ended`"),
        (status = 413, description = "`invalid_request`: the body is too large"),
        (status = 422, description = "`invalid_request`"),
        (status = 503, description = "`unavailable`, with `Retry-After`"),
    ))]
pub async fn create(
    State(app): State<App>,
    _: AdminSession,
    JsonBody(crowd): JsonBody<NewCrowd>,
) -> Result<(StatusCode, [(&'static str, &'static str); 1], Json<CrowdBody>), ApiError> {
    let sender = sender(&app)?;
    let crowd = check(crowd)?;
    let begins_in = begins_in(&app, crowd.voucher_id).await?;
    let started = sender.start(crowd, begins_in).ok_or(ApiError::new(Code::CrowdInProgress))?;
    Ok((StatusCode::ACCEPTED, [("location", "/api/crowds/current")], Json(started)))
}

/// The crowd that was sent last, and the verdict once it is over.
#[utoipa::path(get, path = "/api/crowds/current", tag = "crowds", operation_id = "find_crowd",
    security(("token" = [])),
    responses(
        (status = 200, body = CrowdBody, description = "how far it is"),
        (status = 401, description = "`unauthenticated`"),
        (status = 403, description = "`forbidden`: not an administrator"),
        (status = 404, description = "`crowd_not_found`: none was sent since the server started; \
            `not_found`: this server sends no crowds"),
        (status = 503, description = "`unavailable`, with `Retry-After`"),
    ))]
pub async fn find(State(app): State<App>, _: AdminSession) -> Result<Json<CrowdBody>, ApiError> {
    sender(&app)?.current().map(Json).ok_or(ApiError::new(Code::CrowdNotFound))
}

/// Stops the crowd that is under way. Orders that it has stay.
#[utoipa::path(delete, path = "/api/crowds/current", tag = "crowds", operation_id = "stop_crowd",
    security(("token" = [])),
    responses(
        (status = 204, description = "no crowd is under way any more"),
        (status = 401, description = "`unauthenticated`"),
        (status = 403, description = "`forbidden`: not an administrator"),
        (status = 404, description = "`crowd_not_found`: none was sent since the server started; \
            `not_found`: this server sends no crowds"),
        (status = 503, description = "`unavailable`, with `Retry-After`"),
    ))]
pub async fn stop(State(app): State<App>, _: AdminSession) -> Result<StatusCode, ApiError> {
    let sender = sender(&app)?;
    sender.current().ok_or(ApiError::new(Code::CrowdNotFound))?;
    sender.stop();
    Ok(StatusCode::NO_CONTENT)
}
