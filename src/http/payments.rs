//! Payments: a buyer begins one, and the payment gateway says what became of it.

use std::fmt::Display;
use std::time::Duration;

use async_trait::async_trait;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::auth::{AdminSession, Session};
use super::orders::{OrderPath, VoucherOfOrder};
use super::problem::Code;
use super::query::{Page, PageLimit, UrlQuery, next_page};
use super::schemas::{Amount, Id, PageSize};
use super::vouchers::PathId;
use super::webhook::{SIGNATURE, Webhook};
use super::{ApiError, App};
use crate::config::UrlSchemes;
use crate::model::whole_number::maybe_whole_number;
use crate::model::{Refusal, UnmatchedId};
use crate::orders::{AnnounceError, GatewayError, PaymentGateway, PaymentRequest, RefundRequest};
use crate::store::notices::{Money, Notice, NoticeOutcome};
use crate::store::payments::{OpenPayment, PaymentId};
use crate::store::refunds::{self, Refund};
use crate::store::unmatched_payments::{self, UnmatchedPayment};

/// When a gateway is to say again what it said too early.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// The longest name that a gateway may give to money or to a payment, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// Of a scheme that is not accepted, the log has so much.
const MAX_SCHEME_BYTES: usize = 40;

/// The payment gateway of an operator: a service that takes signed messages, and sends some.
///
/// `{"type": "payment", "payment_id", "order_id", "amount", "pay_by"}` is answered `{"pay_url"}`;
/// `{"type": "payment_status", "payment_id"}` is answered with what a notification would say, or `{"status": "pending"}`;
/// `{"type": "refund", "refund_id", "payment_id", "transaction_id", "amount"}` and
/// `{"type": "cancellation", "payment_id", "order_id"}` are answered with any 2xx. Each may come more than once, by
/// the same name.
#[derive(Debug)]
pub struct PaymentWebhook {
    /// Takes the messages.
    pub webhook: Webhook,
    /// How an address begins to which buyers are sent.
    pub schemes: UrlSchemes,
}

impl PaymentWebhook {
    /// Sends `message` once: its buyer asks again, or it is a row in the database, which is tried again from there.
    async fn send(&self, message: &serde_json::Value) -> Result<Bytes, GatewayError> {
        self.webhook.send(message, 1).await.map_err(GatewayError)
    }
}

#[async_trait]
impl PaymentGateway for PaymentWebhook {
    async fn request_payment(&self, request: PaymentRequest) -> Result<String, AnnounceError> {
        #[derive(Deserialize)]
        struct Announced {
            pay_url: String,
        }
        let message = json!({
            "type": "payment", "payment_id": request.payment.to_string(),
            "order_id": request.payment.order, "amount": request.amount, "pay_by": request.pay_by,
        });
        let answer: Result<Announced, _> = serde_json::from_slice(&self.send(&message).await?);
        let answer = answer.map_err(|error| GatewayError(format!("no pay_url: {error}")))?;
        accepted_address(&answer.pay_url, &self.schemes).map_err(AnnounceError::PayUrl)
    }

    async fn payment_status(&self, payment: PaymentId) -> Result<Option<Notice>, GatewayError> {
        let message = json!({ "type": "payment_status", "payment_id": payment.to_string() });
        status_of(payment, &self.send(&message).await?)
    }

    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
        let RefundRequest { refund_id, payment, transaction_id, amount } = request;
        let message = json!({
            "type": "refund", "refund_id": refund_id, "payment_id": payment.to_string(),
            "transaction_id": transaction_id, "amount": amount,
        });
        self.send(&message).await.map(drop)
    }

    async fn cancel_payment(&self, payment: PaymentId) -> Result<(), GatewayError> {
        let message = json!({
            "type": "cancellation", "payment_id": payment.to_string(), "order_id": payment.order,
        });
        self.send(&message).await.map(drop)
    }
}

