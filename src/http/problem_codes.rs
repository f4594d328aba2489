//! The kinds of problems: a stable code, its status, and its title in two languages.

use axum::http::StatusCode;

use super::language::Language;
use super::texts::TextFile;

static TITLES: TextFile = TextFile::new(include_str!("problem_codes.toml"));

/// The kind of problem, as the client's program sees it. The codes are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs)] // each says what it is
pub enum Code {
    InvalidRequest,
    Unauthenticated,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    VoucherNotFound,
    OrderNotFound,
    SoldOut,
    AlreadyBought,
    OrderInProgress,
    SaleNotStarted,
    SaleEnded,
    SalePaused,
    OrderState,
    OrderAmbiguous,
    StockIsSold,
    SaleCancelled,
    TooManyRequests,
    Unavailable,
    #[strum(serialize = "internal_error")]
    Internal,
    /// Of a route that another program adds.
    Added(&'static ProblemKind),
}

/// A kind of problem of a route that another program adds to the server's.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct ProblemKind {
    pub status: StatusCode,
    pub code: &'static str,
    pub english_title: &'static str,
    pub chinese_title: &'static str,
}

impl Code {
    /// Every code of the server's own routes, for the documentation and the tests.
    pub const ALL: [Self; 20] = [
        Self::InvalidRequest,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::VoucherNotFound,
        Self::OrderNotFound,
        Self::SoldOut,
        Self::AlreadyBought,
        Self::OrderInProgress,
        Self::SaleNotStarted,
        Self::SaleEnded,
        Self::SalePaused,
        Self::OrderState,
        Self::OrderAmbiguous,
        Self::StockIsSold,
        Self::SaleCancelled,
        Self::TooManyRequests,
        Self::Unavailable,
        Self::Internal,
    ];

    /// The status of the answer.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::InvalidRequest => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound | Self::VoucherNotFound | Self::OrderNotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::SoldOut
            | Self::AlreadyBought
            | Self::OrderInProgress
            | Self::SaleNotStarted
            | Self::SaleEnded
            | Self::SalePaused
            | Self::OrderState
            | Self::OrderAmbiguous
            | Self::StockIsSold
            | Self::SaleCancelled => StatusCode::CONFLICT,
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Added(kind) => kind.status,
        }
    }

    /// The `code` member.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added(kind) => kind.code,
            own => own.into(),
        }
    }

    /// The `title` member.
    pub fn title(self, language: Language) -> &'static str {
        match (self, language) {
            (Self::Added(kind), Language::English) => kind.english_title,
            (Self::Added(kind), Language::Chinese) => kind.chinese_title,
            (own, _) => TITLES.of(language)[own.as_str()],
        }
    }
}
