//! Vouchers.

use std::str::FromStr;

use axum::Json;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::{HeaderName, StatusCode, header, request::Parts};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use utoipa::ToSchema;

use super::admission::Anybody;
use super::auth::AdminSession;
use super::body::{JsonBody, maybe_whole_number, whole_number};
use super::schemas::{Amount, Id, Limit, PayWithin, SaleInstant, Subtitle, Terms, Title};
use super::voucher_pages::{FIRST_PAGE, VoucherBody};
use super::{ApiError, App};
use crate::model::{Clock, InvalidId, VoucherId};
use crate::store::vouchers::{self, NewDraw, NewVoucher, StockChange, VoucherChange};

/// How long a sale lasts when nothing is said.
const DEFAULT_SALE: TimeDelta = TimeDelta::hours(24);

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

/// Which part of a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page<T> {
    /// Only ids below this.
    #[serde(default = "Option::default")]
    pub before: Option<T>,
    /// How many at most, 1 to 100.
    #[serde(default = "default_limit")]
    pub limit: i64,
}

const fn default_limit() -> i64 {
    FIRST_PAGE
}

impl<T> Page<T> {
    pub(super) fn check(self) -> Result<Self, ApiError> {
        if (1..=100).contains(&self.limit) {
            Ok(self)
        } else {
            Err(ApiError::invalid("limit must be 1 to 100"))
        }
    }
}

/// A voucher to put on sale.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VoucherCreationBody {
    /// The name of the voucher.
    #[schema(value_type = Title)]
    pub title: String,
    /// A second line, of at most 200 characters.
    #[schema(value_type = Option<Subtitle>)]
    pub subtitle: Option<String>,
    /// The conditions, of at most 2000 characters.
    #[schema(value_type = Option<Terms>)]
    pub terms: Option<String>,
    /// What the voucher is worth, in the currency's smallest unit: for people.
    #[schema(value_type = Option<Amount>)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub value: Option<i64>,
    /// What it costs, in the currency's smallest unit; nothing when left out.
    #[schema(value_type = Option<Amount>)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub price: Option<i64>,
    /// An order that is not paid after so many seconds is cancelled; 900 when left out.
    #[schema(value_type = Option<PayWithin>)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub pay_within_s: Option<i32>,
    /// How many.
    #[schema(minimum = 0, maximum = 2_147_483_647, example = 100)]
    #[serde(deserialize_with = "whole_number")]
    pub stock: i32,
    /// First instant of the sale; now when left out.
    #[schema(value_type = Option<SaleInstant>)]
    pub begin_time: Option<DateTime<Utc>>,
    /// First instant after the sale, later than the first; 24 hours after it when left out.
    #[schema(value_type = Option<SaleInstant>)]
    pub end_time: Option<DateTime<Utc>>,
    /// True: once it is sold out, buyers may stand in line for what comes back.
    pub line: Option<bool>,
    /// When the entries of a draw close, within the sale. Left out: whoever comes first is served first.
    #[schema(value_type = Option<SaleInstant>)]
    pub draw_time: Option<DateTime<Utc>>,
    /// The source and the time, later than `draw_time`, of a public number that goes into the draw.
    #[schema(value_type = Option<Subtitle>)]
    pub draw_beacon: Option<String>,
}

impl VoucherCreationBody {
    /// The voucher, with what was left out filled in; or what is wrong, in one sentence.
    pub fn complete(self, now: DateTime<Utc>) -> Result<NewVoucher, &'static str> {
        if self.draw_beacon.is_some() && self.draw_time.is_none() {
            return Err("draw_beacon needs a draw_time");
        }
        if self.line == Some(false) && self.draw_time.is_some() {
            return Err("a draw has a line: line must not be false");
        }
        let begin_time = self.begin_time.and_then(kept).unwrap_or(now);
        let end_time = match self.end_time.and_then(kept) {
            Some(end_time) => end_time,
            None => begin_time.checked_add_signed(DEFAULT_SALE).unwrap_or(begin_time),
        };
        let new = NewVoucher {
            subtitle: self.subtitle.unwrap_or_default(),
            terms: self.terms.unwrap_or_default(),
            value: self.value,
            price: self.price.unwrap_or_default(),
            pay_within_s: self.pay_within_s.unwrap_or(vouchers::DEFAULT_PAY_WITHIN_S),
            has_line: self.line.unwrap_or_default(),
            draw: self
                .draw_time
                .and_then(kept)
                .map(|time| NewDraw { time, beacon: self.draw_beacon.unwrap_or_default() }),
            ..NewVoucher::free(self.title, self.stock, begin_time, end_time)
        };
        new.check().map(|()| new)
    }
}

/// An instant as the database will keep it: what it would round away makes no sale longer.
fn kept(at: DateTime<Utc>) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_micros(at.timestamp_micros())
}

