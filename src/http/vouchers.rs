//! Vouchers.

use std::str::FromStr;

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::{HeaderName, StatusCode, header, request::Parts};
use axum::response::{IntoResponse, Response};

use super::auth::{AdminSession, Anybody};
use super::body::JsonBody;
use super::query::{Page, PageLimit, UrlQuery};
use super::voucher_pages::VoucherBody;
use super::{ApiError, App};
use crate::model::voucher_terms::{NewVoucher, VoucherChange};
use crate::model::{Clock, InvalidId, VoucherId};
use crate::store::vouchers;

/// An id from the path.
#[derive(Debug)]
pub struct PathId<T>(pub T);

impl<S: Send + Sync, T: FromStr<Err = InvalidId> + Send> FromRequestParts<S> for PathId<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid(InvalidId.to_string()))?;
        text.parse().map(Self).map_err(|error| ApiError::invalid(error.to_string()))
    }
}

/// Vouchers, newest first, at most a second old.
#[utoipa::path(get, path = "/api/vouchers", operation_id = "list_vouchers", params(Page<VoucherId>),
    responses((status = 200, body = [VoucherBody], description = "a page",
        headers(("Date" = String, description = "by the clock that sales go by"),
            ("Link" = String, description = "the next page, if there may be one")))))]
pub async fn list(
    State(app): State<App>,
    from: Anybody,
    UrlQuery(page): UrlQuery<Page<VoucherId>>,
) -> Result<Response, ApiError> {
    if page.before.is_some() || page.limit != PageLimit::default() {
        // What everybody looks at is in memory; this asks the database.
        app.admit_anybody(&from)?;
    }
    let page = app.memory().voucher_pages.get(page.before, page.limit).await?;
    Ok((sale_date(&app), page).into_response())
}

/// `Date` by the clock that sales go by, which may not be this machine's: a client counts down with it.
fn sale_date(app: &App) -> [(HeaderName, String); 1] {
    let now = app.purchases.clock().now();
    [(header::DATE, now.format("%a, %d %b %Y %H:%M:%S GMT").to_string())]
}

/// One voucher.
#[utoipa::path(get, path = "/api/vouchers/{id}", operation_id = "find_voucher",
    responses((status = 200, body = VoucherBody, description = "the stock is at most a second old",
        headers(("Date" = String, description = "by the clock that sales go by")))))]
pub async fn find(
    State(app): State<App>,
    from: Anybody,
    PathId(id): PathId<VoucherId>,
) -> Result<([(HeaderName, String); 1], Json<VoucherBody>), ApiError> {
    // From memory: all buyers reload this page before a sale.
    let sale = app.sale_for(&from, id).await?;
    Ok((sale_date(&app), Json(VoucherBody::of_sale(&sale, app.purchases.clock().now()))))
}

/// Puts a voucher on sale.
///
/// A sale that ends before it begins, or in the year 10000, is refused (422).
#[utoipa::path(post, path = "/api/vouchers", operation_id = "create_voucher", request_body = NewVoucher,
    responses((status = 201, body = VoucherBody, description = "the voucher",
        headers(("Location" = String, description = "the voucher")))))]
pub async fn create(
    State(app): State<App>,
    _: AdminSession,
    JsonBody(new): JsonBody<NewVoucher>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<VoucherBody>), ApiError> {
    let now = app.purchases.clock().now();
    new.check(now).map_err(ApiError::invalid)?;
    let voucher = vouchers::create(app.database.pool(), &new, now).await?;
    let location = [(header::LOCATION, format!("/api/vouchers/{}", voucher.id))];
    Ok((StatusCode::CREATED, location, Json(VoucherBody::at(voucher, now))))
}

/// Changes a voucher and its sale: every server goes by it within a second.
///
/// A price counts for orders to come. A sale that is paused sells nothing until it goes on. Stock is added,
/// or taken away as far as it is not sold, by naming how many are on sale in all. All of it changes, or nothing.
///
/// `draw_closed`: the public number of the draw is out, and the draw is to come: until then only subtitle, terms, value, a later
/// end and, before the draw has its number, a pause change. `sale_ended`: it ended without its draw, and gets no other end. A voucher
/// with a draw keeps its title (422). `sale_cancelled`: the sale is over for good. A sale that would end before it begins is refused (422).
#[utoipa::path(patch, path = "/api/vouchers/{id}", operation_id = "change_voucher",
    request_body = VoucherChange,
    responses((status = 200, body = VoucherBody, description = "the voucher as it is now")))]
pub async fn change(
    State(app): State<App>,
    AdminSession { user }: AdminSession,
    PathId(id): PathId<VoucherId>,
    JsonBody(change): JsonBody<VoucherChange>,
) -> Result<Json<VoucherBody>, ApiError> {
    change.check().map_err(ApiError::invalid)?;
    let turn = app.database.steps_of(id).await?;
    let voucher = vouchers::change(&turn, id, &change, Some(user)).await?;
    drop(turn);
    app.purchases.voucher_changed(id);
    Ok(Json(VoucherBody::at(voucher, app.purchases.clock().now())))
}
