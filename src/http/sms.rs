//! Where login codes go.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use axum::http::{Method, Request, StatusCode, Uri, header};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ring::hmac;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::model::SharedClock;
use crate::store::login_codes::CODE_TTL;
use redisson_lock::timeout::within;

/// Sends text messages.
#[async_trait]
pub trait SmsGateway: Send + Sync + std::fmt::Debug {
    /// Sends a login code. The error says in words, for the log, why the gateway did not take it.
    async fn send_login_code(&self, phone: &str, code: &str) -> Result<(), String>;
}

/// Stands in for a gateway: the code appears in the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogSms;

#[async_trait]
impl SmsGateway for LogSms {
    async fn send_login_code(&self, phone: &str, code: &str) -> Result<(), String> {
        tracing::info!(phone, code, "login code (a log line stands in for the SMS gateway)");
        Ok(())
    }
}

/// The time and the signature of a message: `t=<unix seconds>,v1=<hexadecimal HMAC-SHA256>`.
pub const SIGNATURE: &str = "seckill-signature";

/// How long a login waits for the gateway, repetitions included.
const SENT_WITHIN: Duration = Duration::from_secs(3);
/// How long a connection may take: an address that swallows packets leaves time for another try.
const CONNECTED_WITHIN: Duration = Duration::from_millis(900);
/// Repetitions after a broken connection or a 5xx.
const MAX_RETRIES: u32 = 2;
/// The pause before the first repetition; the second waits twice as long.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Messages on their way at once; one more waits.
const MAX_IN_FLIGHT: usize = 64;

/// Posts each message to a URL, signed, as JSON: `{"phone", "code", "expires_in_s"}`.
pub struct WebhookSms {
    url: Uri,
    key: hmac::Key,
    clock: SharedClock,
    client: WebhookClient,
    permits: Semaphore,
}

/// Certificates are only read where they are needed.
enum WebhookClient {
    Http(Client<HttpConnector, Full<Bytes>>),
    Https(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl std::fmt::Debug for WebhookSms {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WebhookSms").finish_non_exhaustive()
    }
}

impl WebhookSms {
    /// Messages to `url`, `http` or `https`, signed with `secret`.
    ///
    /// # Errors
    /// When the URL is `https` and the machine has no certificates of authorities.
    pub fn new(url: Uri, secret: &[u8], clock: SharedClock) -> std::io::Result<Self> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(CONNECTED_WITHIN));
        connector.set_nodelay(true);
        let builder = Client::builder(TokioExecutor::new());
        let client = if url.scheme_str() == Some("https") {
            let tls = HttpsConnectorBuilder::new().with_native_roots()?.https_only();
            WebhookClient::Https(builder.build(tls.enable_http1().wrap_connector(connector)))
        } else {
            WebhookClient::Http(builder.build(connector))
        };
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        Ok(Self { url, key, clock, client, permits: Semaphore::new(MAX_IN_FLIGHT) })
    }

    /// Sends `body` until the gateway takes it, at most 1 + `MAX_RETRIES` times.
    async fn send(&self, body: &Bytes) -> Result<(), String> {
        let Ok(_permit) = self.permits.acquire().await else { unreachable!("it is never closed") };
        let mut failure = String::new();
        for attempt in 0..=MAX_RETRIES {
            tokio::time::sleep(RETRY_PAUSE * attempt).await;
            match self.post(body).await {
                Ok(status) if status.is_success() => return Ok(()),
                Ok(status) if status.is_server_error() => failure = format!("it said {status}"),
                Ok(status) => return Err(format!("it said {status}")),
                Err(broken) => failure = broken,
            }
        }
        Err(format!("{failure} ({} attempts)", MAX_RETRIES + 1))
    }

    async fn post(&self, body: &Bytes) -> Result<StatusCode, String> {
        let signature = signature(&self.key, self.clock.now().timestamp(), body);
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("seckill/", env!("CARGO_PKG_VERSION")))
            .header(SIGNATURE, signature)
            .body(Full::new(body.clone()))
            .map_err(|error| error.to_string())?;
        let answer = match &self.client {
            WebhookClient::Http(client) => client.request(request).await,
            WebhookClient::Https(client) => client.request(request).await,
        };
        answer.map(|answer| answer.status()).map_err(|error| match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        })
    }
}

#[async_trait]
impl SmsGateway for WebhookSms {
    async fn send_login_code(&self, phone: &str, code: &str) -> Result<(), String> {
        let body = json!({ "phone": phone, "code": code, "expires_in_s": CODE_TTL.as_secs() });
        let body = Bytes::from(body.to_string());
        within(SENT_WITHIN, self.send(&body)).await.map_err(|silence| silence.to_string())?
    }
}

/// What stands in [`SIGNATURE`] for `body`, sent at `now`: the HMAC is of `<unix seconds>.<body>`, so
/// that a receiver can refuse an old message that somebody sends once more.
fn signature(key: &hmac::Key, now: i64, body: &[u8]) -> String {
    let tag = hmac::sign(key, &[format!("{now}.").as_bytes(), body].concat());
    let tag: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={now},v1={tag}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of `docs/reference.md`, computed by openssl.
    #[test]
    fn the_signature_is_the_one_that_other_programs_compute() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"0123456789abcdef0123456789abcdef");
        let body = br#"{"code":"682957","expires_in_s":120,"phone":"13800138000"}"#;
        let signature = signature(&key, 1_795_392_000, body);
        assert!(include_str!("../../docs/reference.md").contains(&signature), "{signature}");
    }
}