/// What a gateway's answer says of `payment`, in the words of a notification; `None`: it is not paid until now.
pub(crate) fn status_of(payment: PaymentId, answer: &[u8]) -> Result<Option<Notice>, GatewayError> {
    let unusable = |why: &dyn Display| GatewayError(format!("it says no status: {why}"));
    let mut answer: Map<String, Value> =
        serde_json::from_slice(answer).map_err(|error| unusable(&error))?;
    let (asked, named) = (payment.to_string(), answer.get("payment_id"));
    if named.is_some_and(|named| *named != asked) {
        return Err(unusable(&"it is of another payment"));
    }
    if answer.get("status").is_some_and(|status| status == "pending") {
        return Ok(None);
    }
    answer.insert("payment_id".to_owned(), asked.into());
    let said: NotificationBody =
        serde_json::from_value(answer.into()).map_err(|error| unusable(&error))?;
    match said.check().map_err(|why| unusable(&why))?.1 {
        notice @ (Notice::Succeeded(_) | Notice::Failed) => Ok(Some(notice)),
        _ => Err(unusable(&"that is told by a notification")),
    }
}

/// `text` as browsers read it: a script must not hide in it. Otherwise why nobody is sent there; the address itself may be the
/// key to a payment.
fn accepted_address(text: &str, schemes: &UrlSchemes) -> Result<String, String> {
    let url = url::Url::parse(text).map_err(|error| format!("is no address: {error}"))?;
    let scheme = url.scheme();
    if schemes.contain(scheme) {
        return Ok(url.into());
    }
    let scheme = &scheme[..scheme.len().min(MAX_SCHEME_BYTES)];
    Err(format!("begins with {scheme}:, which SECKILL_PAYMENTS_SCHEMES does not name"))
}

/// Begins a payment of one's own order, or finds the one that is pending: who asks twice pays once.
///
/// 503 with `Retry-After: 60`: no payment gateway is set up.
#[utoipa::path(post, path = "/api/orders/{id}/payments", operation_id = "pay", params(VoucherOfOrder),
    responses((status = 201, body = OpenPayment, description = "where to pay and until when")))]
pub async fn create(
    State(app): State<App>,
    session: Session,
    OrderPath(key): OrderPath,
) -> Result<(StatusCode, Json<OpenPayment>), ApiError> {
    let mut payment = app.orders.pay(key, session.user).await?;
    // The sandbox's page is one of this server's.
    if payment.pay_url.starts_with('/') {
        payment.pay_url = app.settings.base_path.address(&payment.pay_url);
    }
    Ok((StatusCode::CREATED, Json(payment)))
}

/// What became of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotifiedStatus {
    /// The gateway took the money.
    Succeeded,
    /// It took nothing.
    Failed,
    /// It gave the money back, or a part of it, without being asked by this server.
    Refunded,
    /// The buyer's bank took the money back, or a part of it.
    ChargedBack,
    /// A return failed after all: a refund that it was asked for, or its own.
    RefundFailed,
    /// The buyer's bank gave back what it had taken.
    ChargeBackWon,
}

/// What the payment gateway says of a payment. Members that are not named here are left alone.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct NotificationBody {
    /// The payment, as it was announced.
    pub payment_id: String,
    /// What became of it.
    pub status: NotifiedStatus,
    /// The gateway's own name of the money that it took; may be left out only if the payment failed.
    #[serde(default)]
    pub transaction_id: Option<String>,
    /// What was taken or given back, in the currency's smallest unit; may be left out only if the payment failed.
    #[schema(value_type = Option<Amount>)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub amount: Option<i64>,
    /// The gateway's own name of what it gave back. Without one, each notice counts as another part. A refund that failed has to be
    /// named: by this name, or by the `refund_id` that the gateway got. A charge-back that was won has to be named if it was a part.
    #[serde(default)]
    pub return_id: Option<String>,
}

