//! Events: what happened to orders and vouchers, read from the orders and from the logs of steps. Nobody writes an event.
//!
//! Each has a number (`position`), and one reader after the other follows them: a reader's own position stands in
//! `event_cursors`. Numbers of one voucher grow in the order of what happened, and a reader sees no number before all
//! smaller ones that there will ever be (`complete_events`).

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::postgres::PgPool;
use utoipa::ToSchema;

use super::StoreError;
use super::columns::{column, row};
use super::statements::{in_time, step_in_time};
use crate::model::{OrderId, OrderStatus, UserId, VoucherId};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = EventBody)]
pub struct Event {
    /// Names it: what is told twice has the same id.
    #[schema(example = "1.662158939135148033.2")]
    pub id: String,
    /// `order.` or `voucher.` and the step in the log; `order.placed`, `order.expired`, `entry.offered`, `entry.removed`.
    #[serde(rename = "type")]
    #[schema(example = "order.paid")]
    pub kind: String,
    /// When.
    pub at: DateTime<Utc>,
    /// The voucher.
    pub voucher_id: VoucherId,
    /// The order; null: it is about the voucher alone.
    #[schema(required = true)]
    pub order_id: Option<OrderId>,
    /// Its buyer.
    #[schema(required = true)]
    pub user_id: Option<UserId>,
    /// The state of the order after it.
    #[schema(required = true)]
    pub status: Option<OrderStatus>,
    /// What the order costs, in the currency's smallest unit.
    #[schema(required = true)]
    pub amount: Option<i64>,
    /// By whom: `buyer`, `administrator`, `time` or `gateway`.
    pub actor: String,
    /// The user, where it was one; null at the shell.
    #[schema(required = true)]
    pub actor_id: Option<UserId>,
    /// Of a new order `pay_by`, and `entry_id` if it was offered; of a voucher what was changed.
    #[schema(value_type = Object)]
    pub details: Details,
    /// Where it stands among all: `after` of `GET /api/events/log`.
    pub position: i64,
    /// Whether it may have left nothing to sell.
    #[serde(skip)]
    pub takes_stock: bool,
}

row! {
    Event: id, kind, at, voucher_id, order_id, user_id, status, amount, actor, actor_id, details, position, takes_stock
}

/// JSON, which a statement returns as a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Details(pub Value);

impl TryFrom<&str> for Details {
    type Error = serde_json::Error;
    fn try_from(text: &str) -> Result<Self, Self::Error> {
        serde_json::from_str(text).map(Self)
    }
}

column!(Details: &str);

/// Up to which position all events are there.
pub async fn complete_to(pool: &PgPool) -> Result<i64, StoreError> {
    in_time(pool, async |session| {
        // In the usual case the first one notes what there is, and the second one finds that nothing of it is under way.
        let complete = "select complete_events()";
        sqlx::query(complete).execute(&mut *session).await?;
        sqlx::query_scalar(complete).fetch_one(session).await
    })
    .await
}

/// Up to `limit` events after the position `after`, up to `complete_to`, the oldest first.
pub async fn list(
    pool: &PgPool,
    after: i64,
    complete_to: i64,
    limit: i64,
) -> Result<Vec<Event>, StoreError> {
    let query = sqlx::query_as(
        "select voucher_id || '.' || coalesce(order_id::text, 'v') || '.' || number as id, kind, at, voucher_id, order_id,
                user_id, status, amount, (array['buyer', 'administrator', 'time', 'gateway'])[actor] as actor, actor_id,
                details::text as details, position, takes_stock
         from events_between($1, $2, $3)",
    )
    .bind(after)
    .bind(complete_to)
    .bind(limit);
    in_time(pool, async |session| query.fetch_all(session).await).await
}

/// Up to which position the reader `name` has the events. One that is new begins with what comes next, however far the events are
/// complete. `None`: another server makes it at this moment.
pub async fn position(pool: &PgPool, name: &str) -> Result<Option<i64>, StoreError> {
    let query = sqlx::query_scalar(
        "with begun as (
           insert into event_cursors (name, position)
           select $1, case when is_called then last_value else 0 end from event_seq
           on conflict do nothing returning position
         )
         select position from event_cursors where name = $1 union all select position from begun",
    );
    let query = query.bind(name);
    in_time(pool, async |session| query.fetch_optional(session).await).await
}

/// For half a minute no other server tells `name` what comes after `position`, unless this one says before that it is done.
/// Returns how often it was tried; `None`: it is not due, or another server has it. No claim and no pause is as long as ten
/// minutes: one that ends later was made before the clock went back.
pub async fn claim(pool: &PgPool, name: &str, position: i64) -> Result<Option<i32>, StoreError> {
    let query = sqlx::query_scalar(
        "update event_cursors set attempts = attempts + 1, next_attempt_at = sale_time() + interval '30 seconds'
         where name = $1 and position = $2
           and (next_attempt_at > sale_time() and next_attempt_at <= sale_time() + interval '10 minutes') is not true
         returning attempts",
    );
    let query = query.bind(name).bind(position);
    in_time(pool, async |session| query.fetch_optional(session).await).await
}

/// The reader `name`, which was at `from`, has all events up to `to`; or, with an error, it did not take what comes next, and is
/// asked again after `pause_s` seconds.
pub async fn record(
    pool: &PgPool,
    name: &str,
    (from, to): (i64, i64),
    (error, pause_s): (Option<&str>, f64),
) -> Result<(), StoreError> {
    let query = sqlx::query(
        "update event_cursors
         set position = $3, attempts = case when $3 > $2 then 0 else attempts end, last_error = $4,
             next_attempt_at = sale_time() + make_interval(secs => $5)
         where name = $1 and position = $2",
    );
    let query = query.bind(name).bind(from).bind(to).bind(error).bind(pause_s);
    in_time(pool, async |session| query.execute(session).await.map(drop)).await
}

/// Writes that `voucher` is sold out, if it is and nobody has written so since the event at `position`, which took stock.
pub async fn write_sold_out(
    pool: &PgPool,
    voucher: VoucherId,
    position: i64,
) -> Result<(), StoreError> {
    let query = sqlx::query("select write_sold_out($1, $2)").bind(voucher.get()).bind(position);
    step_in_time(pool, async |session| query.execute(session).await.map(drop)).await
}
