//! Steps in the life of an order after the purchase. Each is one call of a database function, which locks the
//! order, looks at its state, changes it, and adds a row to the log of steps: of two at once, one finds what the
//! other has done. The log is read here, too.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::postgres::PgPool;
use utoipa::ToSchema;

use super::columns::row;
use super::payments::PaymentId;
use super::statements::{in_time, step_in_time};
use super::{Service, Stop, StoreError};
use crate::model::{Code, Order, OrderId, OrderStatus, Refusal, UserId, VoucherId};

/// A row of a function that takes a step: why it did not, and the state of the order after it.
type StepRow = (Option<Code>, Option<OrderStatus>);

/// The state of the order after the step.
pub(super) fn taken((refusal, status): StepRow) -> Result<OrderStatus, Stop> {
    match (refusal, status) {
        (None, Some(status)) => Ok(status),
        (Some(Code::OrderState), Some(status)) => Err(Refusal::order_state(status).into()),
        (Some(code), None) => Err(code.into()),
        row => Err(StoreError::defect(Service::Postgres, format!("a step says {row:?}")).into()),
    }
}

/// The person that takes a step. The log of steps also knows time (3) and the payment gateway (4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// The order's buyer.
    Buyer(UserId),
    /// An administrator; `None` where it is somebody at the shell.
    Administrator(Option<UserId>),
}

impl Actor {
    /// As the database writes it: what the actor is, and the user.
    fn columns(self) -> (i16, Option<i64>) {
        match self {
            Self::Buyer(user) => (1, Some(user.get())),
            Self::Administrator(user) => (2, user.map(UserId::get)),
        }
    }
}

/// Cancels an unpaid order and puts its voucher back on sale.
pub async fn cancel(pool: &PgPool, order: &Order, actor: Actor) -> Result<OrderStatus, Stop> {
    let (actor, actor_id) = actor.columns();
    let query = sqlx::query_as("select refusal, order_status from cancel_order($1, $2, $3, $4)")
        .bind(order.voucher_id.get())
        .bind(order.id.get())
        .bind(actor)
        .bind(actor_id);
    taken(step_in_time(pool, async |connection| query.fetch_one(connection).await).await?)
}

/// What only an administrator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdministratorStep {
    /// Begins to give the money of a paid order back. An order that cost nothing is refunded at once.
    Refund,
    /// Redeems a paid order.
    Redeem,
    /// The money of an order that is being refunded went back outside the gateway.
    SettleOutside,
}

impl AdministratorStep {
    /// The only state of an order that allows it.
    pub const fn from(self) -> OrderStatus {
        match self {
            Self::Refund | Self::Redeem => OrderStatus::Paid,
            Self::SettleOutside => OrderStatus::Refunding,
        }
    }
}

/// Takes `step`; `administrator` is `None` at the shell.
pub async fn take(
    pool: &PgPool,
    step: AdministratorStep,
    order: &Order,
    administrator: Option<UserId>,
) -> Result<OrderStatus, Stop> {
    let call = match step {
        AdministratorStep::Refund => "select refusal, order_status from refund_order($1, $2, $3)",
        AdministratorStep::Redeem => "select refusal, order_status from redeem_order($1, $2, $3)",
        AdministratorStep::SettleOutside => {
            "select refusal, order_status from settle_refund($1, $2, $3)"
        }
    };
    let query = sqlx::query_as(call)
        .bind(order.voucher_id.get())
        .bind(order.id.get())
        .bind(administrator.map(UserId::get));
    taken(step_in_time(pool, async |connection| query.fetch_one(connection).await).await?)
}

/// Up to `limit` unpaid orders whose time to pay was over at `now`, the oldest first, with their vouchers; none of the
/// vouchers `except`, and none of which the gateway is being asked.
pub async fn list_overdue(
    pool: &PgPool,
    now: DateTime<Utc>,
    except: &[VoucherId],
    limit: i64,
) -> Result<Vec<(VoucherId, OrderId)>, StoreError> {
    let query = sqlx::query_as(
        "select voucher_id, id from orders
         where status = order_unpaid() and coalesce(asked_until, pay_by) <= $1 and voucher_id <> all ($2)
         order by coalesce(asked_until, pay_by) limit $3",
    )
    .bind(now)
    .bind(except.iter().map(|voucher| voucher.get()).collect::<Vec<_>>())
    .bind(limit);
    in_time(pool, async |connection| query.fetch_all(connection).await).await
}

/// Cancels those of `orders`, all of one voucher, whose time to pay is over by the database's clock, and puts
/// their vouchers back on sale. Returns how many. An order with a payment under way waits for what the gateway says of it,
/// which is asked now, at most `ask_within`.
pub async fn expire(
    pool: &PgPool,
    voucher: VoucherId,
    orders: &[OrderId],
    ask_within: Duration,
) -> Result<i64, StoreError> {
    let query = sqlx::query_scalar("select expire_orders($1, $2, $3)")
        .bind(voucher.get())
        .bind(orders.iter().map(|order| order.get()).collect::<Vec<_>>())
        .bind(ask_within.as_secs_f64());
    step_in_time(pool, async |connection| query.fetch_one(connection).await).await
}

/// The gateway, which was asked, has said what it knows of a payment: its order waits no longer.
pub async fn gateway_answered(pool: &PgPool, payment: PaymentId) -> Result<(), StoreError> {
    let query = sqlx::query("select gateway_answered($1, $2, $3)")
        .bind(payment.voucher.get())
        .bind(payment.order.get())
        .bind(payment.number);
    step_in_time(pool, async |connection| query.execute(connection).await).await?;
    Ok(())
}

/// The time by which sales begin and end and payments are late.
pub async fn time(pool: &PgPool) -> Result<DateTime<Utc>, StoreError> {
    let query = sqlx::query_scalar("select sale_time()");
    in_time(pool, async |connection| query.fetch_one(connection).await).await
}

/// A row of the log of steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LoggedStep {
    /// What was done: `paid`, `revived`, `redeemed`, `cancelled`, `refund_begun`, `refunded`, `refund_failed`, `charged_back`,
    /// `charge_back_won` or `settled_outside`.
    pub step: String,
    /// By whom: `buyer`, `administrator`, `time` or `gateway`.
    pub actor: String,
    /// The user, where it was one.
    #[schema(required = true)]
    pub actor_id: Option<UserId>,
    /// When.
    pub at: DateTime<Utc>,
}

row! { LoggedStep: step, actor, actor_id, at }

/// The steps of an order, the oldest first.
pub async fn list_of(pool: &PgPool, order: &Order) -> Result<Vec<LoggedStep>, StoreError> {
    let query = sqlx::query_as(
        "select step, (array['buyer', 'administrator', 'time', 'gateway'])[actor] as actor, actor_id, at
         from order_steps where order_id = $1 and voucher_id = $2
         order by number",
    )
    .bind(order.id.get())
    .bind(order.voucher_id.get());
    in_time(pool, async |connection| query.fetch_all(connection).await).await
}