impl NotificationBody {
    /// What it says of which payment; or what is wrong with it.
    fn check(self) -> Result<(String, Notice), &'static str> {
        let is_name =
            |name: &str| (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.contains('\0');
        if !is_name(&self.payment_id) {
            return Err("payment_id must have 1 to 200 bytes, and no NUL");
        }
        if self.status == NotifiedStatus::Failed {
            return Ok((self.payment_id, Notice::Failed));
        }
        let (Some(transaction), Some(amount)) = (self.transaction_id, self.amount) else {
            return Err("money has a transaction_id and an amount");
        };
        let return_id = self.return_id;
        if !is_name(&transaction) || !return_id.as_deref().is_none_or(is_name) || amount <= 0 {
            return Err(
                "a transaction_id and a return_id have 1 to 200 bytes and no NUL, and an amount is positive",
            );
        }
        if self.status == NotifiedStatus::RefundFailed && return_id.is_none() {
            return Err(
                "a refund that failed is named in return_id: its refund_id, or the gateway's own name",
            );
        }
        let money = Money { transaction, amount, return_id };
        let notice = match self.status {
            NotifiedStatus::Failed => Notice::Failed,
            NotifiedStatus::Succeeded => Notice::Succeeded(money),
            NotifiedStatus::Refunded => Notice::Refunded(money),
            NotifiedStatus::ChargedBack => Notice::ChargedBack(money),
            NotifiedStatus::RefundFailed => Notice::RefundFailed(money),
            NotifiedStatus::ChargeBackWon => Notice::ChargeBackWon(money),
        };
        Ok((self.payment_id, notice))
    }
}

/// The payment gateway says what became of a payment.
///
/// The header `seckill-signature` is `t=<unix seconds>,v1=<hexadecimal HMAC-SHA256 of "<t>.<body>">`, with the
/// secret that both share; there may be several `v1`, of which one has to be right. A notification may come twice,
/// late, or out of order: the same transaction is applied once, also if it is said to have gone back before it is
/// said to have come. Money for an order that cannot take it is given back; money for a payment that is not ours is
/// kept, and shown to administrators. If a part of the money went back, a refund is of the rest; more than is left is refused (422).
/// If a refund failed after all, it is asked for by another `refund_id`. 503, also of a return that failed, or was won, and was
/// not told yet: send it again.
#[utoipa::path(post, path = "/api/payments/notifications", operation_id = "notify_payment",
    request_body = NotificationBody,
    responses((status = 204, description = "it is settled, now or before")))]
pub async fn notify(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let signature = headers.get(SIGNATURE).and_then(|value| value.to_str().ok());
    accept(&app, signature, &body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes a notification: `body`, and its signature.
pub async fn accept(app: &App, signature: Option<&str>, body: &[u8]) -> Result<(), ApiError> {
    let signed = app.payment_key.as_ref().zip(signature);
    let is_signed = signed.is_some_and(|(key, signature)| key.verifies(signature, body));
    if !is_signed {
        return Err(ApiError::new(Code::Forbidden).detail("the signature is missing or wrong"));
    }
    settle(app, body).await.inspect_err(|error| {
        if error.kind.code == Code::InvalidRequest.as_str() {
            // The gateway may not look at the answer.
            let payment = serde_json::from_slice::<Value>(body).ok();
            let payment = payment.as_ref().and_then(|body| body["payment_id"].as_str());
            let why = error.detail.as_deref();
            tracing::warn!(payment, why, "a notification of the payment gateway is refused");
        }
    })
}

/// Takes a notification whose signature is right.
async fn settle(app: &App, body: &[u8]) -> Result<(), ApiError> {
    let notification: NotificationBody = super::body::parse(body)?;
    let (payment, notice) = notification.check().map_err(ApiError::invalid)?;
    // Only now: nobody who is slow or unknown holds a permit.
    let permit = app.memory().limits.notifications.take(None)?;
    // What has begun runs to its end, also if the gateway hangs up.
    let app = app.clone();
    let settling = tokio::spawn(async move {
        let _permit = permit;
        app.orders.take_notice(&payment, &notice).await
    });
    match settling.await.map_err(|_panic| ApiError::new(Code::Internal))?? {
        NoticeOutcome::Partial => Err(ApiError::invalid("the amount is more than what is left")),
        NoticeOutcome::OtherAmount => {
            Err(ApiError::invalid("the amount is not what went back: name a part in return_id"))
        }
        NoticeOutcome::WasRefunded => Err(ApiError::invalid(
            "this payment succeeded and was refunded: if the refund failed, send `refund_failed`",
        )),
        NoticeOutcome::TooEarly => {
            let why = "this return is not known yet: send what went back first, then this again";
            Err(Refusal::unavailable(TELL_AGAIN).detail(why).into())
        }
        _ => Ok(()),
    }
}

/// Which refunds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefundsQuery {
    after: Option<PaymentId>,
    #[serde(default)]
    limit: PageLimit,
}

/// Money that waits to be given back, and payments of which a part went back unasked, or more than was paid; of the oldest order first.
#[utoipa::path(get, path = "/api/refunds", operation_id = "list_refunds",
    params(
        ("after" = Option<String>, Query, description = "only what comes after the refund of this payment"),
        ("limit" = Option<PageSize>, Query, description = "1 to 100, 20 when left out"),
    ),
    responses((status = 200, body = [Refund], description = "a page",
        headers(("Link" = String, description = "the next page, if there may be one")))))]
