//! The orders of a voucher, for administrators: as JSON page by page, or all of them as CSV.

use std::fmt::{Display, Write as _};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, SecondsFormat, Utc};
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::auth::AdminSession;
use super::orders::OrderBody;
use super::problem::Code;
use super::schemas::{Id, Limit};
use super::voucher_pages::{FIRST_PAGE, next_page};
use super::vouchers::{Page, PathId};
use super::{ApiError, App};
use crate::model::{Currency, OrderId, OrderStatus, VoucherId};
use crate::store::orders::{self, OrderAndPhone};
use crate::store::{Database, StoreError};

/// Orders read at a time for CSV.
pub const CSV_PAGE: i64 = 1_000;

/// The first line of the CSV.
const CSV_HEAD: &str = "order_id,voucher_id,user_id,phone,status,amount,created_at,pay_by,paid_at,\
    used_at,cancelled_at,refunded_at,charged_back_at\n";

/// An order and its buyer.
#[derive(Debug, Serialize, ToSchema)]
pub struct OrderOfBuyerBody {
    /// The order.
    #[serde(flatten)]
    pub order: OrderBody,
    /// The buyer's phone; null where there is no such user.
    #[schema(required = true)]
    pub phone: Option<String>,
}

impl From<OrderAndPhone> for OrderOfBuyerBody {
    fn from((order, phone): OrderAndPhone) -> Self {
        Self { order: order.into(), phone }
    }
}

/// Which orders.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrdersQuery {
    #[serde(default)]
    before: Option<OrderId>,
    #[serde(default = "first_page")]
    limit: i64,
    #[serde(default)]
    status: Option<OrderStatus>,
}

const fn first_page() -> i64 {
    FIRST_PAGE
}

/// The orders of a voucher with their buyers, newest first. With `Accept: text/csv` all of them as CSV,
/// without `before` and `limit`.
#[utoipa::path(get, path = "/api/vouchers/{id}/orders", tag = "orders",
    operation_id = "list_orders_of_voucher",
    params(
        ("id" = Id, Path, description = "the voucher"),
        ("status" = Option<OrderStatus>, Query, description = "only orders in this state"),
        ("before" = Option<Id>, Query, description = "only ids below this"),
        ("limit" = Option<Limit>, Query, description = "1 to 100, 20 when left out"),
    ),
    responses(
        (status = 200, description = "a page, or CSV",
            content((Vec<OrderOfBuyerBody> = "application/json"), (String = "text/csv")),
            headers(("Link" = String, description = "the next page, where there may be one"))),
    ))]
pub async fn list(
    State(app): State<App>,
    _: AdminSession,
    PathId(voucher): PathId<VoucherId>,
    headers: HeaderMap,
    query: Result<Query<OrdersQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(OrdersQuery { before, limit, status }) =
        query.map_err(|error| ApiError::invalid(error.body_text()))?;
    let page = Page { before, limit }.check()?;
    if app.purchases.sale(voucher).await?.is_none() {
        return Err(ApiError::new(Code::VoucherNotFound));
    }
    if wants_csv(&headers) {
        return Ok(csv(&app, voucher, status));
    }
    let pool = app.database.pool();
    let found = orders::list(pool, Some(voucher), status, page.before, page.limit).await?;
    let path = format!("/api/vouchers/{voucher}/orders");
    let mut link =
        next_page(&path, page.limit, found.iter().map(|(order, _)| order.id.to_string()));
    if let (Some([(_, link)]), Some(status)) = (&mut link, status) {
        *link = link.replacen('?', &format!("?status={}&", status.as_str()), 1);
    }
    let bodies: Vec<_> = found.into_iter().map(OrderOfBuyerBody::from).collect();
    Ok((link, Json(bodies)).into_response())
}

fn wants_csv(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| {
        let mut types =
            accept.split(',').map(|one| one.split(';').next().unwrap_or_default().trim());
        types.any(|one| one.eq_ignore_ascii_case("text/csv"))
    })
}

/// All orders as CSV, read as fast as the client takes them: nothing of the database is held while it is
/// slow. Where the database fails half-way, the connection ends without an end of the body.
fn csv(app: &App, voucher: VoucherId, status: Option<OrderStatus>) -> Response {
    let app = app.clone();
    let body = unfold(Some(None), move |next| {
        let app = app.clone();
        async move {
            let (before, wanted) = (next?, (Some(voucher), status));
            let read = csv_page(&app.database, &app.settings.currency, wanted, before).await;
            Some(match read {
                Ok((text, last)) => (Ok(text), last.map(Some)),
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

/// The orders before `before` as lines of CSV, of a voucher or in a state where one is wanted, and the last of them where
/// there may be more. The first lines are headed.
///
/// # Errors
/// When the database does not answer.
pub async fn csv_page(
    database: &Database,
    currency: &Currency,
    (voucher, status): (Option<VoucherId>, Option<OrderStatus>),
    before: Option<OrderId>,
) -> Result<(Bytes, Option<OrderId>), StoreError> {
    let found = orders::list(database.pool(), voucher, status, before, CSV_PAGE).await?;
    let mut text = if before.is_none() { CSV_HEAD.to_owned() } else { String::new() };
    for order in &found {
        push_line(&mut text, order, currency);
    }
    let is_full = found.len() >= CSV_PAGE as usize;
    let last = found.last().filter(|_| is_full).map(|(order, _)| order.id);
    Ok((text.into(), last))
}

/// Spreadsheets make numbers of digits, keep 15 of the 18 of an id, and drop the plus sign of a phone: so these are formulas whose
/// value is a text, `="13800138000"`. All else is words of ours, instants and amounts, none of which has to be quoted.
fn push_line(text: &mut String, (order, phone): &OrderAndPhone, currency: &Currency) {
    let kept = |digits: &dyn Display| format!("\"=\"\"{digits}\"\"\"");
    let at = |instant: Option<DateTime<Utc>>| {
        instant.map_or_else(String::new, |at| at.to_rfc3339_opts(SecondsFormat::Micros, true))
    };
    let _ = writeln!(
        text,
        "{},{},{},{},{},{},{},{},{},{},{},{},{}",
        kept(&order.id),
        kept(&order.voucher_id),
        kept(&order.user_id),
        phone.as_ref().map_or_else(String::new, |phone| kept(phone)),
        order.status.as_str(),
        currency.decimal(order.amount),
        at(Some(order.created_at)),
        at(order.pay_by),
        at(order.paid_at),
        at(order.used_at),
        at(order.cancelled_at),
        at(order.refunded_at),
        at(order.charged_back_at),
    );
}
