//! How early an order of the shop was among those of its sale.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};

use super::api::ShowsState;
use seckill::http::auth::Session;
use seckill::http::problem::Code;
use seckill::http::{ApiError, Language};
use seckill::model::OrderId;
use seckill::store::{StoreError, orders};

#[derive(Debug, Deserialize)]
pub(super) struct PlaceQuery {
    order: String,
}

/// The place of an order.
#[derive(Debug, Serialize)]
pub(super) struct PlaceBody {
    place: i64,
    /// As many as were put on sale.
    of: i32,
    /// The same as a sentence.
    text: String,
}

/// Where the buyer's own order stands.
pub(super) async fn find(
    State(ShowsState { app, .. }): State<ShowsState>,
    session: Session,
    query: Result<Query<PlaceQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Json<PlaceBody>, ApiError> {
    let not_found = || ApiError::new(Code::OrderNotFound);
    let query = query.map_err(|rejection| ApiError::invalid(rejection.body_text()))?;
    let id: OrderId = query.order.parse().map_err(|_| not_found())?;
    let pool = app.database.pool();
    let order = orders::find(pool, id, Some(session.user)).await?.ok_or_else(not_found)?;
    let sale = app.purchases.sale(order.voucher_id).await?.ok_or_else(not_found)?;
    let place: i64 = sqlx::query_scalar(
        "select count(*) from orders where voucher_id = $1 and id <= $2 and status in (1, 2, 3, 5)",
    )
    .bind(order.voucher_id.get())
    .bind(id.get())
    .fetch_one(pool)
    .await
    .map_err(StoreError::from)?;
    let of = sale.voucher.initial_stock;
    let text = match Language::preferred(&headers) {
        Language::English => format!("You were number {place} of {of}."),
        Language::Chinese => format!("您是 {of} 张中的第 {place} 张。"),
    };
    Ok(Json(PlaceBody { place, of, text }))
}
