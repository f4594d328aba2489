//! Judges the promises from the database alone. Shares no code with what sells: it counts.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::postgres::PgPool;
use utoipa::ToSchema;

use super::broken_promises::{self, Broken};
pub use super::broken_promises::{Promise, Violation};
use crate::model::{UserId, VoucherId};
use crate::store::columns::row;
use crate::store::statements::Work;
use crate::store::{Database, DatabaseSession, StoreError};

/// The books of a voucher, as `seckill audit --json` writes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = AuditBody)]
pub struct VoucherAudit {
    /// The voucher.
    pub voucher_id: VoucherId,
    /// Vouchers that were put on sale, without those whose orders were removed (`seckill prune`).
    pub initial_stock: i64,
    /// Vouchers left.
    pub stock: i64,
    /// Live orders: those that are neither cancelled nor refunded.
    pub orders: i64,
    /// Different users among them.
    pub distinct_users: i64,
    /// What became of the orders, and of the money.
    #[serde(flatten)]
    #[schema(inline)]
    pub life: OrderLives,
    /// Whether every promise was kept.
    pub holds: bool,
    /// Each promise that was not: its name, a colon, and the figures in words, with the ids of up to five
    /// orders or users. The names are `no_oversell`, `one_per_user`, `no_undersell`, `no_stuck_stock`,
    /// `no_lost_payment`, `order_steps`, `orphans`, `sale_window` and `fair_order`.
    #[schema(value_type = Vec<String>)]
    pub violations: Vec<Violation>,
}

/// How many orders of a voucher took which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct OrderLives {
    /// Live orders that wait for their payment.
    pub unpaid: i64,
    /// Orders that are paid, or cost nothing; redeemed ones, too.
    pub paid: i64,
    /// Those of them that were redeemed.
    pub used: i64,
    /// Orders that were cancelled, for whatever reason.
    pub cancelled: i64,
    /// Those of them that were not paid in time.
    pub expired: i64,
    /// Orders whose money is on its way back.
    pub refunding: i64,
    /// Orders whose money went back.
    pub refunded: i64,
    /// Payments that the gateway confirmed.
    pub payments: i64,
    /// Payments whose money went back.
    pub refunds: i64,
    /// What the gateway took, in the currency's smallest unit.
    pub money_in: i64,
    /// What of it went back.
    pub money_returned: i64,
    /// What of it is kept: that of orders, and what waits to go back. Both add up to what came in.
    pub money_kept: i64,
}

impl VoucherAudit {
    /// Live orders beyond the initial stock.
    pub fn oversold(&self) -> i64 {
        (self.orders - self.initial_stock).max(0)
    }

    /// Live orders beyond one per user.
    pub fn duplicates(&self) -> i64 {
        self.orders - self.distinct_users
    }

    /// What is wrong that its figures do not show, a sentence each: for a judge who counts by himself.
    pub fn beyond_figures(&self) -> Vec<String> {
        let counted = [Promise::NoOversell, Promise::OnePerUser, Promise::NoUndersell];
        let others = self.violations.iter().filter(|it| !counted.contains(&it.promise));
        others.map(ToString::to_string).collect()
    }

    fn judge(&mut self, broken: &[Broken]) {
        let mut violations = Vec::new();
        if self.oversold() > 0 {
            let what = format!("{} orders for {} vouchers", self.orders, self.initial_stock);
            violations.push(Violation { promise: Promise::NoOversell, what });
        }
        if self.orders + self.stock != self.initial_stock {
            violations.push(Violation::unbalanced(self.orders, self.stock, self.initial_stock));
        }
        if self.stock < 0 {
            let what = format!("the stock is {}", self.stock);
            violations.push(Violation { promise: Promise::NoOversell, what });
        }
        let own = broken.iter().filter(|broken| broken.voucher_id == self.voucher_id);
        violations.extend(own.map(Broken::violation));
        self.holds = violations.is_empty();
        self.violations = violations;
    }
}

/// Counts one voucher, or all, the oldest first, from one snapshot.
///
/// Orders of a voucher that does not exist are reported as a voucher with an initial
/// stock of 0, so that they cannot hide.
pub async fn run(pool: &PgPool, only: Option<VoucherId>) -> Result<Vec<VoucherAudit>, StoreError> {
    count(pool, only, OFFLINE_WITHIN).await
}

/// Counts one voucher while it may be on sale, in at most `limit`; `None`: there is no such voucher.
///
/// # Errors
/// `Unavailable` when the time is over.
pub async fn run_within(
    limit: Duration,
    database: &Database,
    voucher: VoucherId,
) -> Result<Option<VoucherAudit>, StoreError> {
    Ok(count(database.pool(), Some(voucher), limit).await?.pop())
}

/// Reads only: the right to read is enough. Counting a large sale may take longer than a purchase ever
/// should.
async fn count(
    pool: &PgPool,
    only: Option<VoucherId>,
    limit: Duration,
) -> Result<Vec<VoucherAudit>, StoreError> {
    let only = only.map(VoucherId::get);
    let read = async |session: &mut DatabaseSession| {
        let now: DateTime<Utc> =
            sqlx::query_scalar("select sale_time()").fetch_one(&mut *session).await?;
        let audits: Vec<VoucherAudit> =
            sqlx::query_as(COUNTED).bind(only).fetch_all(&mut *session).await?;
        let has_duplicates = audits.iter().any(|audit| audit.duplicates() > 0);
        let broken = broken_promises::find(session, only, now, has_duplicates).await?;
        Ok((audits, broken))
    };
    let (mut audits, broken) = Work::snapshot(limit, pool).run(read).await?;
    for audit in &mut audits {
        audit.judge(&broken);
    }
    Ok(audits)
}

