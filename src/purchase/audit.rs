//! Judges the promises from the database alone. Shares no code with what sells: it counts.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::postgres::{PgPool, PgRow};
use sqlx::{FromRow, Row};
use utoipa::ToSchema;

use crate::model::{UserId, VoucherId};
use crate::store::postgres::snapshot_within;
use crate::store::{Database, DatabaseSession, StoreError};

/// The books of a voucher, as `seckill audit --json` writes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = AuditBody)]
pub struct VoucherAudit {
    /// The voucher.
    pub voucher_id: VoucherId,
    /// Vouchers that were put on sale.
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
    /// `no_lost_payment`, `orphans` and `sale_window`.
    pub violations: Vec<String>,
}

/// How many orders of a voucher took which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct OrderLives {
    /// Live orders that wait for their payment.
    pub unpaid: i64,
    /// Orders that are paid, or cost nothing; redeemed ones, too.
    pub paid: i64,
    /// Orders that were cancelled, for whatever reason.
    pub cancelled: i64,
    /// Those of them that were not paid in time.
    pub expired: i64,
    /// Orders whose money went back.
    pub refunded: i64,
    /// Payments that the gateway confirmed.
    pub payments: i64,
    /// Payments whose money went back.
    pub refunds: i64,
}

/// Orders that break a promise by themselves: how many, and some of them.
#[derive(Debug)]
struct Broken {
    voucher_id: VoucherId,
    promise: String,
    what: String,
    count: i64,
    ids: Vec<i64>,
}

impl Broken {
    fn in_words(&self) -> String {
        let Self { promise, what, count, ids, .. } = self;
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let more = if *count > ids.len() as i64 { ", ..." } else { "" };
        format!("{promise}: {count} {what}: {}{more}", ids.join(", "))
    }
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

    fn judge(&mut self, broken: &[Broken]) {
        let mut violations = Vec::new();
        if self.oversold() > 0 {
            violations.push(format!(
                "no_oversell: {} orders for {} vouchers",
                self.orders, self.initial_stock
            ));
        }
        if self.orders + self.stock != self.initial_stock {
            violations.push(format!(
                "no_undersell: {} orders + {} left is not {} that were put on sale",
                self.orders, self.stock, self.initial_stock
            ));
        }
        if self.stock < 0 {
            violations.push(format!("no_oversell: the stock is {}", self.stock));
        }
        let own = broken.iter().filter(|broken| broken.voucher_id == self.voucher_id);
        violations.extend(own.map(Broken::in_words));
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
        let mut broken: Vec<Broken> =
            sqlx::query_as(BROKEN_ORDERS).bind(only).bind(now).fetch_all(&mut *session).await?;
        if audits.iter().any(|audit| audit.duplicates() > 0) {
            broken.extend(sqlx::query_as(BUYERS_TWICE).bind(only).fetch_all(&mut *session).await?);
        }
        let has_money: bool =
            sqlx::query_scalar(HAS_MONEY).bind(only).fetch_one(&mut *session).await?;
        if has_money {
            broken.extend(sqlx::query_as(BROKEN_MONEY).bind(only).fetch_all(session).await?);
        }
        Ok((audits, broken))
    };
    let (mut audits, broken) = snapshot_within(limit, pool, read).await?;
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
             count(*) filter (where status in (1, 2, 3, 5)) as orders,
             count(distinct user_id) filter (where status in (1, 2, 3, 5)) as distinct_users,
             count(*) filter (where status = 1) as unpaid,
             count(*) filter (where status in (2, 3)) as paid,
             count(*) filter (where status = 4) as cancelled,
             count(*) filter (where status = 4 and cancelled_by = 3) as expired,
             count(*) filter (where status = 6) as refunded
      from orders
      where $1::bigint is null or (voucher_id = $1 and id > 0)
      group by voucher_id
    ), paid as (
      select voucher_id, count(*) filter (where status in (2, 4)) as payments
      from payments
      where $1::bigint is null or voucher_id = $1
      group by voucher_id
    ), returned as (
      select voucher_id, count(*) filter (where status = 2) as refunds
      from refunds
      where $1::bigint is null or voucher_id = $1
      group by voucher_id
    )
    select coalesce(s.voucher_id, c.voucher_id) as voucher_id,
           coalesce(s.initial_stock, 0)::bigint as initial_stock,
           coalesce(s.stock, 0)::bigint as stock,
           coalesce(c.orders, 0) as orders,
           coalesce(c.distinct_users, 0) as distinct_users,
           coalesce(c.unpaid, 0) as unpaid,
           coalesce(c.paid, 0) as paid,
           coalesce(c.cancelled, 0) as cancelled,
           coalesce(c.expired, 0) as expired,
           coalesce(c.refunded, 0) as refunded,
           coalesce(p.payments, 0) as payments,
           coalesce(r.refunds, 0) as refunds
    from (select * from seckill_vouchers where $1::bigint is null or voucher_id = $1) s
    full join counted c on c.voucher_id = s.voucher_id
    left join paid p on p.voucher_id = coalesce(s.voucher_id, c.voucher_id)
    left join returned r on r.voucher_id = coalesce(s.voucher_id, c.voucher_id)
    order by 1";

