//! How early a buyer of the shop was.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};

use seckill::http::auth::Session;
use seckill::http::problem::Code;
use seckill::http::{ApiError, App, Language};
use seckill::model::OrderId;
use seckill::store::orders;

#[derive(Debug, Deserialize)]
pub(super) struct PlaceQuery {
    order: String,
}

/// How early an order was.
#[derive(Debug, Serialize)]
pub(super) struct PlaceBody {
    /// No more orders than these were made before it, and itself.
    among_first: i64,
    /// As many as were put on sale.
    of: i32,
    /// The same as a sentence.
    text: String,
}

/// Where the buyer's own order stands.
pub(super) async fn find(
    State(app): State<App>,
    session: Session,
    query: Result<Query<PlaceQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Json<PlaceBody>, ApiError> {
    let not_found = || ApiError::new(Code::OrderNotFound);
    let query = query.map_err(|rejection| ApiError::invalid(rejection.body_text()))?;
    let id: OrderId = query.order.parse().map_err(|_| not_found())?;
    let pool = app.database.pool();
    let order =
        orders::find(pool, id.into(), Some(session.user)).await?.order().ok_or_else(not_found)?;
    let sale = app.purchases.sale(order.voucher_id).await?.ok_or_else(not_found)?;
    // Of all orders that are there: one with a smaller number may come later, so that a count of those below
    // this one would promise too much.
    let among_first = orders::count_live(pool, order.voucher_id).await?;
    let of = sale.voucher.initial_stock;
    let text = match Language::preferred(&headers) {
        Language::English if among_first == 1 => format!("You were the first of {of}."),
        Language::Chinese if among_first == 1 => format!("您是第一位，共 {of} 张。"),
        Language::English => format!("You were among the first {among_first} of {of}."),
        Language::Chinese => format!("您在前 {among_first} 名之内，共 {of} 张。"),
    };
    Ok(Json(PlaceBody { among_first, of, text }))
}
