//! What an audit finds wrong with single orders and payments, each in one statement that counts them and names some.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use crate::model::VoucherId;
use crate::store::DatabaseSession;
use crate::store::columns::{column, row};

/// What an audit holds a sale against.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString, strum::VariantNames,
)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs)] // docs/reliability.md says what each promises
pub enum Promise {
    NoOversell,
    OnePerUser,
    NoUndersell,
    NoStuckStock,
    NoLostPayment,
    OrderSteps,
    Orphans,
    SaleWindow,
    FairOrder,
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// The figures in words.
    pub what: String,
}

impl Violation {
    /// Orders and stock do not add up to what was put on sale.
    pub fn unbalanced(orders: i64, left: i64, initial: i64) -> Self {
        let what = format!("{orders} orders + {left} left is not {initial} that were put on sale");
        Self { promise: Promise::NoUndersell, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.promise, self.what)
    }
}

impl Serialize for Violation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Orders that break a promise by themselves: how many, and some of them.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) voucher_id: VoucherId,
    promise: Promise,
    what: String,
    count: i64,
    ids: Vec<i64>,
}

impl Broken {
    pub(super) fn violation(&self) -> Violation {
        let Self { promise, what, count, ids, .. } = self;
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let more = if *count > ids.len() as i64 { ", ..." } else { "" };
        Violation { promise: *promise, what: format!("{count} {what}: {}{more}", ids.join(", ")) }
    }
}

/// All of it, of one voucher or of all.
pub(super) async fn find(
    session: &mut DatabaseSession,
    only: Option<i64>,
    now: DateTime<Utc>,
    has_duplicates: bool,
) -> sqlx::Result<Vec<Broken>> {
    let mut broken: Vec<Broken> =
        sqlx::query_as(BROKEN_ORDERS).bind(only).bind(now).fetch_all(&mut *session).await?;
    if has_duplicates {
        broken.extend(sqlx::query_as(BUYERS_TWICE).bind(only).fetch_all(&mut *session).await?);
    }
    broken.extend(sqlx::query_as(UNFAIR).bind(only).bind(now).fetch_all(&mut *session).await?);
    broken.extend(sqlx::query_as(UNEXPLAINED).bind(only).fetch_all(&mut *session).await?);
    let has_money = sqlx::query_scalar(HAS_MONEY).bind(only);
    if has_money.fetch_one(&mut *session).await? {
        broken.extend(sqlx::query_as(BROKEN_MONEY).bind(only).fetch_all(session).await?);
    }
    Ok(broken)
}

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
               when o.status = order_unpaid() and coalesce(o.pay_by, '-infinity') < $2 - interval '1 minute'
                 then 'no_stuck_stock'
               else 'sale_window'
             end as promise,
             case
               when u.id is null then 'orders of users unknown'
               when o.status = order_unpaid() and coalesce(o.pay_by, '-infinity') < $2 - interval '1 minute'
                 then 'orders are unpaid a minute after their time was over'
               when o.status in (order_unpaid(), order_paid()) and s.wound_up_at is not null
                 then 'orders are open though their sale was cancelled and wound up'
               else 'orders before the sale began or after it ended'
             end as what
      from orders o
      left join users u on u.id = o.user_id
      left join vouchers v on v.id = o.voucher_id
      left join seckill_vouchers s on s.voucher_id = o.voucher_id
      where ($1::bigint is null or (o.voucher_id = $1 and o.id > 0))
        and (u.id is null
             or (o.status = order_unpaid() and coalesce(o.pay_by, '-infinity') < $2 - interval '1 minute')
             or (o.status in (order_unpaid(), order_paid()) and s.wound_up_at is not null)
             or o.created_at < least(s.begin_time, v.earliest_begin_time)
             or o.created_at >= greatest(s.end_time, v.latest_end_time))
    ) broken
    group by voucher_id, promise, what";

