//! Buying, and one's own orders.

use axum::Json;
use axum::extract::{FromRequestParts, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::auth::{AdminSession, Session};
use super::body::OptionalJsonBody;
use super::problem::{Code, Refusal};
use super::schemas::{Id, Limit};
use super::voucher_pages::next_page;
use super::vouchers::{Page, PathId};
use super::{ApiError, App};
use crate::model::{Order, OrderId, OrderStatus, Outcome, UserId, VoucherId};
use crate::purchase::PurchaseError;
use crate::store::Stop;
use crate::store::order_steps::{self, Actor, AdministratorStep, LoggedStep};
use crate::store::orders::{self, OrderKey};
use crate::telemetry::name;

/// The answer to the buyer of a voucher.
#[derive(Debug, Serialize, ToSchema)]
pub struct OrderedBody {
    /// The order.
    pub order_id: OrderId,
    /// The voucher.
    pub voucher_id: VoucherId,
    /// The buyer.
    pub user_id: UserId,
    /// When.
    pub created_at: DateTime<Utc>,
    /// Where the order stands.
    pub status: OrderStatus,
    /// What it costs, in the currency's smallest unit.
    pub amount: i64,
    /// An unpaid order is cancelled after this instant. Null: there was nothing to pay.
    #[schema(required = true)]
    pub pay_by: Option<DateTime<Utc>>,
}

/// An order.
#[derive(Debug, Serialize, ToSchema)]
pub struct OrderBody {
    /// The order.
    #[serde(flatten)]
    pub ordered: OrderedBody,
    /// When it was paid.
    #[schema(required = true)]
    pub paid_at: Option<DateTime<Utc>>,
    /// When it was redeemed.
    #[schema(required = true)]
    pub used_at: Option<DateTime<Utc>>,
    /// When it was cancelled.
    #[schema(required = true)]
    pub cancelled_at: Option<DateTime<Utc>>,
    /// When it was refunded.
    #[schema(required = true)]
    pub refunded_at: Option<DateTime<Utc>>,
    /// When the gateway took the money of a used order back. The order stays used.
    #[schema(required = true)]
    pub charged_back_at: Option<DateTime<Utc>>,
}

/// Which order a path names.
#[derive(Debug, Clone, Copy)]
pub struct OrderPath(pub OrderKey);

/// The voucher of an order whose id is not enough.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct VoucherOfOrder {
    /// The order's voucher: needed only after the answer `order_ambiguous`
    #[param(value_type = Option<Id>)]
    #[serde(default)]
    pub voucher_id: Option<VoucherId>,
}

impl<S: Send + Sync> FromRequestParts<S> for OrderPath {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let PathId(id) = PathId::from_request_parts(parts, state).await?;
        let voucher = Query::<VoucherOfOrder>::from_request_parts(parts, state).await;
        let Query(voucher) = voucher.map_err(|error| ApiError::invalid(error.body_text()))?;
        Ok(Self(OrderKey { id, voucher: voucher.voucher_id }))
    }
}

impl From<Order> for OrderBody {
    fn from(order: Order) -> Self {
        Self {
            ordered: OrderedBody {
                order_id: order.id,
                voucher_id: order.voucher_id,
                user_id: order.user_id,
                created_at: order.created_at,
                status: order.status,
                amount: order.amount,
                pay_by: order.pay_by,
            },
            paid_at: order.paid_at,
            used_at: order.used_at,
            cancelled_at: order.cancelled_at,
            refunded_at: order.refunded_at,
            charged_back_at: order.charged_back_at,
        }
    }
}

/// The body of a purchase, which may be left out.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BuyBody {
    /// The user as whom the client believes to buy; must be the user of the token.
    #[serde(default)]
    pub user_id: Option<UserId>,
}

/// Buys one voucher for the user of the token.
///
/// A body that names another user is refused (403). A buyer who asks too often, or too soon after a cancellation, is to wait
/// (429). 500 is a defect: asking again names the order, if there is one.
#[utoipa::path(post, path = "/api/vouchers/{id}/orders", tag = "orders",
    params(("id" = Id, Path, description = "the voucher")),
    request_body(content = BuyBody, description = "may be left out"),
    responses(
        (status = 201, body = OrderedBody, description = "bought",
            headers(("Location" = String, description = "the order"))),
    ))]
pub async fn buy(
    State(app): State<App>,
    session: Session,
    PathId(voucher): PathId<VoucherId>,
    OptionalJsonBody(body): OptionalJsonBody<BuyBody>,
) -> Result<Response, ApiError> {
    if body.and_then(|body| body.user_id).is_some_and(|user| user != session.user) {
        return Err(ApiError::new(Code::Forbidden).detail("you buy as the user of your token"));
    }
    match buy_counted(&app, session.user, voucher).await? {
        Outcome::Ordered(order) => {
            let location = [(header::LOCATION, format!("/api/orders/{}", order.id))];
            Ok((StatusCode::CREATED, location, Json(OrderBody::from(order).ordered))
                .into_response())
        }
        Outcome::Refused(refusal) => Err(refusal.into()),
    }
}

/// One attempt of `user` to buy `voucher`, counted.
///
/// # Errors
/// As [`Purchases::buy`](crate::purchase::Purchases::buy).
pub async fn buy_counted(
    app: &App,
    user: UserId,
    voucher: VoucherId,
) -> Result<Outcome, PurchaseError> {
    let bought = app.purchases.buy(user, voucher).await;
    let outcome = match &bought {
        Ok(outcome) => outcome.code(),
        Err(error) => error.failure().answer().outcome(),
    };
    metrics::counter!(name::PURCHASES, "outcome" => outcome).increment(1);
    bought
}

