//! Logging in by phone: a code is sent, the code is exchanged for a token.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use tracing::Level;
use utoipa::ToSchema;

use super::address::ClientAddress;
use super::auth::Session;
use super::body::JsonBody;
use super::limits::is_exempt;
use super::problem::Code;
use super::schemas::{LoginCode, Phone};
use super::tokens::SESSION_LASTS;
use super::{ApiError, App};
use crate::config::ServerArgs;
use crate::model::{User, UserId, is_international, normalized_phone};
use crate::store::login_codes::{Check, LoginCodes};
use crate::store::login_limits::{self, Counted, SHARED, UsedUp};
use crate::store::{LoginLimits, revocations, users};
use crate::telemetry::{self, name};

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
    /// How long the code is good. Asking again sends the same code, and does not lengthen its time.
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
    /// Whether the phone is an administrator's by the configuration of now.
    pub administrator: bool,
}

impl UserBody {
    fn of(user: User, app: &App) -> Self {
        let administrator = app.settings.admin_phones.has(&user.phone);
        let User { id, phone, nickname, created_at, .. } = user;
        Self { id, phone, nickname, created_at, administrator }
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

/// What is said of any other text. A number of the United States also has 11 digits and begins with 1.
const PHONE_RULE: &str = "phone must be a Chinese mobile number (11 digits, the first two 13 to 19) or have a plus sign \
     and the country code (E.164)";

/// The phone in its one form. One that has none, and was stored before there was one form, stays as it is.
async fn phone_of(app: &App, address: ClientAddress, text: &str) -> Result<String, ApiError> {
    match normalized_phone(text) {
        Some(phone) => Ok(phone),
        None if is_international(text) && is_known(app, address, [text; 2]).await? => {
            Ok(text.to_owned())
        }
        None => Err(ApiError::invalid(PHONE_RULE)),
    }
}

fn refused((rate, wait): UsedUp) -> ApiError {
    metrics::counter!(name::LOGIN_REFUSED, "limit" => rate.name).increment(1);
    if SHARED.contains(&rate.name) {
        telemetry::login_closed(rate.name, wait);
    }
    ApiError::too_many_requests(wait)
}

/// The address, as the limits of one phone count it: the neighbours in an IPv6 /48 are one.
fn asker(address: ClientAddress) -> String {
    address.network().to_string()
}

/// What a request for a code counts against. The limits that a stranger can use up for others come last.
fn limits_of_request(settings: &ServerArgs, address: ClientAddress, phone: &str) -> Vec<Counted> {
    let limits = &settings.login_limits;
    let phone_and_asker = format!("{phone}:{}", asker(address));
    let mut counted =
        limits_of_address(limits, ["codes-per-address", "codes-per-network"], address);
    // Behind a proxy that is not trusted all people have one loopback address: this limit would stop all logins for a
    // day.
    if !is_exempt(address) {
        let of_day = ["codes-per-address-day", "codes-per-network-day"];
        counted.extend(limits_of_address(limits, of_day, address));
    }
    counted.extend([
        (limits["codes-per-phone"], phone_and_asker.clone()),
        (limits["codes-per-phone-day"], phone_and_asker),
        (limits["codes-per-phone-in-all"], phone.to_owned()),
    ]);
    let country = settings.sms_countries.as_ref().and_then(|countries| countries.limited(phone));
    counted.extend(country.map(|country| (limits["codes-per-country"], country.to_owned())));
    counted.extend(limits.of_all_codes());
    counted
}

/// Whether a code may be sent to the first of these spellings of a phone. Limits that strangers have used up do not stop phones that
/// have logged in before.
async fn admit_code(
    app: &App,
    address: ClientAddress,
    spellings: [&str; 2],
) -> Result<(), ApiError> {
    let (settings, phone) = (&app.settings, spellings[0]);
    let is_administrators = settings.admin_phones.has(phone);
    if let Some(countries) = &settings.sms_countries
        && countries.of(phone).is_none()
        && !is_administrators
        && !is_known(app, address, spellings).await?
    {
        let detail = format!("login codes are sent to phones that begin with {countries} alone");
        return Err(ApiError::invalid(detail));
    }
    let mut counted = limits_of_request(settings, address, phone);
    let admit =
        async |counted: &[Counted]| login_limits::admit(&app.redis, &app.keys, counted).await;
    let mut used_up = admit(&counted).await?;
    if used_up.is_some_and(|(rate, _)| rate.is_for_newcomers())
        && (is_administrators || is_known(app, address, spellings).await?)
    {
        counted.retain(|(rate, _)| !rate.is_for_newcomers());
        used_up = admit(&counted).await?;
    }
    used_up.map_or(Ok(()), |used_up| Err(refused(used_up)))
}

/// Whether somebody has logged in with a phone of one of these spellings. On a task of its own: a request for a code ends when its
/// client leaves, and a statement that is broken off costs a connection.
async fn is_known(
    app: &App,
    address: ClientAddress,
    spellings: [&str; 2],
) -> Result<bool, ApiError> {
    app.memory().limits.admit_lookup(address)?;
    let (database, spellings) = (app.database.clone(), spellings.map(str::to_owned));
    let looking = tokio::spawn(async move { users::have_phone(database.pool(), &spellings).await });
    Ok(looking.await.map_err(|_panic| ApiError::new(Code::Internal))??)
}

/// IPv4 has no networks.
fn limits_of_address(
    limits: &LoginLimits,
    [of_one, of_network]: [&str; 2],
    address: ClientAddress,
) -> Vec<Counted> {
    let one = (limits[of_one], address.customer().to_string());
    let network = (limits[of_network], address.network().to_string());
    if address.0.is_ipv6() { vec![one, network] } else { vec![one] }
}

/// Sends a login code.
#[utoipa::path(post, path = "/api/login-codes", request_body = LoginCodeBody,
    responses((status = 202, body = LoginCodeSent,
        description = "the code is on its way; it is good for two minutes from the first request on, once")))]
