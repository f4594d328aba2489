//! The one error type of the API: every answer that is not a success is a problem document (RFC 9457),
//! `application/problem+json`, with a stable `code`.
//!
//! A handler makes an [`ApiError`]. The layer around all routes calls [`write`], which knows the language
//! that the request prefers, and the request's id. Causes are logged there, once, and never sent.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tracing::Level;

use super::language::Language;
use crate::model::Member;
pub use crate::model::refusal::{Code, ProblemKind, Refusal};
use crate::purchase::PurchaseError;
use crate::store::{Stop, StoreError};

/// A problem on its way to the client.
#[derive(Debug, Clone)]
pub struct ApiError {
    /// What kind of problem it is.
    pub kind: &'static ProblemKind,
    status: StatusCode,
    /// A sentence about this occurrence.
    pub detail: Option<Cow<'static, str>>,
    member: Option<Member>,
    cause: Option<(Level, String)>,
}

impl ApiError {
    /// A problem with no more to say than its kind.
    pub fn new(kind: impl Into<&'static ProblemKind>) -> Self {
        let kind = kind.into();
        let status = StatusCode::from_u16(kind.status)
            .unwrap_or_else(|error| unreachable!("the table has statuses: {error}"));
        Self { kind, status, detail: None, member: None, cause: None }
    }

    /// With a sentence about this occurrence.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// With the cause, for the log alone. It is logged with the id of the request.
    #[must_use]
    pub fn caused_by(self, level: Level, error: impl Display) -> Self {
        Self { cause: Some((level, error.to_string())), ..self }
    }

    /// A request that makes no sense, and why.
    pub fn invalid(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidRequest).detail(detail)
    }

    /// A body beyond the limit: an invalid request, with the status that HTTP has for it.
    pub fn body_too_large() -> Self {
        let error = Self::invalid("the body is larger than this route takes");
        Self { status: StatusCode::PAYLOAD_TOO_LARGE, ..error }
    }

    /// Too many requests; `wait` until the next may succeed.
    pub fn too_many_requests(wait: Duration) -> Self {
        Refusal::too_many_requests(wait).into()
    }

    /// The request cannot be answered now.
    pub fn unavailable() -> Self {
        Refusal::unavailable(Duration::from_secs(1)).into()
    }

    /// With `Retry-After`: the request may succeed when `wait` is over.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        Self { member: Some(Member::RetryAfter(wait)), ..self }
    }

    fn to_json(&self, language: Language, request_id: &str) -> Vec<u8> {
        let document = ProblemDocument {
            r#type: format!("urn:seckill:problem:{}", self.kind.code),
            title: language.choose(self.kind.english_title, self.kind.chinese_title),
            status: self.status.as_u16(),
            code: self.kind.code,
            request_id,
            detail: self.detail.as_deref(),
            member: self.member.as_ref().filter(|it| !matches!(it, Member::RetryAfter(_))),
        };
        serde_json::to_vec(&document).unwrap_or_else(|error| unreachable!("only text: {error}"))
    }
}

#[derive(Serialize)]
struct ProblemDocument<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    code: &'static str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    #[serde(flatten)]
    member: Option<&'a Member>,
}

impl From<Refusal> for ApiError {
    fn from(Refusal { code, member, detail }: Refusal) -> Self {
        Self { member, detail, ..Self::new(code) }
    }
}

impl From<Stop> for ApiError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Refused(refusal) => refusal.into(),
            Stop::Failed(error) => error.into(),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if !error.retry_may_help() {
            return Self::new(Code::Internal).caused_by(Level::ERROR, error);
        }
        let answer = if error.outcome_unknown() {
            let detail = "it is not known whether what was asked for was done: look before asking \
                          again";
            Self::unavailable().detail(detail)
        } else {
            Self::unavailable()
        };
        answer.caused_by(Level::DEBUG, error)
    }
}

/// As the table in purchase/error.rs says.
impl From<PurchaseError> for ApiError {
    fn from(error: PurchaseError) -> Self {
        let failure = error.failure();
        let answer = failure.answer();
        let level = if failure.is_defect() { Level::ERROR } else { Level::DEBUG };
        let told = match answer.retry_after {
            Some(wait) => Self::unavailable().retry_after(wait),
            None => Self::new(Code::Internal),
        };
        Self { detail: answer.detail.map(Cow::Borrowed), ..told }.caused_by(level, error)
    }
}

impl IntoResponse for ApiError {
    /// Without a body: [`write`] adds it.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        let headers = response.headers_mut();
        if let Some(Member::RetryAfter(wait)) = self.member {
            // Whole seconds, rounded up, so that a client that obeys is not refused again.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, seconds.max(1).into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// Writes the body of an [`ApiError`], if that is what `response` is made of, and logs its cause. The error stays in
/// the extensions, for a layer outside that writes it otherwise.
pub(super) fn write(
    mut response: Response,
    language: Language,
    request_id: &HeaderValue,
) -> Response {
    let Some(error) = response.extensions().get::<Arc<ApiError>>().cloned() else {
        return response;
    };
    let request_id = request_id.to_str().unwrap_or_default();
    // What happens by the thousand when it happens is `DEBUG`: the metrics count it, and what changed is logged once, by the
    // store's handle or the circuit breaker.
    let code = error.kind.code;
    match &error.cause {
        Some((Level::ERROR, error)) => {
            tracing::error!(%error, code, request_id, "a request failed")
        }
        Some((_, error)) => tracing::debug!(%error, code, request_id, "a request failed"),
        None => {}
    }
    *response.body_mut() = error.to_json(language, request_id).into();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(header::CONTENT_LANGUAGE, HeaderValue::from_static(language.tag()));
    headers.insert(header::VARY, HeaderValue::from_static("accept-language"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{OrderIdError, Service};

    #[test]
    fn a_failed_purchase_is_answered_as_the_table_says() {
        let errors = [
            PurchaseError::Panicked,
            PurchaseError::Overloaded,
            OrderIdError::SequenceExhausted(1).into(),
            PurchaseError::Order(StoreError::defect(Service::Postgres, "a constraint")),
        ];
        for error in errors {
            let answer = error.failure().answer();
            let (status, code) = match answer.retry_after {
                Some(_) => (503, "unavailable"),
                None => (500, "internal_error"),
            };
            let told = ApiError::from(error);
            assert_eq!((told.status.as_u16(), told.kind.code), (status, code));
            // The metrics count it under the same word.
            assert_eq!(answer.outcome(), code);
            assert_eq!(told.detail.as_deref(), answer.detail);
            assert_eq!(told.member, answer.retry_after.map(Member::RetryAfter));
        }
    }
}
