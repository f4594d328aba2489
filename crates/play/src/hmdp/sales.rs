//! `/voucher` and `/voucher-order`: putting on sale, looking, buying.

use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Local, Utc};
use seckill::http::auth::{AdminSession, Session};
use seckill::http::body::JsonBody;
use seckill::http::vouchers::PathId;
use seckill::http::{ApiError, App, orders};
use seckill::model::voucher_terms::{MAX_PAY_WITHIN_S, NewVoucher};
use seckill::model::whole_number::maybe_whole_number;
use seckill::model::{Clock, Outcome, VoucherId};
use seckill::store::vouchers;
use seckill::store::{Service, StoreError};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

use super::answer::{success, written};
use super::local_time;
use super::state::HmdpState;

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
    fn into_ours(self) -> Result<NewVoucher, ApiError> {
        Ok(NewVoucher {
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
            ..NewVoucher::default()
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
    let new = body.into_ours()?;
    new.check(now).map_err(ApiError::invalid)?;
    let voucher = vouchers::create(app.database.pool(), &new, now).await?;
    Ok(success(Some(voucher.id.get())))
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
