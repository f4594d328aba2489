//! Logging in by phone: a code is sent, the code is exchanged for a token.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::address::ClientAddress;
use super::auth::{SESSION_LASTS, Session};
use super::body::JsonBody;
use super::problem::Code;
use super::schemas::{Id, LoginCode, Phone};
use super::{ApiError, App};
use crate::model::{User, UserId, normalized_phone};
use crate::store::login_codes::{self, Rate};
use crate::store::users;

const TEN_MINUTES: Duration = Duration::from_secs(600);
/// Codes sent to one phone.
const CODES_PER_PHONE: Rate = Rate { what: "code-phone", limit: 5, window: TEN_MINUTES };
/// Codes asked for from one address, which a whole office may share.
const CODES_PER_ADDRESS: Rate = Rate { what: "code-address", limit: 60, window: TEN_MINUTES };
/// Codes tried from one address: guessing at many phones is no better than at one.
const TRIES_PER_ADDRESS: Rate = Rate { what: "session-address", limit: 120, window: TEN_MINUTES };

/// Asks for a login code.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginCodeBody {
    /// The phone that the code goes to.
    #[schema(value_type = Phone)]
    pub phone: String,
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
    #[schema(value_type = Id)]
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
        let User { id, phone, nickname, created_at } = user;
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
    match login_codes::count_request(&app.redis, &app.keys, rate, who).await? {
        None => Ok(()),
        Some(wait) => Err(ApiError::too_many_requests(wait)),
    }
}

/// Sends a login code.
#[utoipa::path(post, path = "/api/login-codes", tag = "sessions", request_body = LoginCodeBody,
    responses(
        (status = 202, description = "the code is on its way; it is good for two minutes, once"),
        (status = 413, description = "`invalid_request`: the body is too large"),
        (status = 422, description = "`invalid_request`"),
        (status = 429, description = "`too_many_requests`, with `Retry-After`"),
        (status = 503, description = "`unavailable`, with `Retry-After`"),
    ))]
pub async fn send_code(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<LoginCodeBody>,
) -> Result<StatusCode, ApiError> {
    let phone = phone_of(&body.phone)?;
    admit(&app, CODES_PER_ADDRESS, &address.to_string()).await?;
    admit(&app, CODES_PER_PHONE, &phone).await?;
    // The thread's generator is a cryptographic one, seeded by the operating system.
    let code = format!("{:06}", rand::rng().random_range(0..1_000_000));
    login_codes::issue(&app.redis, &app.keys, &phone, &code).await?;
    if let Err(error) = app.sms.send_login_code(&phone, &code).await {
        tracing::error!(%error, "the SMS gateway did not take a login code");
        return Err(ApiError::unavailable());
    }
    Ok(StatusCode::ACCEPTED)
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
    ClientAddress(address): ClientAddress,
    JsonBody(body): JsonBody<SessionBody>,
) -> Result<(StatusCode, Json<SessionCreated>), ApiError> {
    let phone = phone_of(&body.phone)?;
    if body.code.len() != 6 || !body.code.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ApiError::invalid("code must have six digits"));
    }
    admit(&app, TRIES_PER_ADDRESS, &address.to_string()).await?;
    if !login_codes::redeem(&app.redis, &app.keys, &phone, &body.code).await? {
        let detail = "the code is wrong, used or too old; ask for a new one";
        return Err(ApiError::new(Code::Unauthenticated).detail(detail));
    }
    let now = app.clock.now();
    let tail = &phone[phone.len() - 4..];
    let nickname = format!("user_{tail}");
    let user = users::find_or_create(app.database.pool(), &phone, &nickname, now).await?;
    let admin = app.admin_phones.contains(&phone);
    let token = app.tokens.mint(user.id, admin, now + SESSION_LASTS).map_err(|error| {
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
    let gone = || ApiError::new(Code::Unauthenticated).detail("the user does not exist any more");
    user.map(|user| Json(user.into())).ok_or_else(gone)
}
