//! `/api/crowds`: a crowd of made-up buyers, sent at a sale to see it work.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use axum::Router;
use axum::extract::FromRef;
use axum::routing::{get, post};
use seckill::http::auth::AdminSession;
use seckill::http::body::JsonBody;
use seckill::http::problem::{Code, ProblemKind};
use seckill::http::{ApiError, App, limited};
use utoipa::OpenApi;

use super::crowd_sender::{CrowdBody, MAX_ATTEMPTS, MAX_USERS, NewCrowd};
use super::local_crowds::LocalCrowds;
use seckill::model::{Clock, Refusal, VoucherId};

/// A crowd waits no longer for its sale to begin.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// No crowd was sent since the server started.
static CROWD_NOT_FOUND: ProblemKind = ProblemKind {
    status: StatusCode::NOT_FOUND,
    code: "crowd_not_found",
    english_title: "No crowd was sent yet",
    chinese_title: "还没有派出过模拟人群",
};
/// Another crowd is under way.
pub(super) static CROWD_IN_PROGRESS: ProblemKind = ProblemKind {
    status: StatusCode::CONFLICT,
    code: "crowd_in_progress",
    english_title: "A crowd is under way",
    chinese_title: "模拟人群正在进行",
};

/// What the handlers of crowds reach: the server, and what sends crowds.
#[derive(Debug, Clone)]
pub(super) struct PlayState {
    pub(super) app: App,
    pub(super) crowds: Arc<LocalCrowds>,
}

impl FromRef<PlayState> for App {
    fn from_ref(state: &PlayState) -> Self {
        state.app.clone()
    }
}

/// The routes of crowds, described.
#[derive(OpenApi)]
#[openapi(paths(create, find, stop))]
pub(super) struct CrowdsApi;

/// The routes of crowds.
pub(super) fn routes(state: PlayState) -> Router {
    let routes = Router::new()
        .route("/api/crowds", post(create))
        .route("/api/crowds/current", get(find).delete(stop));
    limited(state.app.clone(), routes).with_state(state)
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
        (status = 404, description = "`voucher_not_found`"),
        (status = 409, description = "`crowd_in_progress`; `sale_not_started` (with `begin_time`): it \
            begins in more than a minute; `sale_ended`"),
        (status = 413, description = "`invalid_request`: the body is too large"),
        (status = 422, description = "`invalid_request`"),
        (status = 503, description = "`unavailable`, with `Retry-After`"),
    ))]
pub(super) async fn create(
    State(PlayState { app, crowds }): State<PlayState>,
    _: AdminSession,
    JsonBody(crowd): JsonBody<NewCrowd>,
) -> Result<(StatusCode, [(&'static str, &'static str); 1], Json<CrowdBody>), ApiError> {
    let crowd = check(crowd)?;
    let begins_in = begins_in(&app, crowd.voucher_id).await?;
    let started =
        crowds.start(crowd, begins_in).ok_or(ApiError::new(Code::Added(&CROWD_IN_PROGRESS)))?;
    Ok((StatusCode::ACCEPTED, [("location", "/api/crowds/current")], Json(started)))
}

/// The crowd that was sent last, and the verdict once it is over.
#[utoipa::path(get, path = "/api/crowds/current", tag = "crowds", operation_id = "find_crowd",
    security(("token" = [])),
    responses(
        (status = 200, body = CrowdBody, description = "how far it is"),
        (status = 204, description = "none was sent since the server started"),
        (status = 401, description = "`unauthenticated`"),
        (status = 403, description = "`forbidden`: not an administrator"),
        (status = 503, description = "`unavailable`, with `Retry-After`"),
    ))]
pub(super) async fn find(
    State(PlayState { crowds, .. }): State<PlayState>,
    _: AdminSession,
) -> Response {
    match crowds.current() {
        Some(crowd) => Json(crowd).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

/// Stops the crowd that is under way. Orders that it has stay.
#[utoipa::path(delete, path = "/api/crowds/current", tag = "crowds", operation_id = "stop_crowd",
    security(("token" = [])),
    responses(
        (status = 204, description = "no crowd is under way any more"),
        (status = 401, description = "`unauthenticated`"),
        (status = 403, description = "`forbidden`: not an administrator"),
        (status = 404, description = "`crowd_not_found`: none was sent since the server started"),
        (status = 503, description = "`unavailable`, with `Retry-After`"),
    ))]
pub(super) async fn stop(
    State(PlayState { crowds, .. }): State<PlayState>,
    _: AdminSession,
) -> Result<StatusCode, ApiError> {
    crowds.current().ok_or(ApiError::new(Code::Added(&CROWD_NOT_FOUND)))?;
    crowds.stop();
    Ok(StatusCode::NO_CONTENT)
}
