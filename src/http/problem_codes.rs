//! The kinds of problems: a stable code, its status, and its title in two languages.

use axum::http::StatusCode;

use super::language::Language;

/// What a problem document says of its kind.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct ProblemKind {
    pub status: StatusCode,
    pub code: &'static str,
    pub english_title: &'static str,
    pub chinese_title: &'static str,
}

impl ProblemKind {
    /// The `title` member.
    pub const fn title(&self, language: Language) -> &'static str {
        match language {
            Language::English => self.english_title,
            Language::Chinese => self.chinese_title,
        }
    }
}

impl From<Code> for &'static ProblemKind {
    fn from(code: Code) -> Self {
        code.kind()
    }
}

macro_rules! codes {
    ($($name:ident: $status:ident, $code:literal, $english_title:literal, $chinese_title:literal;)+) => {
        /// The kind of problem, as the client's program sees it. The codes are part of the interface.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs)] // each says what it is
        pub enum Code {
            $($name),+
        }

        impl Code {
            /// Every code, for the documentation and the tests.
            pub const ALL: [Self; [$($code),+].len()] = [$(Self::$name),+];

            /// Its row of the table.
            pub const fn kind(self) -> &'static ProblemKind {
                match self {
                    $(Self::$name => &ProblemKind {
                        status: StatusCode::$status,
                        code: $code,
                        english_title: $english_title,
                        chinese_title: $chinese_title,
                    }),+
                }
            }
        }
    };
}

codes! {
    InvalidRequest: UNPROCESSABLE_ENTITY, "invalid_request",
        "The request is not valid", "请求无效";
    Unauthenticated: UNAUTHORIZED, "unauthenticated",
        "Log in first", "请先登录";
    Forbidden: FORBIDDEN, "forbidden",
        "You may not do this", "没有权限";
    NotFound: NOT_FOUND, "not_found",
        "There is nothing here", "资源不存在";
    MethodNotAllowed: METHOD_NOT_ALLOWED, "method_not_allowed",
        "This route does not take this method", "请求方法不被允许";
    VoucherNotFound: NOT_FOUND, "voucher_not_found",
        "There is no such voucher", "优惠券不存在";
    OrderNotFound: NOT_FOUND, "order_not_found",
        "There is no such order", "订单不存在";
    SoldOut: CONFLICT, "sold_out",
        "The voucher is sold out", "库存不足";
    AlreadyBought: CONFLICT, "already_bought",
        "You have bought this voucher already", "用户已经购买过一次";
    OrderInProgress: CONFLICT, "order_in_progress",
        "An order of yours is under way", "不允许重复下单";
    SaleNotStarted: CONFLICT, "sale_not_started",
        "The sale has not begun", "秒杀尚未开始";
    SaleEnded: CONFLICT, "sale_ended",
        "The sale is over", "秒杀已经结束";
    SalePaused: CONFLICT, "sale_paused",
        "The sale is paused for a while", "秒杀已暂停";
    DrawOpen: CONFLICT, "draw_open",
        "The voucher is drawn: enter the draw instead", "该券以抽签方式发放，请先登记抽签";
    DrawClosed: CONFLICT, "draw_closed",
        "The entries for the draw are closed", "抽签登记已截止";
    LineOpen: CONFLICT, "line_open",
        "What comes back goes to those who stand in line: stand in line instead", "退回的券按排队顺序发放，请先排队";
    LineClosed: CONFLICT, "line_closed",
        "There is nothing to stand in line for", "该券当前无需排队";
    EntryNotFound: NOT_FOUND, "entry_not_found",
        "You have not entered", "您尚未登记或排队";
    OrderState: CONFLICT, "order_state",
        "The order is in a state that does not allow this", "订单当前状态不允许此操作";
    OrderAmbiguous: CONFLICT, "order_ambiguous",
        "Orders of several vouchers have this id: name the voucher", "该订单号对应多个优惠券，请指定优惠券";
    StockIsSold: CONFLICT, "stock_is_sold",
        "More are sold than there would be", "已售数量超过新的总库存";
    SaleCancelled: CONFLICT, "sale_cancelled",
        "The sale was cancelled for good", "秒杀活动已取消，不可恢复";
    TooManyRequests: TOO_MANY_REQUESTS, "too_many_requests",
        "Too many requests, wait a little", "请求过于频繁，请稍后再试";
    Unavailable: SERVICE_UNAVAILABLE, "unavailable",
        "The service is unavailable for a moment", "服务暂不可用，请稍后再试";
    Internal: INTERNAL_SERVER_ERROR, "internal_error",
        "The service failed on a defect of its own", "服务器内部错误";
}

impl Code {
    /// The status of the answer.
    pub const fn status(self) -> StatusCode {
        self.kind().status
    }

    /// The `code` member.
    pub const fn as_str(self) -> &'static str {
        self.kind().code
    }
}
