//! Signed messages to an operator's own service, and from it.

use std::error::Error;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ring::hmac;
use tokio::sync::Semaphore;

use crate::model::SharedClock;
use redis_link::timeout::within;

/// The time and the signature of a message: `t=<unix seconds>,v1=<hexadecimal HMAC-SHA256>`.
pub const SIGNATURE: &str = "seckill-signature";

/// How long a message may take, repetitions included.
const SENT_WITHIN: Duration = Duration::from_secs(3);
/// How long a connection may take: an address that swallows packets leaves time for another try.
const CONNECTED_WITHIN: Duration = Duration::from_millis(900);
/// How often a message without a queue of its own is sent, if the connection breaks or the answer is a 5xx.
pub const TRIES: u32 = 3;
/// The pause before the second try; the third waits twice as long.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Messages on their way at once; one more waits.
const MAX_IN_FLIGHT: usize = 64;
/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 16 * 1024;
/// Of an answer that refuses, so much is repeated in the error, in characters.
const MAX_SENTENCE: usize = 300;
/// Signatures of one header that are looked at: a sender that changes its key sends two.
const MAX_SIGNATURES: usize = 8;

/// The secret that two services share; while it is changed, also the former one.
#[derive(Debug, Clone)]
pub struct SigningKey {
    key: hmac::Key,
    previous: Option<Box<hmac::Key>>,
}

impl SigningKey {
    /// The key made of `secret`.
    pub fn new(secret: &[u8]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), previous: None }
    }

    /// The same, which also verifies what was signed with `previous`.
    pub fn or(self, previous: Option<&[u8]>) -> Self {
        let previous = previous.map(|secret| Box::new(hmac::Key::new(hmac::HMAC_SHA256, secret)));
        Self { previous, ..self }
    }

    /// The HMAC-SHA256 of `message`.
    pub fn tag(&self, message: &[u8]) -> hmac::Tag {
        hmac::sign(&self.key, message)
    }

    /// Whether `tag` is that of `message`, by this secret or the former one. It takes as long whichever byte differs.
    pub fn is_tag(&self, tag: &[u8], message: &[u8]) -> bool {
        let keys = [Some(&self.key), self.previous.as_deref()];
        keys.into_iter().flatten().any(|key| hmac::verify(key, message, tag).is_ok())
    }

    /// What stands in [`SIGNATURE`] for `body`, sent at `unix_s`: the HMAC is of `<unix seconds>.<body>`, so
    /// that a receiver can refuse an old message that somebody sends once more.
    pub fn sign(&self, unix_s: i64, body: &[u8]) -> String {
        format!("t={unix_s},v1={}", hex::encode(self.tag(&signed(unix_s, body))))
    }

    /// Whether one signature in `header` is that of `body`, at whatever time. The header is `t=<unix seconds>` and one
    /// `v1=<signature>` or several, in any order with commas between them; members of other names are left alone.
    pub fn verifies(&self, header: &str, body: &[u8]) -> bool {
        let members = || header.split(',').filter_map(|member| member.trim().split_once('='));
        let mut times = members().filter(|(name, _)| *name == "t").map(|(_, value)| value.parse());
        let (Some(Ok(unix_s)), None) = (times.next(), times.next()) else { return false };
        let signed = signed(unix_s, body);
        let tags = members().filter(|(name, _)| *name == "v1");
        let tags = tags.filter_map(|(_, tag)| hex::decode(tag).ok());
        tags.take(MAX_SIGNATURES).any(|tag| self.is_tag(&tag, &signed))
    }
}

fn signed(unix_s: i64, body: &[u8]) -> Vec<u8> {
    [format!("{unix_s}.").as_bytes(), body].concat()
}

/// Posts messages to a URL, signed, as JSON.
pub struct Webhook {
    url: Uri,
    key: SigningKey,
    clock: SharedClock,
    client: WebhookClient,
    permits: Semaphore,
}

/// Certificates are only read if they are needed.
enum WebhookClient {
    Http(Client<HttpConnector, Full<Bytes>>),
    Https(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Webhook").finish_non_exhaustive()
    }
}

