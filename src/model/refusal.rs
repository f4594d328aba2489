//! Refusals: every reason for which something that was asked for is not done, each in one row of one table.
//!
//! The word of a row is what a database function returns and what the API sends as `code`. A new refusal is a row here, the
//! condition that finds it, and its name among the codes of each route that answers it, in the table of http/router.rs; the
//! outcome of a purchase also needs `code_…` in pages/board.toml. A new kind of [`Member`] is a variant, a line in
//! [`Refusal::read`], and a member of `Problem` in http/openapi.rs. (How a purchase can *fail* is another table, in
//! purchase/error.rs.)

use std::borrow::Cow;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{OrderId, OrderStatus, VoucherId};

/// What a client needs beside the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, strum::EnumDiscriminants)]
#[strum_discriminants(
    name(MemberKind),
    doc = "The kind of a [`Member`]; as text, its name.",
    allow(missing_docs)
)]
#[strum_discriminants(derive(strum::IntoStaticStr), strum(serialize_all = "snake_case"))]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the names say it
pub enum Member {
    OrderId(OrderId),
    OrderStatus(OrderStatus),
    VoucherIds(Vec<VoucherId>),
    BeginTime(DateTime<Utc>),
    /// Sent as the header `Retry-After`.
    #[serde(skip)]
    #[strum_discriminants(strum(serialize = "Retry-After"))]
    RetryAfter(Duration),
}

/// What is said of a kind of refusal.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct ProblemKind {
    /// The status of the HTTP answer.
    pub status: u16,
    pub code: &'static str,
    /// The member that every refusal of this kind has.
    pub member: Option<MemberKind>,
    pub english_title: &'static str,
    pub chinese_title: &'static str,
}

macro_rules! refusals {
    (@member) => { None };
    (@member $member:ident) => { Some(MemberKind::$member) };
    ($($name:ident $status:literal $word:literal [$($member:ident)?] $english:literal, $chinese:literal;)+) => {
        /// The kind of a refusal. The words are part of the interface.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs)] // the table says what each is
        pub enum Code {
            $($name),+
        }

        impl Code {
            /// Every code, for the documentation and the tests.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$name),+];

            /// Its row of the table.
            pub const fn kind(self) -> &'static ProblemKind {
                match self {
                    $(Self::$name => &ProblemKind {
                        status: $status,
                        code: $word,
                        member: refusals!(@member $($member)?),
                        english_title: $english,
                        chinese_title: $chinese,
                    }),+
                }
            }
        }
    };
}

refusals! {
    InvalidRequest 422 "invalid_request" []
        "The request is not valid", "请求无效";
    Unauthenticated 401 "unauthenticated" []
        "Log in first", "请先登录";
    Forbidden 403 "forbidden" []
        "You may not do this", "没有权限";
    NotFound 404 "not_found" []
        "There is nothing here", "资源不存在";
    MethodNotAllowed 405 "method_not_allowed" []
        "This route does not take this method", "请求方法不被允许";
    VoucherNotFound 404 "voucher_not_found" []
        "There is no such voucher", "优惠券不存在";
    OrderNotFound 404 "order_not_found" []
        "There is no such order", "订单不存在";
    SoldOut 409 "sold_out" []
        "The voucher is sold out", "库存不足";
    AlreadyBought 409 "already_bought" [OrderId]
        "You have bought this voucher already", "用户已经购买过一次";
    OrderInProgress 409 "order_in_progress" []
        "An order of yours is under way", "不允许重复下单";
    SaleNotStarted 409 "sale_not_started" [BeginTime]
        "The sale has not begun", "秒杀尚未开始";
    SaleEnded 409 "sale_ended" []
        "The sale is over", "秒杀已经结束";
    SalePaused 409 "sale_paused" []
        "The sale is paused for a while", "秒杀已暂停";
    DrawOpen 409 "draw_open" []
        "The voucher is given out by a draw that is still to come", "该券以抽签方式发放，尚未抽签";
    DrawClosed 409 "draw_closed" []
        "The draw does not allow this now", "抽签当前不允许此操作";
    LineOpen 409 "line_open" []
        "What comes back goes to those who stand in line: stand in line instead", "退回的券按排队顺序发放，请先排队";
    LineClosed 409 "line_closed" []
        "There is nothing to stand in line for", "该券当前无需排队";
    EntriesFull 409 "entries_full" []
        "No more entries are taken for this voucher", "该券的登记或排队人数已满";
    EntryNotFound 404 "entry_not_found" []
        "You have not entered", "您尚未登记或排队";
    OrderState 409 "order_state" [OrderStatus]
        "The order is in a state that does not allow this", "订单当前状态不允许此操作";
    OrderAmbiguous 409 "order_ambiguous" [VoucherIds]
        "Orders of several vouchers have this id: name the voucher", "该订单号对应多个优惠券，请指定优惠券";
    StockIsSold 409 "stock_is_sold" []
        "More are sold than there would be", "已售数量超过新的总库存";
    SaleCancelled 409 "sale_cancelled" []
        "The sale was cancelled for good", "秒杀活动已取消，不可恢复";
    TooManyRequests 429 "too_many_requests" [RetryAfter]
        "Too many requests, wait a little", "请求过于频繁，请稍后再试";
    Unavailable 503 "unavailable" [RetryAfter]
        "The service is unavailable for a moment", "服务暂不可用，请稍后再试";
    PayUrlRefused 503 "pay_url_refused" [RetryAfter]
        "The payment gateway gave an address that this server does not accept", "支付网关给出的支付地址不被本服务器接受";
    Internal 500 "internal_error" []
        "The service failed on a defect of its own", "服务器内部错误";
}

