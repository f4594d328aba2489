//! Logging in by phone: a code is sent, the code is exchanged for a token.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, TimeDelta, Utc};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::address::ClientAddress;
use super::auth::Session;
use super::body::JsonBody;
use super::problem::Code;
use super::schemas::{LoginCode, Phone};
use super::tokens::SESSION_LASTS;
use super::{ApiError, App};
use crate::model::{User, UserId, normalized_phone};
use crate::store::login_codes::{self, Redemption};
use crate::store::login_limits::{self, Rate};
use crate::store::{revocations, users};
use crate::telemetry;

/// Asks for a login code.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginCodeBody {
    /// The phone that the code goes to.
    #[schema(value_type = Phone)]
    pub phone: String,
}

/// A login code is on its way.
#[derive(Debug, Serialize, ToSchema)]
pub struct LoginCodeSent {
    /// How long the code is good.
    #[schema(minimum = 1, example = 120)]
    pub expires_in_s: u64,
}

/// Exchanges a login code for a token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionBody {
    /// The phone that the code was sent to.
    #[schema(value_type = Phone)]
    pub phone: String,
    /// The code.
    #[schema(value_type = LoginCode)]
    pub code: String,
}

/// A user.
#[derive(Debug, Serialize, ToSchema)]
pub struct UserBody {
    /// The user.
    pub id: UserId,
    /// The phone that logs in.
    #[schema(value_type = Phone)]
    pub phone: String,
    /// A name to show.
    pub nickname: String,
    /// First login.
    pub created_at: DateTime<Utc>,
}

impl From<User> for UserBody {
    fn from(user: User) -> Self {
        let User { id, phone, nickname, created_at, .. } = user;
        Self { id, phone, nickname, created_at }
    }
}

/// A session.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionCreated {
    /// Goes into `Authorization: Bearer …`.
    pub token: String,
    /// The user who logged in.
    pub user: UserBody,
}

fn phone_of(text: &str) -> Result<String, ApiError> {
    let wrong =
        || ApiError::invalid("phone must have 11 digits and begin with 1, or be in E.164 form");
    normalized_phone(text).ok_or_else(wrong)
}

async fn admit(app: &App, rate: Rate, who: &str) -> Result<(), ApiError> {
    match login_limits::count_request(&app.redis, &app.keys, rate, who).await? {
        None => Ok(()),
        Some(wait) => Err(refused(rate, wait)),
    }
}

fn refused(rate: Rate, wait: Duration) -> ApiError {
    telemetry::login_refused(rate.name);
    ApiError::too_many_requests(wait)
}

/// Counts a request for a code. The limits that a stranger can use up for others come last: a request
/// that is refused for where it comes from does not count against the phone, and one that is
/// refused for its phone does not count against everybody.
async fn admit_request(app: &App, address: ClientAddress, phone: &str) -> Result<(), ApiError> {
    let limits = &app.login_limits;
    admit(app, limits.codes_per_address, &address.customer()).await?;
    if let Some(network) = address.network() {
        admit(app, limits.codes_per_network, &network).await?;
    }
    admit(app, limits.codes_per_phone, phone).await?;
    admit(app, limits.codes_per_phone_day, phone).await?;
    admit(app, limits.codes_in_all, "all").await
}

/// Counts a try of a code.
async fn admit_try(app: &App, address: ClientAddress) -> Result<(), ApiError> {
    let limits = &app.login_limits;
    admit(app, limits.tries_per_address, &address.customer()).await?;
    match address.network() {
        Some(network) => admit(app, limits.tries_per_network, &network).await,
        None => Ok(()),
    }
}

/// Sends a login code.
#[utoipa::path(post, path = "/api/login-codes", tag = "sessions", request_body = LoginCodeBody,
    responses(
        (status = 202, body = LoginCodeSent,
            description = "the code is on its way; it is good for two minutes, once"),
        (status = 413, description = "`invalid_request`: the body is too large"),
        (status = 422, description = "`invalid_request`"),
        (status = 429, description = "`too_many_requests`, with `Retry-After`"),
        (status = 503, description = "`unavailable`, with `Retry-After`"),
    ))]