impl Webhook {
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
        let key = SigningKey::new(secret);
        Ok(Self { url, key, clock, client, permits: Semaphore::new(MAX_IN_FLIGHT) })
    }

    /// Sends `message` until the service takes it, at most `tries` times. Returns its answer. The error says in
    /// words, for the log and for administrators, why the service did not take it.
    pub async fn send(&self, message: &serde_json::Value, tries: u32) -> Result<Bytes, String> {
        let body = Bytes::from(message.to_string());
        let sent = within(SENT_WITHIN, self.send_until_taken(&body, tries)).await;
        sent.map_err(|silence| silence.to_string())?
    }

    async fn send_until_taken(&self, body: &Bytes, tries: u32) -> Result<Bytes, String> {
        let Ok(_permit) = self.permits.acquire().await else { unreachable!("it is never closed") };
        let mut failure = String::new();
        for attempt in 0..tries {
            tokio::time::sleep(RETRY_PAUSE * attempt).await;
            match self.post(body).await {
                Ok((status, answer)) if status.is_success() => return Ok(answer),
                Ok((status, answer)) => {
                    failure = refused(status, &answer);
                    if !status.is_server_error() {
                        break;
                    }
                }
                Err(broken) => failure = broken,
            }
        }
        Err(failure)
    }

    async fn post(&self, body: &Bytes) -> Result<(StatusCode, Bytes), String> {
        let signature = self.key.sign(self.clock.now().timestamp(), body);
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
        let answer = answer.map_err(|error| match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        })?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| format!("its answer could not be read: {error}"))?;
        Ok((head.status, body.to_bytes()))
    }
}

/// What the service said, in one line: the sentence in its answer is often the only hint.
fn refused(status: StatusCode, answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let words =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let sentence: String = words.collect::<Vec<_>>().join(" ").chars().take(MAX_SENTENCE).collect();
    if sentence.is_empty() {
        format!("it said {status}")
    } else {
        format!("it said {status}: {sentence}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    /// The example of `docs/reference.md`, computed by openssl.
    #[test]
    fn the_signature_is_the_one_that_other_programs_compute() {
        let key = SigningKey::new(SECRET);
        let body = br#"{"code":"682957","expires_in_s":120,"phone":"13800138000"}"#;
        let signature = key.sign(1_795_392_000, body);
        assert!(include_str!("../../docs/reference.md").contains(&signature), "{signature}");
    }

    #[test]
    fn only_the_whole_signature_of_the_same_body_verifies() {
        let (key, body) = (SigningKey::new(SECRET), b"{}");
        let good = key.sign(7, body);
        assert!(key.verifies(&good, body));
        assert!(!key.verifies(&good, b"{ }"));
        assert!(!SigningKey::new(b"another secret...").verifies(&good, body));
        let later = good.replacen("t=7", "t=8", 1);
        let shorter = &good[..good.len() - 2];
        let two_times = format!("t=7,{good}");
        for wrong in [
            "",
            "t=7",
            "t=7,v1=",
            "t=x,v1=00",
            "t=7,v1=é0",
            shorter,
            &later,
            &good[1..],
            &two_times,
        ] {
            assert!(!key.verifies(wrong, body), "{wrong}");
        }
    }

    /// While a gateway changes its key it signs with both; while we change ours, we take both.
    #[test]
    fn one_good_signature_among_several_is_enough_and_the_former_secret_counts() {
        let (body, former) = (b"{}", b"the secret of before".as_slice());
        let (new, old) = (SigningKey::new(SECRET), SigningKey::new(former));
        let tag = |key: &SigningKey| key.sign(7, body).replacen("t=7,", "", 1);
        for header in [
            format!("t=7,{},{}", tag(&old), tag(&new)),
            format!("{},t=7,{}", tag(&new), tag(&old)),
            format!("t=7, v0=00, {} , x", tag(&new)),
        ] {
            assert!(new.verifies(&header, body), "{header}");
        }
        assert!(!new.verifies(&old.sign(7, body), body));
        let both = SigningKey::new(SECRET).or(Some(former));
        assert!(both.verifies(&old.sign(7, body), body) && both.verifies(&new.sign(7, body), body));
        assert_eq!(both.sign(7, body), new.sign(7, body));
        // At the bound: the eighth signature is looked at, the ninth is not.
        let wrong = "v1=00,".repeat(MAX_SIGNATURES - 1);
        assert!(new.verifies(&format!("t=7,{wrong}{}", tag(&new)), body));
        assert!(!new.verifies(&format!("t=7,{wrong}v1=00,{}", tag(&new)), body));
    }

    #[test]
    fn what_a_service_says_is_kept_in_one_line_of_limited_length() {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        assert_eq!(refused(status, b""), "it said 422 Unprocessable Entity");
        let said = refused(status, b"no such\n\x1b[2Jtransaction");
        assert_eq!(said, "it said 422 Unprocessable Entity: no such [2Jtransaction");
        let long = refused(status, "€".repeat(MAX_SENTENCE + 1).as_bytes());
        assert_eq!(long.chars().filter(|c| *c == '€').count(), MAX_SENTENCE);
    }
}