/// Orders whose log of steps does not lead from their beginning (unpaid, or paid where they cost nothing) to the state
/// in which they are: each step begins where the one before ended. An order without a step is as it began.
const UNEXPLAINED: &str = "
    select voucher_id, 'order_steps' as promise, 'orders are in a state that their steps do not explain' as what,
           count(*) as count, (array_agg(order_id))[1:5] as ids
    from (
      select o.voucher_id, o.id as order_id
      from orders o
      left join (
        select voucher_id, order_id, bool_and(follows) as follows, min(first) as first, max(last) as last
        from (
          select voucher_id, order_id,
                 status_before is not distinct from coalesce(
                   lag(status_after) over by_number, status_before) as follows,
                 first_value(status_before) over by_number as first,
                 last_value(status_after) over (
                   partition by voucher_id, order_id order by number
                   rows between unbounded preceding and unbounded following) as last
          from order_steps
          where $1::bigint is null or voucher_id = $1
          window by_number as (partition by voucher_id, order_id order by number)
        ) step
        group by voucher_id, order_id
      ) steps on steps.voucher_id = o.voucher_id and steps.order_id = o.id
      where ($1::bigint is null or (o.voucher_id = $1 and o.id > 0))
        and not (coalesce(steps.follows, true)
                 and coalesce(steps.first, o.status) = case when o.amount > 0 then 1 else 2 end
                 and coalesce(steps.last, o.status) = o.status)
    ) unexplained
    group by voucher_id";

/// Draws and lines: nobody behind is served before one ahead, nobody buys past those who wait, a draw is what its seed
/// says, and what there is does not lie while somebody waits. A purchase is dated by the server that it reached: a second
/// is allowed for. A server looks for what is due once a second.
const UNFAIR: &str = "
    select voucher_id, promise, what, count(*) as count, (array_agg(id))[1:5] as ids
    from (
      select voucher_id, order_id as id, 'fair_order' as promise, 'orders were offered past entries ahead of them' as what
      from (
        select voucher_id, order_id, status, ended_at,
               max(coalesce(ended_at, 'infinity')) over (
                 partition by voucher_id order by place rows between unbounded preceding and 1 preceding) as ahead_until
        from entries
        where place is not null and ($1::bigint is null or voucher_id = $1)
      ) entry
      where status = 2 and ahead_until > ended_at
      union all
      select voucher_id, id, 'fair_order', 'orders were placed past those who waited'
      from (
        select voucher_id, id, at, max(waits_until) over (partition by voucher_id order by at, id nulls last) as waits_until
        from (
          select voucher_id, null::bigint as id, entered_at + interval '1 second' as at,
                 coalesce(ended_at, 'infinity') as waits_until
          from entries
          where $1::bigint is null or voucher_id = $1
          union all
          select o.voucher_id, o.id, o.created_at, null
          from orders o
          join (select voucher_id, min(entered_at) as since from entries
                where $1::bigint is null or voucher_id = $1 group by voucher_id) waiting
            on waiting.voucher_id = o.voucher_id and o.created_at > waiting.since + interval '1 second'
          where ($1::bigint is null or (o.voucher_id = $1 and o.id > 0))
            and not exists (select from entries e where e.voucher_id = o.voucher_id and e.order_id = o.id)
        ) happened
      ) happened
      where id is not null and at + interval '1 second' < waits_until
      union all
      select voucher_id, user_id, 'fair_order', 'users stand in line behind others who came later'
      from (
        select e.voucher_id, e.user_id, e.entered_at,
               lag(e.entered_at) over (partition by e.voucher_id order by e.place) as ahead_since
        from entries e join vouchers v on v.id = e.voucher_id
        where e.place is not null and e.entered_at >= coalesce(v.draw_time, '-infinity')
          and ($1::bigint is null or e.voucher_id = $1)
      ) entry
      where ahead_since > entered_at + interval '1 second'
      union all
      select voucher_id, user_id, 'fair_order', 'users have another place than the draw gave them'
      from (
        select e.voucher_id, e.user_id, e.place,
               row_number() over (partition by e.voucher_id order by sha256(convert_to(
                 concat_ws(':', v.id, v.draw_seed, coalesce(v.draw_beacon_number, ''), e.id), 'UTF8'))) as drawn
        from entries e join vouchers v on v.id = e.voucher_id
        where v.drawn_at is not null and e.entered_at < v.draw_time
          and not (e.status = 3 and e.ended_at < v.draw_time) and ($1::bigint is null or e.voucher_id = $1)
      ) entry
      where place is distinct from drawn
      union all
      select s.voucher_id, e.user_id, 'no_stuck_stock', 'users stand in line for what has been there for a minute'
      from seckill_vouchers s
      join vouchers v on v.id = s.voucher_id
      join entries e on e.voucher_id = s.voucher_id
      where s.held_for = 2 and s.stock > 0 and not s.paused and s.cancelled_at is null
        and $2 >= s.begin_time + interval '1 minute' and $2 < s.end_time
        and e.status = 1 and e.entered_at < $2 - interval '1 minute'
        and is_offer_time(v.offer_between, $2) and is_offer_time(v.offer_between, $2 - interval '1 minute')
        and coalesce(v.changed_at, '-infinity') < $2 - interval '1 minute'
        and not exists (select from orders o where o.voucher_id = s.voucher_id and o.updated_at > $2 - interval '1 minute')
        and ($1::bigint is null or s.voucher_id = $1)
      union all
      select v.id, v.id, 'no_stuck_stock', 'draws have been due for a minute'
      from seckill_vouchers s join vouchers v on v.id = s.voucher_id
      where s.held_for = 1 and (v.draw_beacon = '' or v.draw_beacon_number is not null)
        and not s.paused and s.cancelled_at is null
        and $2 >= greatest(s.begin_time, v.draw_time, v.changed_at) + interval '1 minute' and greatest($2, v.line_time) < s.end_time
        and ($1::bigint is null or v.id = $1)
    ) broken
    group by voucher_id, promise, what";