pub async fn send_code(
    State(app): State<App>,
    address: ClientAddress,
    JsonBody(body): JsonBody<LoginCodeBody>,
) -> Result<(StatusCode, Json<LoginCodeSent>), ApiError> {
    let phone = phone_of(&body.phone)?;
    let Some(sms) = &app.sms else {
        let detail =
            "no SMS gateway is configured: nobody can log in until the operator sets one up";
        return Err(ApiError::unavailable().detail(detail));
    };
    admit_request(&app, address, &phone).await?;
    // The thread's generator is a cryptographic one, seeded by the operating system.
    let fresh = format!("{:06}", rand::rng().random_range(0..1_000_000));
    let code = login_codes::issue(&app.redis, &app.keys, &phone, &fresh).await?;
    if let Err(error) = sms.send_login_code(&phone, &code).await {
        tracing::error!(%error, "the SMS gateway did not take a login code");
        return Err(ApiError::unavailable());
    }
    let sent = LoginCodeSent { expires_in_s: login_codes::CODE_TTL.as_secs() };
    Ok((StatusCode::ACCEPTED, Json(sent)))
}

/// Logs in; the first login makes the user.
#[utoipa::path(post, path = "/api/sessions", tag = "sessions", operation_id = "create_session",
    request_body = SessionBody,
    responses(
        (status = 201, body = SessionCreated, description = "the token is good for seven days"),
        (status = 401, description = "`unauthenticated`: the code is wrong, used or too old"),
        (status = 413, description = "`invalid_request`: the body is too large"),
        (status = 422, description = "`invalid_request`"),
        (status = 429, description = "`too_many_requests`, with `Retry-After`"),
        (status = 503, description = "`unavailable`, with `Retry-After`"),
    ))]
pub async fn create(
    State(app): State<App>,
    address: ClientAddress,
    JsonBody(body): JsonBody<SessionBody>,
) -> Result<(StatusCode, Json<SessionCreated>), ApiError> {
    let phone = phone_of(&body.phone)?;
    if body.code.len() != 6 || !body.code.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ApiError::invalid("code must have six digits"));
    }
    admit_try(&app, address).await?;
    let wrong_tries = app.login_limits.wrong_tries_per_phone;
    match login_codes::redeem(&app.redis, &app.keys, wrong_tries, &phone, &body.code).await? {
        Redemption::Right => {}
        Redemption::Wrong => {
            let detail = "the code is wrong, used or too old; ask for a new one";
            return Err(ApiError::new(Code::Unauthenticated).detail(detail));
        }
        Redemption::Refused(wait) => return Err(refused(wrong_tries, wait)),
    }
    let now = app.clock.now();
    let tail = &phone[phone.len() - 4..];
    let nickname = format!("user_{tail}");
    let user = users::find_or_create(app.database.pool(), &phone, &nickname, now).await?;
    // A user who has just ended all sessions, perhaps on a server whose clock is ahead, begins a new one.
    let issued = user.tokens_not_before.map_or(now, |not_before| not_before.max(now));
    let token = app.tokens.mint(user.id, issued, now + SESSION_LASTS).map_err(|error| {
        tracing::error!(%error, "a token could not be signed");
        ApiError::new(Code::Internal)
    })?;
    Ok((StatusCode::CREATED, Json(SessionCreated { token, user: user.into() })))
}

/// The user to whom the token belongs.
#[utoipa::path(get, path = "/api/me", tag = "sessions", security(("token" = [])),
    responses(
        (status = 200, body = UserBody, description = "the user"),
        (status = 401, description = "`unauthenticated`"),
        (status = 503, description = "`unavailable`, with `Retry-After`"),
    ))]
pub async fn me(State(app): State<App>, session: Session) -> Result<Json<UserBody>, ApiError> {
    let user = users::find(app.database.pool(), session.user).await?;
    user.map(|user| Json(user.into())).ok_or_else(user_is_gone)
}

/// Ends every session of the user, on all servers within about a second.
#[utoipa::path(delete, path = "/api/sessions", tag = "sessions", security(("token" = [])),
    responses(
        (status = 204, description = "no token that the user had is good any more"),
        (status = 401, description = "`unauthenticated`"),
        (status = 503, description = "`unavailable`, with `Retry-After`"),
    ))]
pub async fn end_all(State(app): State<App>, session: Session) -> Result<StatusCode, ApiError> {
    // Later than the token of this request, which another server's clock may have stamped, and than
    // one that is issued in this very microsecond.
    let earliest = app.clock.now().max(session.issued) + TimeDelta::microseconds(1);
    let revoked = revocations::revoke(app.database.pool(), session.user, earliest).await?;
    app.revocations.add(session.user, revoked.ok_or_else(user_is_gone)?);
    Ok(StatusCode::NO_CONTENT)
}

fn user_is_gone() -> ApiError {
    ApiError::new(Code::Unauthenticated).detail("the user does not exist any more")
}
