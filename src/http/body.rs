//! Request bodies: small, JSON, and not for ever on their way.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::header;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;

use super::{ApiError, App};

/// The largest body that any route takes, in bytes.
pub const MAX_BODY_BYTES: usize = 16 * 1024;
/// How long a body may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);
/// How much of a body that is too large is read and thrown away, so that its sender gets
/// to read the answer instead of a reset connection.
const MAX_DRAINED_BYTES: usize = 32 * 1024 * 1024;

/// Refuses a body whose announced length is too large before any route sees it.
///
/// # Errors
/// The answer.
pub async fn refuse_oversized(request: Request) -> Result<Request, ApiError> {
    if request.body().size_hint().lower() <= MAX_BODY_BYTES as u64 {
        return Ok(request);
    }
    // Who waits for `100 Continue` has not sent the body yet and will not.
    if !request.headers().contains_key(header::EXPECT) {
        drain(request.into_body()).await;
    }
    Err(ApiError::body_too_large())
}

async fn drain(body: Body) {
    let mut body = Limited::new(body, MAX_DRAINED_BYTES);
    let drained = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = tokio::time::timeout(ARRIVES_WITHIN, drained).await;
}

/// The bytes of a body.
async fn bytes(body: Body) -> Result<Bytes, ApiError> {
    let collected = Limited::new(body, MAX_BODY_BYTES).collect();
    match tokio::time::timeout(ARRIVES_WITHIN, collected).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ApiError::body_too_large()),
        Ok(Err(_)) => Err(ApiError::invalid("the body broke off")),
        Err(_) => Err(ApiError::invalid("the body did not arrive in time")),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes)
        .map_err(|error| ApiError::invalid(format!("the body is not the JSON expected: {error}")))
}

/// A JSON body.
#[derive(Debug)]
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        let json = request
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.trim_start().starts_with("application/json"));
        if !json {
            return Err(ApiError::invalid("content-type must be application/json"));
        }
        parse(&bytes(request.into_body()).await?).map(Self)
    }
}

/// A JSON body that may be left out.
#[derive(Debug)]
pub struct OptionalJsonBody<T>(pub Option<T>);

impl<T: DeserializeOwned> FromRequest<App> for OptionalJsonBody<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        if request.body().is_end_stream() {
            return Ok(Self(None));
        }
        let bytes = bytes(request.into_body()).await?;
        if bytes.is_empty() { Ok(Self(None)) } else { parse(&bytes).map(|body| Self(Some(body))) }
    }
}