/// Whether there is anything to hold together: most sales are free.
const HAS_MONEY: &str = "
    select exists (select 1 from payments where $1::bigint is null or voucher_id = $1)
        or exists (select 1 from refunds where $1::bigint is null or voucher_id = $1)
        or exists (select 1 from orders
                   where amount > 0 and ($1::bigint is null or (voucher_id = $1 and id > 0)))";

/// Orders that should not be there, or not be there any more. The window is the widest that the sale ever
/// had. A server looks for overdue orders once a second.
const BROKEN_ORDERS: &str = "
    select voucher_id, promise, what, count(*) as count, (array_agg(id))[1:5] as ids
    from (
      select o.voucher_id, o.id,
             case
               when u.id is null then 'orphans'
               when o.status = 1 and coalesce(o.pay_by, '-infinity') < $2 - interval '1 minute' then 'no_stuck_stock'
               else 'sale_window'
             end as promise,
             case
               when u.id is null then 'orders of users unknown'
               when o.status = 1 and coalesce(o.pay_by, '-infinity') < $2 - interval '1 minute'
                 then 'orders are unpaid a minute after their time was over'
               else 'orders before the sale began or after it ended'
             end as what
      from orders o
      left join users u on u.id = o.user_id
      left join vouchers v on v.id = o.voucher_id
      left join seckill_vouchers s on s.voucher_id = o.voucher_id
      where ($1::bigint is null or (o.voucher_id = $1 and o.id > 0))
        and (u.id is null
             or (o.status = 1 and coalesce(o.pay_by, '-infinity') < $2 - interval '1 minute')
             or o.created_at < least(s.begin_time, v.earliest_begin_time)
             or o.created_at >= greatest(s.end_time, v.latest_end_time))
    ) broken
    group by voucher_id, promise, what";

const BUYERS_TWICE: &str = "
    select voucher_id, 'one_per_user' as promise, 'users have more than one order' as what,
           count(*) as count, (array_agg(user_id))[1:5] as ids
    from (
      select voucher_id, user_id from orders
      where status in (1, 2, 3, 5) and ($1::bigint is null or (voucher_id = $1 and id > 0))
      group by voucher_id, user_id
      having count(*) > 1
    ) twice
    group by voucher_id";

