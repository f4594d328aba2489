//! `/voucher` and `/voucher-order`: putting on sale, looking, buying.

use std::collections::HashMap;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Local, Utc};
use group_commit::{Batcher, Limits};
use seckill::http::auth::{AdminSession, Session};
use seckill::http::body::{JsonBody, maybe_whole_number};
use seckill::http::vouchers::{PathId, VoucherCreationBody};
use seckill::http::{ApiError, App, orders};
use seckill::model::{Clock, Outcome, Voucher, VoucherId};
use seckill::store::vouchers::{self, MAX_PAY_WITHIN_S};
use seckill::store::{Database, Service, StoreError};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value};

use super::answer::{success, success_body, written};
use super::{HmdpState, local_time};

/// Vouchers in a list, the newest: the application's list has no pages.
const MAX_LISTED: i64 = 100;

/// Requests for the list that one read serves.
const READ_TOGETHER: usize = 256;

/// The list of a shop as it is sent. One read serves all who asked before it began. So the list has what was put on
/// sale a moment ago, as the application's has, and many who ask at once cost the database one read after the other.
pub(super) type ListAnswers = Batcher<i64, Bytes, StoreError>;

/// The lists of what is in `database`. There are no shops: each has all vouchers.
pub(super) fn list_answers(database: &Database) -> ListAnswers {
    let database = database.clone();
    let limits = Limits { batch: READ_TOGETHER, waiting: usize::MAX, leaders: 1 };
    Batcher::new(limits, move |shops: Vec<i64>| {
        let database = database.clone();
        async move {
            let vouchers = vouchers::list(database.pool(), None, MAX_LISTED).await?;
            let mut lists = HashMap::new();
            let list_of = |id| lists.entry(id).or_insert_with(|| list_body(id, &vouchers)).clone();
            Ok(shops.into_iter().map(list_of).collect())
        }
    })
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
            let number = text.trim().parse::<Number>();
            number.map_err(|_| D::Error::custom("a text that is not a number"))?.into()
        }
        value => value,
    };
    maybe_whole_number(value).map_err(D::Error::custom)
}

impl NewHmdpVoucher {
    fn into_ours(self) -> Result<VoucherCreationBody, ApiError> {
        Ok(VoucherCreationBody {
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

/// Puts a voucher on sale; `data` is its number. The application asks nobody who it is.
pub(super) async fn create(
    State(app): State<App>,
    _: AdminSession,
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

fn list_body(shop_id: i64, vouchers: &[Voucher]) -> Bytes {
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
    success_body(Some(listed.collect::<Vec<_>>()))
}

/// The newest vouchers. The number of a shop has the form of any other id.
pub(super) async fn list(
    State(state): State<HmdpState>,
    PathId(shop): PathId<VoucherId>,
) -> Result<Response, ApiError> {
    let read = state.lists.submit(shop.get()).await;
    let failed = |error| StoreError::from_batch(Service::Postgres, error).into_read_error();
    Ok(written(read.map_err(failed)?))
}

/// Buys one; `data` is the number of the order.
pub(super) async fn buy(
    State(app): State<App>,
    session: Session,
    PathId(voucher): PathId<VoucherId>,
) -> Result<Response, ApiError> {
    match orders::buy_counted(&app, session.user, voucher).await? {
        Outcome::Ordered(order) => Ok(success(Some(order.id.get()))),
        Outcome::Refused(refusal) => Err(refusal.into()),
    }
}
