//! The list of vouchers page by page, kept in memory as it is sent.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;

use super::query::{PageLimit, next_page};
use crate::model::{Clock, SaleStatus, Voucher, VoucherId};
use crate::purchase::Purchases;
use crate::purchase::sales::Sale;
use crate::store::{Database, ReadCache, Service, StoreError, vouchers};

/// A voucher and where its sale stands.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VoucherBody {
    #[serde(flatten)]
    #[schema(inline)]
    pub(super) voucher: Voucher,
    /// Where the sale stands.
    pub status: SaleStatus,
}

impl VoucherBody {
    pub(super) fn at(voucher: Voucher, now: DateTime<Utc>) -> Self {
        Self { status: voucher.status_at(now), voucher }
    }

    /// The voucher of a sale, with what was learnt since it was read.
    pub(super) fn of_sale(sale: &Sale, now: DateTime<Utc>) -> Self {
        let status = sale.status_at(now);
        let stock = if status == SaleStatus::SoldOut { 0 } else { sale.voucher.stock };
        // What is not sent is not compared: a voucher that came back and was sold again is no news.
        let voucher = Voucher { stock, revision: 0, ..sale.voucher.clone() };
        Self { status, voucher }
    }
}

/// Pages kept at once.
const FIRST_PAGES: usize = 100;
const OLDER_PAGES: usize = 128;
/// Requests that may wait for an older page to be read; for the first pages, as many as come.
const WAITING_FOR_OLDER: usize = 256;

type PageKey = (Option<VoucherId>, PageLimit);

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
        let read = move |key: PageKey, _| {
            let (database, purchases) = (database.clone(), Arc::clone(&purchases));
            async move { read_page(&database, &purchases, key).await }
        };
        let pages = |kept, waiting| ReadCache::new(Service::Postgres, kept, waiting, read.clone());
        Self { first: pages(FIRST_PAGES, usize::MAX), older: pages(OLDER_PAGES, WAITING_FOR_OLDER) }
    }

    pub(super) async fn get(
        &self,
        before: Option<VoucherId>,
        limit: PageLimit,
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
    let vouchers = vouchers::list(database.pool(), before, limit.0).await?;
    let ids: Arc<[VoucherId]> = vouchers.iter().map(|voucher| voucher.id).collect();
    let link = next_page("/api/vouchers?before=", limit, ids.iter().map(VoucherId::to_string));
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
