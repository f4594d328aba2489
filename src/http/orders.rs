//! Buying, and one's own orders.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::auth::{AdminSession, Session};
use super::body::OptionalJsonBody;
use super::problem::{Code, Refusal};
use super::query::{Page, UrlQuery, next_page};
use super::schemas::Id;
use super::vouchers::PathId;
use super::{ApiError, App};
use crate::model::{Order, OrderId, Outcome, UserId, VoucherId};
use crate::purchase::PurchaseError;
use crate::store::Stop;
use crate::store::order_steps::{self, Actor, AdministratorStep, LoggedStep};
use crate::store::orders::{self, OrderKey};
use crate::telemetry::name;

/// Which order a path names.
#[derive(Debug, Clone, Copy)]
pub struct OrderPath(pub OrderKey);

/// The voucher of an order whose id is not enough.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct VoucherOfOrder {
    /// The order's voucher: needed only after the answer `order_ambiguous`
    #[param(value_type = Option<Id>)]
    pub voucher_id: Option<VoucherId>,
}

impl<S: Send + Sync> FromRequestParts<S> for OrderPath {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let PathId(id) = PathId::from_request_parts(parts, state).await?;
        let UrlQuery(VoucherOfOrder { voucher_id: voucher }) =
            UrlQuery::from_request_parts(parts, state).await?;
        Ok(Self(OrderKey { id, voucher }))
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
/// A body that names another user is refused (403). A buyer who asks too often, or too soon after an order that was cancelled or not
/// paid, is to wait (429). 500 is a defect: asking again names the order, if there is one.
#[utoipa::path(post, path = "/api/vouchers/{id}/orders", tag = "orders",
    request_body(content = BuyBody, description = "may be left out"),
    responses((status = 201, body = Order, description = "bought",
        headers(("Location" = String, description = "the order")))))]
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
            Ok((StatusCode::CREATED, location, Json(order)).into_response())
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
#[utoipa::path(get, path = "/api/orders", operation_id = "list_orders", params(Page<OrderId>),
    responses((status = 200, body = [Order], description = "a page",
        headers(("Link" = String, description = "the next page, if there may be one")))))]
pub async fn list(
    State(app): State<App>,
    session: Session,
    UrlQuery(page): UrlQuery<Page<OrderId>>,
) -> Result<(Option<[(HeaderName, String); 1]>, Json<Vec<Order>>), ApiError> {
    let pool = app.database.pool();
    let orders = orders::list_of_user(pool, session.user, page.before, page.limit.0).await?;
    let ids = orders.iter().map(|order| order.id.to_string());
    Ok((next_page("/api/orders?before=", page.limit, ids), Json(orders)))
}

/// One of the user's own orders. Another user's order is not found.
#[utoipa::path(get, path = "/api/orders/{id}", operation_id = "find_order", params(VoucherOfOrder),
    responses((status = 200, body = Order, description = "the order")))]
pub async fn find(
    State(app): State<App>,
    session: Session,
    OrderPath(key): OrderPath,
) -> Result<Json<Order>, ApiError> {
    Ok(Json(orders::find(app.database.pool(), key, Some(session.user)).await?))
}

/// Cancels an unpaid order: one's own, or anybody's for an administrator. Its voucher is on sale again, and
/// its buyer may buy again.
#[utoipa::path(post, path = "/api/orders/{id}/cancellation", operation_id = "cancel_order",
    params(VoucherOfOrder), responses((status = 200, body = Order, description = "it is cancelled")))]
pub async fn cancel(
    State(app): State<App>,
    session: Session,
    OrderPath(key): OrderPath,
) -> Result<Json<Order>, ApiError> {
    let own = app.orders.cancel(key, Actor::Buyer(session.user)).await;
    let cancelled = match own {
        Err(Stop::Refused(Refusal { code: Code::OrderNotFound, .. }))
            if session.may_administer(&app).await? =>
        {
            app.orders.cancel(key, Actor::Administrator(Some(session.user))).await
        }
        own => own,
    };
    Ok(Json(cancelled?))
}

/// Gives the money of a paid order back. The order is refunded, and its voucher on sale again, when the payment
/// gateway has it; an order that cost nothing, at once.
#[utoipa::path(post, path = "/api/orders/{id}/refund", operation_id = "refund_order",
    params(VoucherOfOrder),
    responses((status = 202, body = Order, description = "the money is on its way back")))]
pub async fn refund(
    State(app): State<App>,
    admin: AdminSession,
    OrderPath(key): OrderPath,
) -> Result<(StatusCode, Json<Order>), ApiError> {
    let order = app.orders.administer(AdministratorStep::Refund, key, Some(admin.user)).await?;
    Ok((StatusCode::ACCEPTED, Json(order)))
}

/// Redeems a paid order, once.
#[utoipa::path(post, path = "/api/orders/{id}/redemption", operation_id = "redeem_order",
    params(VoucherOfOrder), responses((status = 200, body = Order, description = "it is used")))]
pub async fn redeem(
    State(app): State<App>,
    admin: AdminSession,
    OrderPath(key): OrderPath,
) -> Result<Json<Order>, ApiError> {
    Ok(Json(app.orders.administer(AdministratorStep::Redeem, key, Some(admin.user)).await?))
}

/// Ends a refund that the payment gateway does not take: an administrator has given the money back outside it. The
/// order is refunded, its voucher is on sale again, and the gateway is not asked any more.
#[utoipa::path(post, path = "/api/orders/{id}/settlement", operation_id = "settle_order",
    params(VoucherOfOrder), responses((status = 200, body = Order, description = "it is refunded")))]
pub async fn settle(
    State(app): State<App>,
    admin: AdminSession,
    OrderPath(key): OrderPath,
) -> Result<Json<Order>, ApiError> {
    let step = AdministratorStep::SettleOutside;
    Ok(Json(app.orders.administer(step, key, Some(admin.user)).await?))
}

/// The steps that an order has taken after the purchase, the oldest first: what, by whom, when.
#[utoipa::path(get, path = "/api/orders/{id}/steps", operation_id = "list_steps",
    params(VoucherOfOrder), responses((status = 200, body = [LoggedStep], description = "the log")))]
pub async fn list_steps(
    State(app): State<App>,
    _: AdminSession,
    OrderPath(key): OrderPath,
) -> Result<Json<Vec<LoggedStep>>, ApiError> {
    let pool = app.database.pool();
    let order = orders::find(pool, key, None).await?;
    Ok(Json(order_steps::list_of(pool, &order).await?))
}
