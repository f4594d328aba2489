//! The list of vouchers page by page, and what is published of draws, kept in memory as they are sent.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::schemas::Title;
use crate::model::{Clock, SaleStatus, Voucher, VoucherId};
use crate::purchase::Purchases;
use crate::purchase::sales::Sale;
use crate::store::{Database, ReadCache, Service, StoreError, entries, vouchers};

/// The next page's address (RFC 8288), where a full page suggests that there is one.
pub(super) fn next_page(
    path: &str,
    limit: i64,
    ids: impl ExactSizeIterator<Item = String>,
) -> Option<[(HeaderName, String); 1]> {
    let is_full = i64::try_from(ids.len()).is_ok_and(|count| count >= limit);
    let last = ids.last().filter(|_| is_full)?;
    Some([(header::LINK, format!("<{path}?before={last}&limit={limit}>; rel=\"next\""))])
}

/// A voucher and where its sale stands.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VoucherBody {
    /// The voucher.
    pub id: VoucherId,
    /// The name of the voucher.
    #[schema(value_type = Title)]
    pub title: String,
    /// A second line; may be empty.
    pub subtitle: String,
    /// The conditions; may be empty.
    pub terms: String,
    /// What the voucher is worth, in the currency's smallest unit; null where it is not said.
    #[schema(required = true)]
    pub value: Option<i64>,
    /// What it costs, in the currency's smallest unit; 0: nothing.
    #[schema(minimum = 0)]
    pub price: i64,
    /// An order that is not paid after so many seconds is cancelled.
    #[schema(minimum = 1)]
    pub pay_within_s: i32,
    /// Vouchers left.
    #[schema(minimum = 0)]
    pub stock: i32,
    /// Vouchers at the beginning.
    #[schema(minimum = 0)]
    pub initial_stock: i32,
    /// First instant of the sale.
    pub begin_time: DateTime<Utc>,
    /// First instant after the sale.
    pub end_time: DateTime<Utc>,
    /// Where the sale stands.
    pub status: SaleStatus,
    /// Whether buyers may stand in line once it is sold out.
    pub line: bool,
    /// When the entries of its draw close; null where whoever comes first is served first.
    #[schema(required = true)]
    pub draw_time: Option<DateTime<Utc>>,
    /// The source and the time of a public number that goes into its draw; empty: there is none.
    pub draw_beacon: String,
}

impl VoucherBody {
    pub(super) fn at(voucher: Voucher, now: DateTime<Utc>) -> Self {
        Self {
            status: voucher.status_at(now),
            id: voucher.id,
            title: voucher.title,
            subtitle: voucher.subtitle,
            terms: voucher.terms,
            value: voucher.value,
            price: voucher.price,
            pay_within_s: voucher.pay_within_s,
            stock: voucher.stock,
            initial_stock: voucher.initial_stock,
            begin_time: voucher.begin_time,
            end_time: voucher.end_time,
            line: voucher.has_line,
            draw_time: voucher.draw_time,
            draw_beacon: voucher.draw_beacon,
        }
    }

    /// The voucher of a sale, with what was learnt since it was read.
    pub(super) fn of_sale(sale: &Sale, now: DateTime<Utc>) -> Self {
        let body = Self::at(sale.voucher.clone(), now);
        let status = sale.status_at(now);
        let stock = if status == SaleStatus::SoldOut { 0 } else { body.stock };
        Self { status, stock, ..body }
    }
}

/// Vouchers on the page of a client that asks for no other number.
pub(super) const FIRST_PAGE: i64 = 20;

/// Pages kept at once.
const FIRST_PAGES: usize = 100;
const OLDER_PAGES: usize = 128;
/// Requests that may wait for an older page to be read; for the first pages, as many as come.
const WAITING_FOR_OLDER: usize = 256;

/// Draws that are kept at once, and requests that may wait for one to be read.
const DRAWS: usize = 16;
const WAITING_FOR_DRAWS: usize = 256;

type PageKey = (Option<VoucherId>, i64);

/// The list of vouchers, page by page, as it is sent. A page is less than a second old, and so is the
/// `status` in it. The first pages, which buyers read, do not wait for the older ones.
#[derive(Debug)]
pub struct VoucherPages {
    first: ReadCache<PageKey, VoucherPage>,
    older: ReadCache<PageKey, VoucherPage>,
}

#[derive(Debug, Clone)]
pub(super) struct VoucherPage {
    json: Bytes,
    link: Option<HeaderValue>,
    pub(super) ids: Arc<[VoucherId]>,
}

impl VoucherPages {
    /// The pages of the vouchers in `database`, with where their sales stand by the clock of
    /// `purchases`.
    pub fn new(database: &Database, purchases: &Arc<Purchases>) -> Self {
        let (database, purchases) = (database.clone(), Arc::clone(purchases));
        let read = move |key: PageKey| {
            let (database, purchases) = (database.clone(), Arc::clone(&purchases));
            async move { read_page(&database, &purchases, key).await }
        };
        let pages = |kept, waiting| ReadCache::new(Service::Postgres, kept, waiting, read.clone());
        Self { first: pages(FIRST_PAGES, usize::MAX), older: pages(OLDER_PAGES, WAITING_FOR_OLDER) }
    }

    pub(super) async fn get(
        &self,
        before: Option<VoucherId>,
        limit: i64,
    ) -> Result<VoucherPage, StoreError> {
        let pages = if before.is_some() { &self.older } else { &self.first };
        pages.get((before, limit)).await
    }
}

async fn read_page(
    database: &Database,
    purchases: &Purchases,
    (before, limit): PageKey,
) -> Result<VoucherPage, StoreError> {
    let vouchers = vouchers::list(database.pool(), before, limit).await?;
    let ids: Arc<[VoucherId]> = vouchers.iter().map(|voucher| voucher.id).collect();
    let link = next_page("/api/vouchers", limit, ids.iter().map(VoucherId::to_string));
    let link = link.map(|[(_, link)]| match HeaderValue::try_from(link) {
        Ok(link) => link,
        Err(error) => unreachable!("a path and two numbers are a header: {error}"),
    });
    let now = purchases.clock().now();
    let bodies: Vec<_> =
        vouchers.into_iter().map(|voucher| VoucherBody::at(voucher, now)).collect();
    let Ok(json) = serde_json::to_vec(&bodies) else { unreachable!("a voucher is always JSON") };
    Ok(VoucherPage { json: json.into(), link, ids })
}

impl IntoResponse for VoucherPage {
    fn into_response(self) -> Response {
        let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let link = self.link.map(|link| [(header::LINK, link)]);
        (json, link, self.json).into_response()
    }
}

/// Draws as they are sent, less than a second old.
pub(super) fn draws(database: &Database) -> ReadCache<VoucherId, Option<Bytes>> {
    let database = database.clone();
    ReadCache::new(Service::Postgres, DRAWS, WAITING_FOR_DRAWS, move |voucher: VoucherId| {
        let database = database.clone();
        async move {
            let draw = entries::draw(database.pool(), voucher).await?;
            Ok(draw.map(|draw| json!(draw).to_string().into()))
        }
    })
}