/// What is to change of a voucher. What is left out, or null, stays.
#[derive(Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VoucherChangeBody {
    /// The name of the voucher.
    #[schema(value_type = Option<Title>)]
    pub title: Option<String>,
    /// A second line, of at most 200 characters.
    #[schema(value_type = Option<Subtitle>)]
    pub subtitle: Option<String>,
    /// The conditions, of at most 2000 characters.
    #[schema(value_type = Option<Terms>)]
    pub terms: Option<String>,
    /// What the voucher is worth, in the currency's smallest unit: for people.
    #[schema(value_type = Option<Amount>)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub value: Option<i64>,
    /// What an order costs from now on, in the currency's smallest unit. Orders that were placed cost what
    /// they cost.
    #[schema(value_type = Option<Amount>)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub price: Option<i64>,
    /// How many seconds the buyer of an order has to pay from now on.
    #[schema(value_type = Option<PayWithin>)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub pay_within_s: Option<i32>,
    /// How many are put on sale in all, those that are sold included. The same request twice adds nothing.
    #[schema(minimum = 0, maximum = 2_147_483_647, example = 150)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub initial_stock: Option<i32>,
    /// First instant of the sale.
    #[schema(value_type = Option<SaleInstant>)]
    pub begin_time: Option<DateTime<Utc>>,
    /// First instant after the sale.
    #[schema(value_type = Option<SaleInstant>)]
    pub end_time: Option<DateTime<Utc>>,
    /// True stops the sale for a while, false lets it go on.
    pub paused: Option<bool>,
}

impl From<VoucherChangeBody> for VoucherChange {
    fn from(body: VoucherChangeBody) -> Self {
        Self {
            title: body.title,
            subtitle: body.subtitle,
            terms: body.terms,
            value: body.value,
            price: body.price,
            pay_within_s: body.pay_within_s,
            stock: body.initial_stock.map(StockChange::InitialStock),
            begin_time: body.begin_time.and_then(kept),
            end_time: body.end_time.and_then(kept),
            paused: body.paused,
        }
    }
}

/// Vouchers, newest first, at most a second old.
#[utoipa::path(get, path = "/api/vouchers", tag = "vouchers", operation_id = "list_vouchers",
    params(
        ("before" = Option<Id>, Query, description = "only ids below this"),
        ("limit" = Option<Limit>, Query, description = "1 to 100, 20 when left out"),
    ),
    responses(
        (status = 200, body = [VoucherBody], description = "a page",
            headers(("Date" = String, description = "by the clock that sales go by"),
                ("Link" = String, description = "the next page, where there may be one"))),
    ))]
pub async fn list(
    State(app): State<App>,
    from: Anybody,
    page: Result<Query<Page<VoucherId>>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(page) = page.map_err(|error| ApiError::invalid(error.body_text()))?;
    let page = page.check()?;
    if page.before.is_some() || page.limit != FIRST_PAGE {
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
#[utoipa::path(get, path = "/api/vouchers/{id}", tag = "vouchers", operation_id = "find_voucher",
    params(("id" = Id, Path, description = "the voucher")),
    responses(
        (status = 200, body = VoucherBody, description = "the stock is at most a second old",
            headers(("Date" = String, description = "by the clock that sales go by"))),
    ))]
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
#[utoipa::path(post, path = "/api/vouchers", tag = "vouchers", operation_id = "create_voucher",
    request_body = VoucherCreationBody,
    responses(
        (status = 201, body = VoucherBody, description = "the voucher",
            headers(("Location" = String, description = "the voucher"))),
    ))]
pub async fn create(
    State(app): State<App>,
    _: AdminSession,
    JsonBody(body): JsonBody<VoucherCreationBody>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<VoucherBody>), ApiError> {
    let now = app.purchases.clock().now();
    let new = body.complete(now).map_err(ApiError::invalid)?;
    let voucher = vouchers::create(app.database.pool(), &new, now).await?;
    let location = [(header::LOCATION, format!("/api/vouchers/{}", voucher.id))];
    Ok((StatusCode::CREATED, location, Json(VoucherBody::at(voucher, now))))
}

/// Changes a voucher and its sale: every server goes by it within a second.
///
/// A price counts for orders to come. A sale that is paused sells nothing until it goes on. Stock is added,
/// or taken away as far as it is not sold, by naming how many are on sale in all. All of it changes, or nothing.
///
/// `draw_closed`: the draw has its public number and is to come; until then only texts and a later end change. `sale_cancelled`:
/// the sale is over for good. A sale that would end before it begins is refused (422).
#[utoipa::path(patch, path = "/api/vouchers/{id}", tag = "vouchers", operation_id = "change_voucher",
    params(("id" = Id, Path, description = "the voucher")),
    request_body = VoucherChangeBody,
    responses(
        (status = 200, body = VoucherBody, description = "the voucher as it is now"),
    ))]
pub async fn change(
    State(app): State<App>,
    _: AdminSession,
    PathId(id): PathId<VoucherId>,
    JsonBody(body): JsonBody<VoucherChangeBody>,
) -> Result<Json<VoucherBody>, ApiError> {
    let change = VoucherChange::from(body);
    change.check().map_err(ApiError::invalid)?;
    let turn = app.database.steps_of(id).await?;
    let voucher = vouchers::change(&turn, id, &change).await?;
    drop(turn);
    app.purchases.voucher_changed(id);
    Ok(Json(VoucherBody::at(voucher, app.purchases.clock().now())))
}
