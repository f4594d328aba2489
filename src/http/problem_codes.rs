//! The kinds of problems: a stable code, its status, and its title in two languages.

use axum::http::StatusCode;

use super::language::Language;

/// The kind of problem, as the client's program sees it. The codes are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    /// Status, code, English title, Chinese title.
    #[allow(clippy::too_many_lines)] // a table
    const fn row(self) -> (StatusCode, &'static str, &'static str, &'static str) {
        use StatusCode as S;
        match self {
            Self::InvalidRequest => {
                (S::UNPROCESSABLE_ENTITY, "invalid_request", "The request is not valid", "请求无效")
            }
            Self::Unauthenticated => {
                (S::UNAUTHORIZED, "unauthenticated", "Log in first", "请先登录")
            }
            Self::Forbidden => (S::FORBIDDEN, "forbidden", "You may not do this", "没有权限"),
            Self::NotFound => (S::NOT_FOUND, "not_found", "There is nothing here", "资源不存在"),
            Self::MethodNotAllowed => (
                S::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "This route does not take this method",
                "请求方法不被允许",
            ),
            Self::VoucherNotFound => {
                (S::NOT_FOUND, "voucher_not_found", "There is no such voucher", "优惠券不存在")
            }
            Self::OrderNotFound => {
                (S::NOT_FOUND, "order_not_found", "There is no such order", "订单不存在")
            }
            Self::SoldOut => (S::CONFLICT, "sold_out", "The voucher is sold out", "库存不足"),
            Self::AlreadyBought => (
                S::CONFLICT,
                "already_bought",
                "You have bought this voucher already",
                "用户已经购买过一次",
            ),
            Self::OrderInProgress => (
                S::CONFLICT,
                "order_in_progress",
                "An order of yours is under way",
                "不允许重复下单",
            ),
            Self::SaleNotStarted => {
                (S::CONFLICT, "sale_not_started", "The sale has not begun", "秒杀尚未开始")
            }
            Self::SaleEnded => (S::CONFLICT, "sale_ended", "The sale is over", "秒杀已经结束"),
            Self::SalePaused => {
                (S::CONFLICT, "sale_paused", "The sale is paused for a while", "秒杀已暂停")
            }
            Self::OrderState => (
                S::CONFLICT,
                "order_state",
                "The order is in a state that does not allow this",
                "订单当前状态不允许此操作",
            ),
            Self::OrderAmbiguous => (
                S::CONFLICT,
                "order_ambiguous",
                "Orders of several vouchers have this id: name the voucher",
                "该订单号对应多个优惠券，请指定优惠券",
            ),
            Self::SaleCancelled => (
                S::CONFLICT,
                "sale_cancelled",
                "The sale was cancelled for good",
                "秒杀活动已取消，不可恢复",
            ),
            Self::StockIsSold => (
                S::CONFLICT,
                "stock_is_sold",
                "More are sold than there would be",
                "已售数量超过新的总库存",
            ),
            Self::TooManyRequests => (
                S::TOO_MANY_REQUESTS,
                "too_many_requests",
                "Too many requests, wait a little",
                "请求过于频繁，请稍后再试",
            ),
            Self::Unavailable => (
                S::SERVICE_UNAVAILABLE,
                "unavailable",
                "The service is unavailable for a moment",
                "服务暂不可用，请稍后再试",
            ),
            Self::Internal => (
                S::INTERNAL_SERVER_ERROR,
                "internal_error",
                "The service failed on a defect of its own",
                "服务器内部错误",
            ),
            Self::Added(kind) => (kind.status, kind.code, kind.english_title, kind.chinese_title),
        }
    }

    /// The status of the answer.
    pub const fn status(self) -> StatusCode {
        self.row().0
    }

    /// The `code` member.
    pub const fn as_str(self) -> &'static str {
        self.row().1
    }

    /// The `title` member.
    pub const fn title(self, language: Language) -> &'static str {
        match language {
            Language::English => self.row().2,
            Language::Chinese => self.row().3,
        }
    }
}