/// One's own orders, newest first.
#[utoipa::path(get, path = "/api/orders", tag = "orders", operation_id = "list_orders",
    params(
        ("before" = Option<Id>, Query, description = "only ids below this"),
        ("limit" = Option<Limit>, Query, description = "1 to 100, 20 when left out"),
    ),
    responses(
        (status = 200, body = [OrderBody], description = "a page",
            headers(("Link" = String, description = "the next page, where there may be one"))),
    ))]
pub async fn list(
    State(app): State<App>,
    session: Session,
    page: Result<Query<Page<OrderId>>, axum::extract::rejection::QueryRejection>,
) -> Result<(Option<[(HeaderName, String); 1]>, Json<Vec<OrderBody>>), ApiError> {
    let Query(page) = page.map_err(|error| ApiError::invalid(error.body_text()))?;
    let page = page.check()?;
    let pool = app.database.pool();
    let orders = orders::list_of_user(pool, session.user, page.before, page.limit).await?;
    let ids = orders.iter().map(|order| order.id.to_string());
    let link = next_page("/api/orders", page.limit, ids);
    Ok((link, Json(orders.into_iter().map(OrderBody::from).collect())))
}

/// One of the user's own orders. Another user's order is not found.
#[utoipa::path(get, path = "/api/orders/{id}", tag = "orders", operation_id = "find_order",
    params(("id" = Id, Path, description = "the order"), VoucherOfOrder),
    responses(
        (status = 200, body = OrderBody, description = "the order"),
    ))]
pub async fn find(
    State(app): State<App>,
    session: Session,
    OrderPath(key): OrderPath,
) -> Result<Json<OrderBody>, ApiError> {
    let found = orders::find(app.database.pool(), key, Some(session.user)).await?;
    Ok(Json(found.into()))
}

/// Cancels an unpaid order: one's own, or anybody's for an administrator. Its voucher is on sale again, and
/// its buyer may buy again.
#[utoipa::path(post, path = "/api/orders/{id}/cancellation", tag = "orders",
    operation_id = "cancel_order",
    params(("id" = Id, Path, description = "the order"), VoucherOfOrder),
    responses(
        (status = 200, body = OrderBody, description = "it is cancelled"),
    ))]
pub async fn cancel(
    State(app): State<App>,
    session: Session,
    OrderPath(key): OrderPath,
) -> Result<Json<OrderBody>, ApiError> {
    let own = app.orders.cancel(key, Actor::Buyer(session.user)).await;
    let cancelled = match own {
        Err(Stop::Refused(Refusal { code: Code::OrderNotFound, .. }))
            if session.may_administer(&app).await? =>
        {
            app.orders.cancel(key, Actor::Administrator(Some(session.user))).await
        }
        own => own,
    };
    Ok(Json(cancelled?.into()))
}

/// Gives the money of a paid order back. The order is refunded, and its voucher on sale again, when the payment
/// gateway has it; an order that cost nothing, at once.
#[utoipa::path(post, path = "/api/orders/{id}/refund", tag = "orders", operation_id = "refund_order",
    params(("id" = Id, Path, description = "the order"), VoucherOfOrder),
    responses(
        (status = 202, body = OrderBody, description = "the money is on its way back"),
    ))]
pub async fn refund(
    State(app): State<App>,
    admin: AdminSession,
    OrderPath(key): OrderPath,
) -> Result<(StatusCode, Json<OrderBody>), ApiError> {
    let order = app.orders.administer(AdministratorStep::Refund, key, Some(admin.user)).await?;
    Ok((StatusCode::ACCEPTED, Json(order.into())))
}

/// Redeems a paid order, once.
#[utoipa::path(post, path = "/api/orders/{id}/redemption", tag = "orders",
    operation_id = "redeem_order",
    params(("id" = Id, Path, description = "the order"), VoucherOfOrder),
    responses(
        (status = 200, body = OrderBody, description = "it is used"),
    ))]
pub async fn redeem(
    State(app): State<App>,
    admin: AdminSession,
    OrderPath(key): OrderPath,
) -> Result<Json<OrderBody>, ApiError> {
    let order = app.orders.administer(AdministratorStep::Redeem, key, Some(admin.user)).await?;
    Ok(Json(order.into()))
}

/// Ends a refund that the payment gateway does not take: an administrator has given the money back outside it. The
/// order is refunded, its voucher is on sale again, and the gateway is not asked any more.
#[utoipa::path(post, path = "/api/orders/{id}/settlement", tag = "orders",
    operation_id = "settle_order",
    params(("id" = Id, Path, description = "the order"), VoucherOfOrder),
    responses(
        (status = 200, body = OrderBody, description = "it is refunded"),
    ))]
pub async fn settle(
    State(app): State<App>,
    admin: AdminSession,
    OrderPath(key): OrderPath,
) -> Result<Json<OrderBody>, ApiError> {
    let step = AdministratorStep::SettleOutside;
    Ok(Json(app.orders.administer(step, key, Some(admin.user)).await?.into()))
}

/// The steps that an order has taken after the purchase, the oldest first: what, by whom, when.
#[utoipa::path(get, path = "/api/orders/{id}/steps", tag = "orders", operation_id = "list_steps",
    params(("id" = Id, Path, description = "the order"), VoucherOfOrder),
    responses(
        (status = 200, body = [LoggedStep], description = "the log"),
    ))]
pub async fn list_steps(
    State(app): State<App>,
    _: AdminSession,
    OrderPath(key): OrderPath,
) -> Result<Json<Vec<LoggedStep>>, ApiError> {
    let pool = app.database.pool();
    let order = orders::find(pool, key, None).await?;
    Ok(Json(order_steps::list_of(pool, &order).await?))
}