/// How long an audit may take that holds up nobody.
const OFFLINE_WITHIN: Duration = Duration::from_secs(600);

/// The figures of a voucher. A live order is in one of the states 1, 2, 3 and 5.
const COUNTED: &str = "
    with counted as (
      select voucher_id,
             count(*) filter (where is_live(status)) as orders,
             count(distinct user_id) filter (where is_live(status)) as distinct_users,
             count(*) filter (where status = order_unpaid()) as unpaid,
             count(*) filter (where status in (order_paid(), order_used())) as paid,
             count(*) filter (where status = order_used()) as used,
             count(*) filter (where status in (order_refunding(), order_refunding_again())) as refunding,
             count(*) filter (where status = order_cancelled()) as cancelled,
             count(*) filter (where status = order_cancelled() and cancelled_by = actor_time()) as expired,
             count(*) filter (where status = order_refunded()) as refunded,
             sum(amount - returned_amount) filter (where status in (order_paid(), order_used(), order_refunded())) as kept
      from orders
      where $1::bigint is null or (voucher_id = $1 and id > 0)
      group by voucher_id
    ), money as (
      select p.voucher_id, p.paid_amount, r.status as refund,
             coalesce(sum(b.amount) filter (where b.undone_at is null), 0) as returned
      from payments p
      left join returns b on b.transaction_id = p.transaction_id and b.voucher_id = p.voucher_id
      left join refunds r on r.order_id = p.order_id and r.number = p.number and r.voucher_id = p.voucher_id
      where p.transaction_id is not null and ($1::bigint is null or p.voucher_id = $1)
      group by p.voucher_id, p.order_id, p.number, p.paid_amount, r.status
    ), paid as (
      select voucher_id, count(*) as payments, count(*) filter (where returned >= paid_amount) as refunds,
             sum(paid_amount) as money_in, sum(returned) as money_returned,
             coalesce(sum(paid_amount - returned) filter (where refund = refund_waiting()), 0) as waiting
      from money
      group by voucher_id
    )
    select coalesce(s.voucher_id, c.voucher_id) as voucher_id,
           coalesce(s.initial_stock - s.pruned, 0)::bigint as initial_stock,
           coalesce(s.stock, 0)::bigint as stock,
           coalesce(c.orders, 0) as orders,
           coalesce(c.distinct_users, 0) as distinct_users,
           coalesce(c.unpaid, 0) as unpaid,
           coalesce(c.paid, 0) as paid,
           coalesce(c.used, 0) as used,
           coalesce(c.refunding, 0) as refunding,
           coalesce(c.cancelled, 0) as cancelled,
           coalesce(c.expired, 0) as expired,
           coalesce(c.refunded, 0) as refunded,
           coalesce(p.payments, 0) as payments,
           coalesce(p.refunds, 0) as refunds,
           coalesce(p.money_in, 0)::bigint as money_in,
           coalesce(p.money_returned, 0)::bigint as money_returned,
           (coalesce(c.kept, 0) + coalesce(p.waiting, 0))::bigint as money_kept
    from (select * from seckill_vouchers where $1::bigint is null or voucher_id = $1) s
    full join counted c on c.voucher_id = s.voucher_id
    left join paid p on p.voucher_id = coalesce(s.voucher_id, c.voucher_id)
    order by 1";

row! {
    OrderLives: unpaid, paid, used, cancelled, expired, refunding, refunded, payments, refunds, money_in, money_returned,
    money_kept
}

row! {
    VoucherAudit: ..life, voucher_id, initial_stock, stock, orders, distinct_users; holds, violations
}

/// How many live orders of `voucher` the users `first ..= last` have.
pub async fn count_orders_of(
    pool: &PgPool,
    voucher: VoucherId,
    (first, last): (UserId, UserId),
) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar(
        "select count(*) from orders
         where voucher_id = $1 and user_id between $2 and $3 and is_live(status)",
    )
    .bind(voucher.get())
    .bind(first.get())
    .bind(last.get());
    Work::snapshot(OFFLINE_WITHIN, pool).run(async |session| count.fetch_one(session).await).await
}

/// How many of the orders that buyers were `told` of, as (user, order), are not in the database for that
/// user and voucher. An order that two buyers were told of is lost for one of them.
pub async fn count_lost(
    pool: &PgPool,
    voucher: VoucherId,
    told: &[(i64, i64)],
) -> Result<i64, StoreError> {
    let (users, orders): (Vec<i64>, Vec<i64>) = told.iter().copied().unzip();
    let lost = sqlx::query_scalar(
        "select count(*) - count(distinct o.id)
         from unnest($1::bigint[], $2::bigint[]) as told (user_id, order_id)
         left join orders o on o.id = told.order_id
           and o.user_id = told.user_id and o.voucher_id = $3",
    )
    .bind(users)
    .bind(orders)
    .bind(voucher.get());
    Work::snapshot(OFFLINE_WITHIN, pool).run(async |session| lost.fetch_one(session).await).await
}
