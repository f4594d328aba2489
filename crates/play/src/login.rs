//! Logging in without text messages: the answer to a request for a code has the code.

use std::cell::RefCell;
use std::net::SocketAddr;

use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use seckill::http::address::Peer;
use seckill::http::problem::Code;
use seckill::http::sms::{BuyerText, LogSms, SmsGateway};
use seckill::http::{ApiError, App};
use seckill::model::UserId;
use serde_json::Value;

use super::local::is_local;

/// The longest answer to a request for a code, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

tokio::task_local! {
    /// The phone and the code of the request that is being answered.
    static SENT: RefCell<Option<(String, String)>>;
}

/// "Sends" a code to the request that asked for it.
#[derive(Debug)]
pub(super) struct ShownSms;

#[async_trait]
impl SmsGateway for ShownSms {
    async fn send_login_code(
        &self,
        phone: &str,
        code: &str,
        expires_in_s: u64,
    ) -> Result<(), String> {
        let sent = Some((phone.to_owned(), code.to_owned()));
        SENT.try_with(|place| place.replace(sent)).map_err(|error| error.to_string())?;
        LogSms.send_login_code(phone, code, expires_in_s).await
    }

    async fn send_text(&self, text: &BuyerText<'_>) -> Result<(), String> {
        LogSms.send_text(text).await
    }
}

/// The server of a demonstration, and its administrator.
#[derive(Debug, Clone)]
pub(super) struct Demonstration {
    pub(super) app: App,
    /// The administrator whom nobody had to configure, by phone and number.
    pub(super) admin: Option<(&'static str, UserId)>,
}

/// Adds the code to the answer, and keeps the administrator of the demonstration to this machine: neither
/// another machine, nor a page that another site's name led here (DNS rebinding), may be it.
pub(super) async fn around(
    State(demonstration): State<Demonstration>,
    request: Request,
    next: Next,
) -> Response {
    let is_local = is_here(request.extensions().get(), request.headers());
    if !is_local && demonstration.is_admin(request.headers()) {
        let detail = "the administrator of the demonstration is one on this machine alone; \
                      SECKILL_ADMIN_PHONES names another";
        return ApiError::new(Code::Forbidden).detail(detail).into_response();
    }
    let asks = request.method() == Method::POST && request.uri().path() == "/api/login-codes";
    if !asks {
        return next.run(request).await;
    }
    match demonstration.shown(is_local, next.run(request)).await {
        (response, Some(code)) => with_code(response, code).await,
        (response, None) => response,
    }
}

impl Demonstration {
    /// What `asking` answers, and the code that it sent, where the client may see it.
    pub(super) async fn shown<T>(
        &self,
        is_local: bool,
        asking: impl Future<Output = T>,
    ) -> (T, Option<String>) {
        let answered = SENT.scope(RefCell::new(None), async {
            let answer = asking.await;
            (answer, SENT.with(RefCell::take))
        });
        let (answer, sent) = answered.await;
        let seen = sent.filter(|(phone, _)| is_local || !self.is_admins(phone));
        (answer, seen.map(|(_, code)| code))
    }

    fn is_admin(&self, headers: &HeaderMap) -> bool {
        let Some((_, admin)) = self.admin else { return false };
        self.app
            .tokens
            .verify(headers.get(header::AUTHORIZATION))
            .is_ok_and(|token| token.user == admin)
    }

    fn is_admins(&self, phone: &str) -> bool {
        self.app.settings.admin_phones.0.contains(phone)
    }
}

/// Whether the client is on this machine, and asked for it by a loopback name.
pub(super) fn is_here(peer: Option<&Peer>, headers: &HeaderMap) -> bool {
    let is_loopback = peer
        .is_some_and(|Peer(address): &Peer| SocketAddr::ip(address).to_canonical().is_loopback());
    is_loopback && is_local(headers)
}

/// The answer with one more member.
async fn with_code(response: Response, code: String) -> Response {
    if response.status() != StatusCode::ACCEPTED {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, MAX_ANSWER).await else {
        return ApiError::new(Code::Internal).into_response();
    };
    let bytes = match serde_json::from_slice(&bytes) {
        Ok(Value::Object(mut answer)) => {
            answer.insert("code".to_owned(), Value::String(code));
            Value::Object(answer).to_string().into()
        }
        _ => bytes,
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(bytes))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn the_address_of_the_other_end_decides_and_no_header_makes_it_local() {
        let here = |peer: &str| {
            let peer = peer.parse::<IpAddr>().map(|ip| Peer((ip, 50_000).into())).ok();
            let headers = HeaderMap::from_iter([(
                header::HOST,
                header::HeaderValue::from_static("localhost:8080"),
            )]);
            is_here(peer.as_ref(), &headers)
        };
        assert!(["127.0.0.1", "::1", "::ffff:127.0.0.1"].into_iter().all(here));
        assert!(
            !["192.0.2.1", "10.0.0.1", "2001:db8::1", "::ffff:192.0.2.1"].into_iter().any(here)
        );
        assert!(!is_here(None, &HeaderMap::new()));
    }
}