pub async fn list_refunds(
    State(app): State<App>,
    _: AdminSession,
    UrlQuery(page): UrlQuery<RefundsQuery>,
) -> Result<(Option<[(HeaderName, String); 1]>, Json<Vec<Refund>>), ApiError> {
    let refunds = refunds::list_open(app.database.pool(), page.after, page.limit.0).await?;
    let ids = refunds.iter().map(|refund| refund.payment_id.to_string());
    Ok((next_page("/api/refunds?after=", page.limit, ids), Json(refunds)))
}

/// Money that the gateway took for a payment that is not ours, the newest first.
#[utoipa::path(get, path = "/api/payments/unmatched", operation_id = "list_unmatched_payments",
    params(Page<UnmatchedId>),
    responses((status = 200, body = [UnmatchedPayment], description = "a page",
        headers(("Link" = String, description = "the next page, if there may be one")))))]
pub async fn list_unmatched(
    State(app): State<App>,
    _: AdminSession,
    UrlQuery(page): UrlQuery<Page<UnmatchedId>>,
) -> Result<(Option<[(HeaderName, String); 1]>, Json<Vec<UnmatchedPayment>>), ApiError> {
    let found = unmatched_payments::list(app.database.pool(), page.before, page.limit.0).await?;
    let ids = found.iter().map(|payment| payment.id.to_string());
    Ok((next_page("/api/payments/unmatched?before=", page.limit, ids), Json(found)))
}

/// Marks money that the gateway took for a payment that is not ours as settled: the alert and `seckill doctor` count it no more. The
/// first administrator who does so, and the time, are kept.
#[utoipa::path(post, path = "/api/payments/unmatched/{id}/resolution",
    operation_id = "resolve_unmatched_payment",
    params(("id" = Id, Path, description = "as the list names it")),
    responses((status = 200, body = UnmatchedPayment, description = "it is settled, now or before")))]
pub async fn resolve_unmatched(
    State(app): State<App>,
    AdminSession { user }: AdminSession,
    PathId(id): PathId<UnmatchedId>,
) -> Result<Json<UnmatchedPayment>, ApiError> {
    let resolved = unmatched_payments::resolve(app.database.pool(), id, user).await?;
    resolved.map(Json).ok_or_else(|| ApiError::new(Code::NotFound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buyers_are_sent_to_addresses_with_a_scheme_of_the_list_alone() {
        let read = |text: &str| {
            let schemes: UrlSchemes = "http,https,weixin".parse()?;
            accepted_address(text, &schemes)
        };
        for (text, address) in [
            ("https://pay.example", "https://pay.example/"),
            ("weixin://wxpay/bizpayurl?pr=aBc9", "weixin://wxpay/bizpayurl?pr=aBc9"),
            // As a browser reads it.
            (" WEIXIN:\n//wxpay/a b", "weixin://wxpay/a%20b"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(address));
        }
        let refused = |scheme: &str| {
            Err(format!("begins with {scheme}:, which SECKILL_PAYMENTS_SCHEMES does not name"))
        };
        assert_eq!(read("alipays://platformapi/startapp?token=secret"), refused("alipays"));
        assert_eq!(read("java\tscript:alert(document.cookie)"), refused("javascript"));
        let long = "x".repeat(4_000);
        assert_eq!(read(&format!("{long}:")), refused(&long[..MAX_SCHEME_BYTES]));
        for text in ["", "pay.example/7", "/pay/7", "https://", "€://pay.example"] {
            assert!(read(text).is_err_and(|why| why.starts_with("is no address: ")), "{text}");
        }
    }
}