/// Money that is nowhere, or twice somewhere. Each order, and each payment, is held against what should be
/// beside it.
const BROKEN_MONEY: &str = "
    select voucher_id, 'no_lost_payment' as promise, what, count(*) as count,
           (array_agg(order_id))[1:5] as ids
    from (
      select o.voucher_id, o.id as order_id,
             'orders are paid or used without one payment of their amount' as what
      from orders o
      left join payments p on p.order_id = o.id and p.voucher_id = o.voucher_id and p.status = 2
      where o.amount > 0 and o.status in (2, 3, 5, 6)
        and ($1::bigint is null or o.voucher_id = $1)
      group by o.voucher_id, o.id, o.amount
      having count(p.number) <> 1 or sum(p.paid_amount) is distinct from o.amount
      union all
      select p.voucher_id, p.order_id, 'orders took a payment and are not paid'
      from payments p
      left join orders o on o.id = p.order_id and o.voucher_id = p.voucher_id
      where p.status = 2 and (o.status is null or o.status not in (2, 3, 5, 6))
        and ($1::bigint is null or p.voucher_id = $1)
      union all
      select p.voucher_id, p.order_id, 'payments were given back without a refund of their amount'
      from payments p
      left join refunds r
        on r.order_id = p.order_id and r.number = p.number and r.voucher_id = p.voucher_id
      where p.status = 4 and r.amount is distinct from p.paid_amount
        and ($1::bigint is null or p.voucher_id = $1)
      union all
      select o.voucher_id, o.id, 'orders are refunded, or being refunded, and their refund is not'
      from orders o
      left join payments p on p.order_id = o.id and p.voucher_id = o.voucher_id and p.status = 2
      left join refunds r
        on r.order_id = p.order_id and r.number = p.number and r.voucher_id = p.voucher_id
      where o.amount > 0
        and ((o.status = 5 and r.status is distinct from 1)
             or (o.status = 6 and r.status is distinct from 2)
             or (o.status in (2, 3) and r.status is not null))
        and ($1::bigint is null or o.voucher_id = $1)
      union all
      select r.voucher_id, r.order_id, 'refunds are not of the amount that was paid'
      from refunds r
      left join payments p
        on p.order_id = r.order_id and p.number = r.number and p.voucher_id = r.voucher_id
      where p.paid_amount is distinct from r.amount and ($1::bigint is null or r.voucher_id = $1)
      union all
      select min(voucher_id), min(order_id), 'transactions of the gateway were applied twice'
      from payments
      where transaction_id is not null and ($1::bigint is null or voucher_id = $1)
      group by transaction_id
      having count(*) > 1
    ) broken
    group by voucher_id, what
    order by voucher_id, what";

impl FromRow<'_, PgRow> for Broken {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            voucher_id: row.try_get("voucher_id")?,
            promise: row.try_get("promise")?,
            what: row.try_get("what")?,
            count: row.try_get("count")?,
            ids: row.try_get("ids")?,
        })
    }
}

impl FromRow<'_, PgRow> for VoucherAudit {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            voucher_id: row.try_get("voucher_id")?,
            initial_stock: row.try_get("initial_stock")?,
            stock: row.try_get("stock")?,
            orders: row.try_get("orders")?,
            distinct_users: row.try_get("distinct_users")?,
            life: OrderLives {
                unpaid: row.try_get("unpaid")?,
                paid: row.try_get("paid")?,
                cancelled: row.try_get("cancelled")?,
                expired: row.try_get("expired")?,
                refunded: row.try_get("refunded")?,
                payments: row.try_get("payments")?,
                refunds: row.try_get("refunds")?,
            },
            holds: false,
            violations: Vec::new(),
        })
    }
}

/// How many live orders of `voucher` the users `first ..= last` have.
pub async fn count_orders_of(
    pool: &PgPool,
    voucher: VoucherId,
    (first, last): (UserId, UserId),
) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar(
        "select count(*) from orders
         where voucher_id = $1 and user_id between $2 and $3 and status in (1, 2, 3, 5)",
    )
    .bind(voucher.get())
    .bind(first.get())
    .bind(last.get());
    snapshot_within(OFFLINE_WITHIN, pool, async |session| count.fetch_one(session).await).await
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
    snapshot_within(OFFLINE_WITHIN, pool, async |session| lost.fetch_one(session).await).await
}