impl Code {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        self.kind().code
    }
}

impl From<Code> for &'static ProblemKind {
    fn from(code: Code) -> Self {
        code.kind()
    }
}

/// No refusal has this word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no refusal has this word")]
pub struct UnknownWord;

impl TryFrom<&str> for Code {
    type Error = UnknownWord;
    fn try_from(word: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|code| code.as_str() == word).ok_or(UnknownWord)
    }
}

/// Why something that was asked for is not done. An expected answer, not an error of the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct Refusal {
    /// Its kind.
    pub code: Code,
    /// As the table says.
    pub member: Option<Member>,
    /// A sentence about this occurrence.
    pub detail: Option<Cow<'static, str>>,
}

impl From<Code> for Refusal {
    fn from(code: Code) -> Self {
        Self { code, member: None, detail: None }
    }
}

impl Refusal {
    /// The refusal that a database function returned as `word`, with `order` and `until` beside it. `until` is by the database's
    /// clock, which now says `now`. `None`: no refusal has the word, or its member is not there.
    pub fn read(
        word: &str,
        order: Option<OrderId>,
        until: Option<DateTime<Utc>>,
        now: impl FnOnce() -> DateTime<Utc>,
    ) -> Option<Self> {
        let code = Code::try_from(word).ok()?;
        let member = match code.kind().member {
            None => None,
            Some(MemberKind::OrderId) => Some(Member::OrderId(order?)),
            Some(MemberKind::BeginTime) => Some(Member::BeginTime(until?)),
            Some(MemberKind::RetryAfter) => {
                Some(Member::RetryAfter((until? - now()).to_std().unwrap_or_default()))
            }
            Some(MemberKind::OrderStatus | MemberKind::VoucherIds) => return None,
        };
        Some(Self { member, ..code.into() })
    }

    /// For people, in English.
    fn sentence(&self) -> String {
        let said = match &self.member {
            Some(Member::OrderStatus(status)) => format!(": it is {}", status.as_str()),
            Some(Member::VoucherIds(vouchers)) => {
                let vouchers: Vec<String> = vouchers.iter().map(ToString::to_string).collect();
                format!(": {}", vouchers.join(", "))
            }
            _ => String::new(),
        };
        let detail = self.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
        format!("{}{said}{detail} ({})", self.code.kind().english_title, self.code.as_str())
    }

    /// With what its kind has beside the code.
    #[must_use]
    pub fn with(self, member: Member) -> Self {
        Self { member: Some(member), ..self }
    }

    /// With a sentence about this occurrence.
    #[must_use]
    pub fn detail(self, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// The buyer has this live order of the voucher.
    pub fn already_bought(order: OrderId) -> Self {
        Self::from(Code::AlreadyBought).with(Member::OrderId(order))
    }

    /// The same request may succeed when `wait` is over.
    pub fn too_many_requests(wait: Duration) -> Self {
        Self::from(Code::TooManyRequests).with(Member::RetryAfter(wait))
    }

    /// What was asked for cannot be done now; it may be when `wait` is over.
    pub fn unavailable(wait: Duration) -> Self {
        Self::from(Code::Unavailable).with(Member::RetryAfter(wait))
    }

    /// The order is in this state, which does not allow what was asked for.
    pub fn order_state(status: OrderStatus) -> Self {
        Self::from(Code::OrderState).with(Member::OrderStatus(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_names_one_refusal() {
        for code in Code::ALL {
            assert_eq!(Code::try_from(code.as_str()), Ok(code));
        }
        assert_eq!(Code::try_from("sold"), Err(UnknownWord));
    }

    #[test]
    fn a_refusal_reads_itself_from_the_words_of_the_database() {
        let (order, now) = (OrderId::try_from(7).ok(), DateTime::UNIX_EPOCH);
        let read = |word, order, until| Refusal::read(word, order, until, || now);
        assert_eq!(read("sold_out", None, None), Some(Code::SoldOut.into()));
        assert_eq!(read("already_bought", order, None), order.map(Refusal::already_bought));
        let wait = Duration::from_secs(2);
        assert_eq!(
            read("too_many_requests", None, Some(now + wait)),
            Some(Refusal::too_many_requests(wait))
        );
        // What the table says is missing.
        assert_eq!(read("already_bought", None, None), None);
        assert_eq!(read("sale_not_started", None, None), None);
    }
}