const BUYERS_TWICE: &str = "
    select voucher_id, 'one_per_user' as promise, 'users have more than one order' as what,
           count(*) as count, (array_agg(user_id))[1:5] as ids
    from (
      select voucher_id, user_id from orders
      where is_live(status) and ($1::bigint is null or (voucher_id = $1 and id > 0))
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
      left join payments p on p.order_id = o.id and p.voucher_id = o.voucher_id and p.status = payment_applied()
      where o.amount > 0 and o.status in (order_paid(), order_used(), order_refunding(), order_refunded())
        and ($1::bigint is null or (o.voucher_id = $1 and o.id > 0))
      group by o.voucher_id, o.id, o.amount
      having count(p.number) <> 1 or sum(p.paid_amount) is distinct from o.amount
      union all
      select p.voucher_id, p.order_id, 'orders took a payment and are not paid'
      from payments p
      left join orders o on o.id = p.order_id and o.voucher_id = p.voucher_id
      where p.status = payment_applied()
        and (o.status is null or o.status not in (order_paid(), order_used(), order_refunding(), order_refunded()))
        and ($1::bigint is null or p.voucher_id = $1)
      union all
      select p.voucher_id, p.order_id, 'payments were given back without a refund of their amount'
      from payments p
      left join refunds r
        on r.order_id = p.order_id and r.number = p.number and r.voucher_id = p.voucher_id
      where p.status = payment_given_back() and r.amount is distinct from p.paid_amount - p.returned_amount
        and ($1::bigint is null or p.voucher_id = $1)
      union all
      select o.voucher_id, o.id, 'orders are refunded, or being refunded, and their refund is not'
      from orders o
      left join payments p on p.order_id = o.id and p.voucher_id = o.voucher_id and p.status = payment_applied()
      left join refunds r
        on r.order_id = p.order_id and r.number = p.number and r.voucher_id = p.voucher_id
      where o.amount > 0
        and ((o.status = order_refunding() and r.status is distinct from refund_waiting())
             or (o.status = order_refunded() and r.status is distinct from refund_done())
             or (o.status = order_used() and (r.status is not distinct from refund_done()) <> (o.charged_back_at is not null))
             or (o.status in (order_paid(), order_used()) and r.status = refund_waiting())
             or (o.status = order_paid() and r.status = refund_done()))
        and ($1::bigint is null or (o.voucher_id = $1 and o.id > 0))
      union all
      select r.voucher_id, r.order_id, 'refunds are not of the amount that was paid'
      from refunds r
      left join payments p
        on p.order_id = r.order_id and p.number = r.number and p.voucher_id = r.voucher_id
      where p.paid_amount - p.returned_amount is distinct from r.amount and ($1::bigint is null or r.voucher_id = $1)
      union all
      select r.voucher_id, r.order_id, 'payments went back twice'
      from refunds r
      where r.given_back_twice_at is not null and ($1::bigint is null or r.voucher_id = $1)
      union all
      select p.voucher_id, p.order_id, 'transactions of the gateway were applied twice'
      from payments p
      where p.transaction_id in (select transaction_id from payments
                                 where transaction_id is not null and ($1::bigint is null or voucher_id = $1)
                                 group by transaction_id having count(*) > 1)
        and ($1::bigint is null or p.voucher_id = $1)
      union all
      select p.voucher_id, p.order_id, 'payments went back, as the gateway says, and are not given back here'
      from payments p
      left join refunds r
        on r.order_id = p.order_id and r.number = p.number and r.voucher_id = p.voucher_id
      where r.status is distinct from refund_done() and ($1::bigint is null or p.voucher_id = $1)
        and p.transaction_id in (select transaction_id from early_returns)
    ) broken
    group by voucher_id, what
    order by voucher_id, what";

column!(Promise: &str);
row! { Broken: voucher_id, promise, what, count, ids }