pub async fn send_code(
    State(app): State<App>,
    address: ClientAddress,
    JsonBody(body): JsonBody<LoginCodeBody>,
) -> Result<(StatusCode, Json<LoginCodeSent>), ApiError> {
    let phone = phone_of(&app, address, &body.phone).await?;
    let Some(sms) = &app.sms else {
        let detail =
            "no SMS gateway is configured: nobody can log in until the operator sets one up";
        return Err(ApiError::unavailable().detail(detail));
    };
    admit_code(&app, address, [&phone, &body.phone]).await?;
    // The thread's generator is a cryptographic one, seeded by the operating system.
    let fresh = format!("{:06}", rand::rng().random_range(0..1_000_000));
    let (code, left) = codes(&app, &phone, &asker(address)).issue(&fresh).await?;
    let expires_in_s = left.as_millis().div_ceil(1000) as u64;
    if let Err(error) = sms.send_login_code(&phone, &code, expires_in_s).await {
        let error = format!("the SMS gateway did not take a login code: {error}");
        return Err(ApiError::unavailable().caused_by(Level::ERROR, error));
    }
    Ok((StatusCode::ACCEPTED, Json(LoginCodeSent { expires_in_s })))
}

fn codes<'a>(app: &'a App, phone: &'a str, address: &'a str) -> LoginCodes<'a> {
    LoginCodes { redis: &app.redis, keys: &app.keys, phone, address }
}

fn wrong_code() -> ApiError {
    let detail = "the code is wrong, used or too old; ask for a new one";
    ApiError::new(Code::Unauthenticated).detail(detail)
}

/// Whether `code` is right. A wrong one counts against the address.
async fn check(
    app: &App,
    codes: &LoginCodes<'_>,
    address: ClientAddress,
    code: &str,
) -> Result<(), ApiError> {
    let limits = &app.settings.login_limits;
    let tries = limits_of_address(limits, ["tries-per-address", "tries-per-network"], address);
    if let Some(used_up) = login_limits::first_used_up(&app.redis, &app.keys, &tries).await? {
        return Err(refused(used_up));
    }
    match codes.check(limits, code).await? {
        Check::Right => Ok(()),
        Check::NoCode => Err(wrong_code()),
        Check::Refused(rate, wait) => Err(refused((rate, wait))),
        Check::Wrong => {
            login_limits::admit(&app.redis, &app.keys, &tries).await?;
            Err(wrong_code())
        }
    }
}

/// Logs in; the first login makes the user.
///
/// A code that is wrong, used or too old is refused (401).
#[utoipa::path(post, path = "/api/sessions", operation_id = "create_session",
    request_body = SessionBody,
    responses((status = 201, body = SessionCreated, description = "the token is good for seven days")))]
pub async fn create(
    State(app): State<App>,
    address: ClientAddress,
    JsonBody(body): JsonBody<SessionBody>,
) -> Result<(StatusCode, Json<SessionCreated>), ApiError> {
    let phone = phone_of(&app, address, &body.phone).await?;
    if body.code.len() != 6 || !body.code.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ApiError::invalid("code must have six digits"));
    }
    let asker = asker(address);
    let codes = codes(&app, &phone, &asker);
    check(&app, &codes, address, &body.code).await?;
    let now = app.purchases.clock().earliest();
    let tail = &phone[phone.len() - 4..];
    let nickname = format!("user_{tail}");
    // A user of before there was one form keeps the spelling of the first login.
    let pool = app.database.pool();
    let is_respelled = body.phone != phone;
    let first = if is_respelled { users::find_by_phone(pool, &body.phone).await? } else { None };
    let user = match first {
        Some(user) => user,
        None => users::find_or_create(pool, &phone, &nickname, now).await?,
    };
    // Only now: a database that did not answer would have cost the code.
    if !codes.use_up(&body.code).await? {
        return Err(wrong_code());
    }
    // A token that said less than memory knows would be void from its first request on.
    let end = user.tokens_not_before.max(app.revocations.end_of(user.id));
    let token = app.tokens.mint(user.id, end, now, now + SESSION_LASTS);
    let user = UserBody::of(user, &app);
    Ok((StatusCode::CREATED, Json(SessionCreated { token, user })))
}

/// The user to whom the token belongs.
#[utoipa::path(get, path = "/api/me",
    responses((status = 200, body = UserBody, description = "the user")))]
pub async fn me(State(app): State<App>, session: Session) -> Result<Json<UserBody>, ApiError> {
    let user = users::find(app.database.pool(), session.user).await?;
    user.map(|user| Json(UserBody::of(user, &app))).ok_or_else(user_is_gone)
}

/// Ends every session of the user, on all servers within about a second.
#[utoipa::path(delete, path = "/api/sessions",
    responses((status = 204, description = "no token that the user had is good any more")))]
pub async fn end_all(State(app): State<App>, session: Session) -> Result<StatusCode, ApiError> {
    let revoked = revocations::revoke(app.database.pool(), session.user).await?;
    app.revocations.add(session.user, revoked.ok_or_else(user_is_gone)?);
    Ok(StatusCode::NO_CONTENT)
}

fn user_is_gone() -> ApiError {
    ApiError::new(Code::Unauthenticated).detail("the user does not exist any more")
}
