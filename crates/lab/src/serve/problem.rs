//! Answers that are no success: problem documents (RFC 9457) with the codes of the production
//! API. Written anew, because the lab stands beside that API and not on it.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use ladder::{Answer, RungError};
use seckill::store::StoreError;

/// What went wrong, as a client's program sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LabCode {
    InvalidRequest,
    TooLarge,
    NotFound,
    MethodNotAllowed,
    RungNotFound,
    VoucherNotFound,
    SoldOut,
    AlreadyBought,
    OrderInProgress,
    OrderFailed,
    NoPurchase,
    Unavailable,
    Internal,
}

impl LabCode {
    /// Status, code, title.
    const fn row(self) -> (StatusCode, &'static str, &'static str) {
        use StatusCode as S;
        match self {
            Self::InvalidRequest => {
                (S::UNPROCESSABLE_ENTITY, "invalid_request", "The request is not valid")
            }
            Self::TooLarge => (S::PAYLOAD_TOO_LARGE, "invalid_request", "The request is not valid"),
            Self::NotFound => (S::NOT_FOUND, "not_found", "There is nothing here"),
            Self::MethodNotAllowed => (
                S::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "This route does not take this method",
            ),
            Self::RungNotFound => (S::NOT_FOUND, "rung_not_found", "There is no such rung"),
            Self::VoucherNotFound => {
                (S::NOT_FOUND, "voucher_not_found", "There is no such voucher")
            }
            Self::SoldOut => (S::CONFLICT, "sold_out", "The voucher is sold out"),
            Self::AlreadyBought => {
                (S::CONFLICT, "already_bought", "You have bought this voucher already")
            }
            Self::OrderInProgress => {
                (S::CONFLICT, "order_in_progress", "An order of yours is under way")
            }
            Self::OrderFailed => {
                (S::CONFLICT, "order_failed", "The order could not be carried out")
            }
            Self::NoPurchase => (S::NOT_FOUND, "no_purchase", "There is no order of this user"),
            Self::Unavailable => {
                (S::SERVICE_UNAVAILABLE, "unavailable", "The service is unavailable for a moment")
            }
            Self::Internal => (
                S::INTERNAL_SERVER_ERROR,
                "internal_error",
                "The service failed on a defect of its own",
            ),
        }
    }
}

/// A problem on its way to the client.
#[derive(Debug, Clone)]
pub(super) struct LabProblem {
    code: LabCode,
    detail: Option<String>,
}

impl LabProblem {
    /// One that its code says all about.
    pub(super) const fn new(code: LabCode) -> Self {
        Self { code, detail: None }
    }

    /// With a sentence about this occurrence.
    pub(super) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// A request that makes no sense, and why.
    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(LabCode::InvalidRequest).detail(detail)
    }

    /// Cannot be answered now, and why.
    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(LabCode::Unavailable).detail(detail)
    }

    /// The refusal that a rung's answer is; the order's id when it is none, or nothing when that
    /// is not known yet.
    pub(super) const fn refusal(answer: Answer) -> Result<Option<i64>, Self> {
        match answer {
            Answer::Ordered(order) => Ok(Some(order)),
            Answer::Accepted => Ok(None),
            Answer::SoldOut => Err(Self::new(LabCode::SoldOut)),
            Answer::AlreadyBought => Err(Self::new(LabCode::AlreadyBought)),
            Answer::InProgress => Err(Self::new(LabCode::OrderInProgress)),
            Answer::GivenUp => Err(Self::new(LabCode::OrderFailed)),
        }
    }
}

impl From<RungError> for LabProblem {
    fn from(error: RungError) -> Self {
        match error {
            // What it lacks is the lab's to say; that it lost its lock is what it teaches.
            RungError::Lacks(_) | RungError::LockLost => Self::unavailable(error.to_string()),
            _ => Self::new(LabCode::Unavailable),
        }
    }
}

/// What the lab's own look at the database came to.
impl From<StoreError> for LabProblem {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "answered 503");
        Self::new(LabCode::Unavailable)
    }
}

impl From<sqlx::Error> for LabProblem {
    fn from(error: sqlx::Error) -> Self {
        StoreError::from(error).into()
    }
}

impl IntoResponse for LabProblem {
    fn into_response(self) -> Response {
        let (status, code, title) = self.code.row();
        let mut document = json!({
            "type": format!("urn:seckill:problem:{code}"),
            "title": title,
            "status": status.as_u16(),
            "code": code,
        });
        if let Some(detail) = self.detail {
            document["detail"] = detail.into();
        }
        let problem = HeaderValue::from_static("application/problem+json");
        let mut response = (status, document.to_string()).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, problem);
        if self.code == LabCode::Unavailable {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
