//! Request bodies: small, JSON, and not for ever on their way.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::header;
use http_body_util::{BodyExt, Collected, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::ApiError;

/// The largest body that any route takes, in bytes.
pub const MAX_BODY_BYTES: usize = 16 * 1024;
/// How long a body may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);
/// How much of a body that is too large is read and thrown away, so that its sender gets
/// to read the answer instead of a reset connection.
const MAX_DRAINED_BYTES: usize = 32 * 1024 * 1024;

/// `request` with its whole body, read before any route sees it: so no permit of a route, no lock and no
/// connection of a store is held while a client is waited for.
pub async fn arrived(request: Request) -> Result<Request, ApiError> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    Box::pin(read_all(request)).await
}

async fn read_all(request: Request) -> Result<Request, ApiError> {
    let (parts, mut body) = request.into_parts();
    // A client that waits for `100 Continue` has not sent the body yet, and need not send it to be refused.
    let announced_too_much = body.size_hint().lower() > MAX_BODY_BYTES as u64;
    if announced_too_much && parts.headers.contains_key(header::EXPECT) {
        return Err(ApiError::body_too_large());
    }
    let collected = Limited::new(&mut body, MAX_BODY_BYTES).collect();
    match timeout(ARRIVES_WITHIN, collected).await {
        Ok(Ok(body)) => Ok(Request::from_parts(parts, body.to_bytes().into())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            drain(body).await;
            Err(ApiError::body_too_large())
        }
        Ok(Err(_)) => Err(ApiError::invalid("the body broke off")),
        Err(_) => Err(ApiError::invalid("the body did not arrive in time")),
    }
}

async fn drain(body: Body) {
    let mut body = Limited::new(body, MAX_DRAINED_BYTES);
    let drained = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = timeout(ARRIVES_WITHIN, drained).await;
}

/// The bytes of a body that [`arrived`].
pub async fn bytes(request: Request) -> Result<Bytes, ApiError> {
    let body = request.into_body().collect().await;
    body.map(Collected::to_bytes).map_err(|_| ApiError::invalid("the body broke off"))
}

/// Whether a media type is JSON's, parameters aside. Its name has no case.
fn is_json(media_type: &str) -> bool {
    let name = media_type.split(';').next().unwrap_or_default();
    name.trim().eq_ignore_ascii_case("application/json")
}

/// The JSON object in `bytes`.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // serde would take an array for a struct, member by member.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(ApiError::invalid("the body is not a JSON object"));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| ApiError::invalid(format!("the body is not the JSON expected: {error}")))
}

/// A JSON body.
#[derive(Debug)]
pub struct JsonBody<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let json = request
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(is_json);
        if !json {
            return Err(ApiError::invalid("content-type must be application/json"));
        }
        parse(&bytes(request).await?).map(Self)
    }
}

/// A JSON body that may be left out.
#[derive(Debug)]
pub struct OptionalJsonBody<T>(pub Option<T>);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for OptionalJsonBody<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        if request.body().is_end_stream() {
            return Ok(Self(None));
        }
        parse(&bytes(request).await?).map(|body| Self(Some(body)))
    }
}
