//! `/voucher` and `/voucher-order`: putting on sale, looking, buying.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::response::Response;
use chrono::{DateTime, Local, Utc};
use group_commit::{Batcher, Limits};
use seckill::http::auth::{AdminSession, Session};
use seckill::http::body::{JsonBody, maybe_whole_number};
use seckill::http::vouchers::{NewVoucherBody, PathId};
use seckill::http::{ApiError, App, orders};
use seckill::model::{Clock, InvalidId, Outcome, Voucher, VoucherId};
use seckill::store::vouchers::{self, MAX_PAY_WITHIN_S};
use seckill::store::{Database, Service, StoreError};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::super::login::is_here;
use super::answer::success;
use super::{HmdpState, local_time};

/// Vouchers in a list, the newest: the application's list has no pages.
const MAX_LISTED: i64 = 100;

/// Requests for the list that one read serves.
const READ_TOGETHER: usize = 4_096;

/// The newest vouchers. One read serves all who asked before it began. So the list has what was put on sale a moment
/// ago, as the application's has, and many who ask at once cost the database one read after the other.
pub(super) type ListedVouchers = Batcher<(), Arc<[Voucher]>, StoreError>;

/// The newest vouchers in `database`.
pub(super) fn listed(database: &Database) -> ListedVouchers {
    let database = database.clone();
    let limits = Limits { batch: READ_TOGETHER, waiting: usize::MAX, leaders: 1 };
    Batcher::new(limits, move |asked: Vec<()>| {
        let database = database.clone();
        async move {
            let vouchers = vouchers::list(database.pool(), None, MAX_LISTED).await?;
            Ok(vec![vouchers.into(); asked.len()])
        }
    })
}

/// A client that may put vouchers on sale. The application asks nobody who it is. Here that holds for this machine,
/// where the administrator is one whom nobody had to configure; any other client has to be an administrator.
#[derive(Debug)]
pub(super) struct Seller;

impl FromRequestParts<HmdpState> for Seller {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &HmdpState) -> Result<Self, ApiError> {
        let is_open = state.demonstration.admin.is_some();
        if !(is_open && is_here(parts.extensions.get(), &parts.headers)) {
            AdminSession::from_request_parts(parts, state).await?;
        }
        Ok(Self)
    }
}

/// A voucher to put on sale. Members that are not here (`shopId`, `type`, `status`) have no counterpart.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewHmdpVoucher {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    sub_title: Option<String>,
    #[serde(default)]
    rules: Option<String>,
    #[serde(default, deserialize_with = "number_or_text")]
    pay_value: Option<i64>,
    #[serde(default, deserialize_with = "number_or_text")]
    actual_value: Option<i64>,
    #[serde(default, deserialize_with = "number_or_text")]
    stock: Option<i32>,
    #[serde(default)]
    begin_time: Option<String>,
    #[serde(default)]
    end_time: Option<String>,
}

/// A whole number, also where it was written as a text: plans put variables between quotation marks.
fn number_or_text<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = match Value::deserialize(deserializer)? {
        Value::String(text) => {
            let number = text.trim().parse::<i64>();
            number.map_err(|_| D::Error::custom(format!("{text:?} is not an integer")))?.into()
        }
        value => value,
    };
    maybe_whole_number(value).map_err(D::Error::custom)
}

impl NewHmdpVoucher {
    fn into_ours(self) -> Result<NewVoucherBody, ApiError> {
        Ok(NewVoucherBody {
            title: self.title.unwrap_or_default(),
            subtitle: self.sub_title,
            terms: self.rules,
            value: self.actual_value,
            price: self.pay_value,
            // An order of the application stays unpaid for ever; this is the longest that there is.
            pay_within_s: Some(MAX_PAY_WITHIN_S),
            stock: self.stock.ok_or_else(|| ApiError::invalid("stock is missing"))?,
            begin_time: instant("beginTime", self.begin_time)?,
            end_time: instant("endTime", self.end_time)?,
        })
    }
}

fn instant(member: &str, text: Option<String>) -> Result<Option<DateTime<Utc>>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let at = local_time::parse(&text).and_then(|local| local_time::instant(&Local, local));
    let wrong = || format!("{member} must be a local time such as 2026-11-25T20:00:00");
    at.map(Some).ok_or_else(|| ApiError::invalid(wrong()))
}

/// Puts a voucher on sale; `data` is its number.
pub(super) async fn create(
    State(app): State<App>,
    _: Seller,
    JsonBody(body): JsonBody<NewHmdpVoucher>,
) -> Result<Response, ApiError> {
    let now = app.purchases.clock().now();
    let new = body.into_ours()?.complete(now).map_err(ApiError::invalid)?;
    let voucher = vouchers::create(app.database.pool(), &new, now).await?;
    Ok(success(Some(voucher.id.get())))
}

/// A voucher as the application lists it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HmdpVoucher<'a> {
    id: i64,
    shop_id: i64,
    title: &'a str,
    sub_title: &'a str,
    rules: &'a str,
    pay_value: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    actual_value: Option<i64>,
    /// A flash sale.
    r#type: u8,
    /// To be seen.
    status: u8,
    stock: i32,
    begin_time: String,
    end_time: String,
}

/// The newest vouchers. There are no shops: each has them all.
pub(super) async fn list(
    State(state): State<HmdpState>,
    PathId(MerchantId(shop_id)): PathId<MerchantId>,
) -> Result<Response, ApiError> {
    let read = state.vouchers.submit(()).await;
    let failed = |error| StoreError::from_batch(Service::Postgres, error).into_read_error();
    let vouchers = read.map_err(failed)?;
    let listed = vouchers.iter().map(|voucher| HmdpVoucher {
        id: voucher.id.get(),
        shop_id,
        title: &voucher.title,
        sub_title: &voucher.subtitle,
        rules: &voucher.terms,
        pay_value: voucher.price,
        actual_value: voucher.value,
        r#type: 1,
        status: 1,
        stock: voucher.stock,
        begin_time: local_time::written(&Local, voucher.begin_time),
        end_time: local_time::written(&Local, voucher.end_time),
    });
    Ok(success(Some(listed.collect::<Vec<_>>())))
}

/// The number of a shop, of which there are none.
#[derive(Debug)]
pub(super) struct MerchantId(i64);

impl std::str::FromStr for MerchantId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        // Any id has the form of any other.
        text.parse::<VoucherId>().map(|id| Self(id.get()))
    }
}

/// Buys one; `data` is the number of the order.
pub(super) async fn buy(
    State(app): State<App>,
    session: Session,
    PathId(voucher): PathId<VoucherId>,
) -> Result<Response, ApiError> {
    match orders::purchase(&app, session.user, voucher).await? {
        Outcome::Ordered(order) => Ok(success(Some(order.id.get()))),
        Outcome::Refused(refusal) => Err(refusal.into()),
    }
}
