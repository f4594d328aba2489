//! `/user`: a code for a phone, a token for the code.

use axum::Json;
use axum::extract::{Request, State};
use axum::response::Response;
use seckill::http::address::ClientAddress;
use seckill::http::auth::Session;
use seckill::http::body::{self, JsonBody};
use seckill::http::sessions::{self, LoginCodeBody, SessionBody, SessionCreated, UserBody};
use seckill::http::{ApiError, App};
use seckill::model::normalized_phone;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use url::form_urlencoded;

use super::answer::{failure, success};
use super::state::HmdpState;
use super::translation::WRONG_CODE;

const WRONG_PHONE: &str = "手机号格式错误!";

/// Sends a code. `data` has it, because no text message is sent; an administrator's is in the log alone, as every code
/// of the application: behind a proxy, anybody may look as if on this machine.
pub(super) async fn send_code(
    State(state): State<HmdpState>,
    address: ClientAddress,
    request: Request,
) -> Result<Response, ApiError> {
    let Some(phone) = phone_of(request).await?.as_deref().and_then(normalized_phone) else {
        return Ok(failure(WRONG_PHONE));
    };
    let demonstration = &state.demonstration;
    let app = State(demonstration.app.clone());
    let sending = sessions::send_code(app, address, JsonBody(LoginCodeBody { phone }));
    let (sent, code) = demonstration.shown(false, sending).await;
    let _accepted = sent?;
    Ok(success(code))
}

/// The parameter `phone`, which JMeter sends in the body of a POST.
async fn phone_of(request: Request) -> Result<Option<String>, ApiError> {
    let phone_in = |form: &[u8]| {
        let mut pairs = form_urlencoded::parse(form);
        pairs.find(|(name, _)| name == "phone").map(|(_, phone)| phone.into_owned())
    };
    let query = request.uri().query().unwrap_or_default();
    if let Some(phone) = phone_in(query.as_bytes()) {
        return Ok(Some(phone));
    }
    Ok(phone_in(&body::bytes(request).await?))
}

#[derive(Debug, Deserialize)]
pub(super) struct HmdpLogin {
    #[serde(default, deserialize_with = "text_or_number")]
    phone: String,
    #[serde(default, deserialize_with = "text_or_number")]
    code: String,
}

/// Plans write a phone and a code as a text or as a number. Anything else is taken for an empty text.
fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    })
}

/// Logs in; `data` is the token.
pub(super) async fn log_in(
    State(app): State<App>,
    address: ClientAddress,
    JsonBody(HmdpLogin { phone, code }): JsonBody<HmdpLogin>,
) -> Result<Response, ApiError> {
    let Some(phone) = normalized_phone(&phone) else { return Ok(failure(WRONG_PHONE)) };
    if code.len() != 6 || !code.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(failure(WRONG_CODE));
    }
    let body = JsonBody(SessionBody { phone, code });
    let (_, Json(SessionCreated { token, .. })) =
        sessions::create(State(app), address, body).await?;
    Ok(success(Some(token)))
}

#[derive(Debug, Serialize)]
struct HmdpUser {
    id: i64,
    #[serde(rename = "nickName")]
    nickname: String,
    /// Users have none.
    icon: &'static str,
}

pub(super) async fn me(State(app): State<App>, session: Session) -> Result<Response, ApiError> {
    let Json(UserBody { id, nickname, .. }) = sessions::me(State(app), session).await?;
    Ok(success(Some(HmdpUser { id: id.get(), nickname, icon: "" })))
}

/// Ends every session of the user.
pub(super) async fn log_out(
    State(app): State<App>,
    session: Session,
) -> Result<Response, ApiError> {
    sessions::end_all(State(app), session).await?;
    Ok(success(None::<()>))
}
