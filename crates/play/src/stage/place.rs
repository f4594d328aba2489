//! How early a buyer of the shop was.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};

use seckill::http::auth::Session;
use seckill::http::problem::Code;
use seckill::http::{ApiError, App, Language};
use seckill::model::VoucherId;
use seckill::store::orders;

#[derive(Debug, Deserialize)]
pub(super) struct PlaceQuery {
    voucher: VoucherId,
}

/// How early the buyer's order was.
#[derive(Debug, Serialize)]
pub(super) struct PlaceBody {
    /// From 1, in the order of the orders' numbers; 0: the buyer has none.
    number: i64,
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
    let Query(PlaceQuery { voucher }) =
        query.map_err(|rejection| ApiError::invalid(rejection.body_text()))?;
    let not_found = || ApiError::new(Code::VoucherNotFound);
    let sale = app.purchases.sale(voucher).await?.ok_or_else(not_found)?;
    let number = orders::place_of(app.database.pool(), voucher, session.user).await?;
    let of = sale.voucher.initial_stock;
    let text = match (number, Language::preferred(&headers)) {
        (0, _) => String::new(),
        (_, Language::English) => format!("You were number {number} of {of}."),
        (_, Language::Chinese) => format!("您是第 {number} 位，共 {of} 张。"),
    };
    Ok(Json(PlaceBody { number, of, text }))
}
