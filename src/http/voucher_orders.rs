//! The orders of a voucher, for administrators: as JSON page by page, or all of them as CSV.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::Deserialize;

use super::auth::AdminSession;
use super::problem::Code;
use super::query::{PageLimit, UrlQuery, next_page};
use super::schemas::{Id, PageSize};
use super::vouchers::PathId;
use super::{ApiError, App, accepts};
use crate::model::order_csv::{CsvReader, csv};
use crate::model::{OrderId, OrderOfBuyer, OrderStatus, VoucherId};
use crate::store::orders;

/// Which orders.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrdersQuery {
    before: Option<OrderId>,
    #[serde(default)]
    limit: PageLimit,
    status: Option<OrderStatus>,
    r#for: Option<CsvReader>,
}

/// The orders of a voucher with their buyers, newest first. With `Accept: text/csv` all of them as CSV,
/// without `before` and `limit`; with `for=spreadsheet` as spreadsheets keep it: ids and phones are formulas whose value is a
/// text.
#[utoipa::path(get, path = "/api/vouchers/{id}/orders", tag = "orders",
    operation_id = "list_orders_of_voucher",
    params(
        ("status" = Option<OrderStatus>, Query, description = "only orders in this state"),
        ("before" = Option<Id>, Query, description = "only ids below this"),
        ("limit" = Option<PageSize>, Query, description = "1 to 100, 20 when left out"),
        ("for" = Option<CsvReader>, Query, description = "who reads the CSV, when it is no program"),
    ),
    responses((status = 200, description = "a page, or CSV",
        content((Vec<OrderOfBuyer> = "application/json"), (String = "text/csv")),
        headers(("Link" = String, description = "the next page, if there may be one")))))]
pub async fn list(
    State(app): State<App>,
    _: AdminSession,
    PathId(voucher): PathId<VoucherId>,
    headers: HeaderMap,
    UrlQuery(query): UrlQuery<OrdersQuery>,
) -> Result<Response, ApiError> {
    let OrdersQuery { before, limit, status, r#for: reader } = query;
    if app.purchases.sale(voucher).await?.is_none() {
        return Err(ApiError::new(Code::VoucherNotFound));
    }
    if accepts(&headers, header::ACCEPT, "text/csv") {
        return Ok(all_as_csv(&app, voucher, status, reader));
    }
    let pool = app.database.pool();
    let found = orders::list(pool, Some(voucher), status, before, limit.0).await?;
    let status = status.map_or_else(String::new, |status| format!("status={}&", status.as_str()));
    let path = format!("/api/vouchers/{voucher}/orders?{status}before=");
    let link = next_page(&path, limit, found.iter().map(|found| found.order.id.to_string()));
    Ok((link, Json(found)).into_response())
}

/// All orders as CSV, read as fast as the client takes them: nothing of the database is held while it is
/// slow. If the database fails half-way, the connection ends without an end of the body.
fn all_as_csv(
    app: &App,
    voucher: VoucherId,
    status: Option<OrderStatus>,
    reader: Option<CsvReader>,
) -> Response {
    let app = app.clone();
    let body = unfold(Some(None), move |next| {
        let app = app.clone();
        async move {
            let before = next?;
            let read = orders::export(app.database.pool(), Some(voucher), status, before).await;
            Some(match read {
                Ok((orders, last)) => {
                    let text = csv(&orders, &app.settings.currency, reader, before.is_none());
                    (Ok(Bytes::from(text)), last.map(Some))
                }
                Err(error) => (Err(error), None),
            })
        }
    });
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"orders-of-{voucher}.csv\"")),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    (headers, Body::from_stream(body)).into_response()
}
