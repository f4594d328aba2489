//! The data about a person, for `seckill user`, and how a person is erased.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use sqlx::postgres::PgPool;

use super::columns::row;
use super::statements::{Work, step_in_time};
use super::{DatabaseSession, StoreError, order_steps};
use crate::model::{UserId, VoucherId, normalized_phone};

/// The entries of one person are found among all.
const READ_WITHIN: Duration = Duration::from_secs(60);

/// A phone that was in use before it had one canonical form is found as it is.
const USER: &str = "
    select id, with_text_ids(to_jsonb(u)) from users u
    where phone in ($1, $2) order by phone = $1 desc limit 1";

const ORDERS: &str = "
    select with_text_ids(to_jsonb(o) || jsonb_build_object(
      'status', (array['unpaid', 'paid', 'used', 'cancelled', 'refunding', 'refunded', 'refunding'])[o.status],
      'steps', (select jsonb_agg(x order by x.number) from order_steps x where x.voucher_id = o.voucher_id and x.order_id = o.id),
      'payments', (select jsonb_agg(x order by x.number) from payments x where x.voucher_id = o.voucher_id and x.order_id = o.id),
      'refunds', (select jsonb_agg(x order by x.number) from refunds x where x.voucher_id = o.voucher_id and x.order_id = o.id),
      'messages', (select jsonb_agg(x) from messages x where x.voucher_id = o.voucher_id and x.order_id = o.id),
      'returns', (select jsonb_agg(x order by x.transaction_id, x.number) from returns x where x.voucher_id = o.voucher_id and x.order_id = o.id)))
    from orders o where o.user_id = $1 order by o.id, o.voucher_id";

const ENTRIES: &str = "
    select with_text_ids(to_jsonb(e) || jsonb_build_object(
      'status', (array['waiting', 'offered', 'gone'])[e.status],
      'removed_because', (
        select x.details->>'reason' from voucher_steps x
        where x.voucher_id = e.voucher_id and x.step = 'entry_removed' and x.details->>'entry_id' = e.id::text)))
    from entries e where e.user_id = $1 order by e.entered_at, e.id";

/// The vouchers, of sales that are on, in whose draw or line a user waits.
macro_rules! waits_for {
    () => {
        "select e.voucher_id from entries e join seckill_vouchers s on s.voucher_id = e.voucher_id
         where e.user_id = $1 and e.status = entry_waiting() and s.end_time > sale_time() and s.cancelled_at is null"
    };
}

/// Why a user still needs the phone, each counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhoneNeeds {
    /// Orders to pay.
    pub unpaid: i64,
    /// Refunds that wait for the payment gateway.
    pub refunding: i64,
    /// Places in draws and lines of sales that are on.
    pub waiting: i64,
}

row!(PhoneNeeds: unpaid, refunding, waiting);

const NEEDS: &str = concat!(
    "select count(*) filter (where need = 'unpaid') as unpaid, count(*) filter (where need = 'refunding') as refunding,
            count(*) filter (where need = 'waiting') as waiting
     from (
       select 'unpaid' as need from orders o where o.user_id = $1 and o.status = order_unpaid()
       union all
       select 'refunding' from orders o join refunds r on r.voucher_id = o.voucher_id and r.order_id = o.id
       where o.user_id = $1 and r.status = refund_waiting()
       union all
       select 'waiting' from (",
    waits_for!(),
    ") places) needs"
);

async fn read_needs(session: &mut DatabaseSession, user: UserId) -> sqlx::Result<PhoneNeeds> {
    sqlx::query_as(NEEDS).bind(user.get()).fetch_one(session).await
}

/// Why `user` still needs the phone.
pub async fn needs(pool: &PgPool, user: UserId) -> Result<PhoneNeeds, StoreError> {
    Work::snapshot(READ_WITHIN, pool).run(async |session| read_needs(session, user).await).await
}

/// All that the database has about the person with `phone`, who may have had it before it was written as `canonical`: the user's
/// row, the orders with what belongs to them, and the entries. `None`: nobody has the phone.
pub async fn find(
    pool: &PgPool,
    phone: &str,
    canonical: &str,
) -> Result<Option<(UserId, Value)>, StoreError> {
    let user = sqlx::query_as::<_, (UserId, String)>(USER).bind(phone).bind(canonical);
    let json = |row: &String| -> Value {
        serde_json::from_str(row).unwrap_or_else(|_| unreachable!("PostgreSQL wrote {row}"))
    };
    let read = async |session: &mut DatabaseSession| {
        let Some((id, user)) = user.fetch_optional(&mut *session).await? else { return Ok(None) };
        let orders: Vec<String> =
            sqlx::query_scalar(ORDERS).bind(id.get()).fetch_all(&mut *session).await?;
        let entries: Vec<String> =
            sqlx::query_scalar(ENTRIES).bind(id.get()).fetch_all(session).await?;
        let rows = |rows: &[String]| rows.iter().map(json).collect::<Value>();
        let all =
            json!({ "user": json(&user), "orders": rows(&orders), "entries": rows(&entries) });
        Ok(Some((id, all)))
    };
    Work::snapshot(READ_WITHIN, pool).run(read).await
}

/// The phones of other users that are `canonical`, written another way before a phone had one form.
pub async fn other_spellings(
    pool: &PgPool,
    user: UserId,
    canonical: &str,
) -> Result<Vec<String>, StoreError> {
    let alike =
        "select phone from users where phone like '%' || right($1, 7) and id <> $2 order by phone";
    let query = sqlx::query_scalar(alike).bind(canonical).bind(user.get());
    let read =
        Work::snapshot(READ_WITHIN, pool).run(async |session| query.fetch_all(session).await);
    let mut phones: Vec<String> = read.await?;
    phones.retain(|phone| normalized_phone(phone).as_deref() == Some(canonical));
    Ok(phones)
}

/// Takes `user` out of the draws and lines of all sales that are on. Returns the first voucher that refuses it, and the
/// refusal.
pub async fn leave_lines(
    pool: &PgPool,
    user: UserId,
) -> Result<Option<(VoucherId, String)>, StoreError> {
    let query = sqlx::query_scalar(concat!(waits_for!(), " order by 1")).bind(user.get());
    let read =
        Work::snapshot(READ_WITHIN, pool).run(async |session| query.fetch_all(session).await);
    let vouchers: Vec<VoucherId> = read.await?;
    for voucher in vouchers {
        let leave = "select outcome from enter_line($1, array[$2::bigint], array[null::uuid])";
        let query = sqlx::query_scalar(leave).bind(voucher.get()).bind(user.get());
        let outcome: String =
            step_in_time(pool, async |session| query.fetch_one(session).await).await?;
        if !["left", "not_entered"].contains(&outcome.as_str()) {
            return Ok(Some((voucher, outcome)));
        }
    }
    Ok(None)
}

/// Removes the phone of `user`, ends the sessions, and keeps `by` whom (by default the role of the database). Returns
/// whether it was done: it is not if there is no phone, or while the phone is needed.
pub async fn erase(pool: &PgPool, user: UserId, by: Option<&str>) -> Result<bool, StoreError> {
    let now = order_steps::time(pool).await?;
    // Three statements: in an update of the users Citus takes no look at a distributed table, and beside a column no function that is
    // not the same for ever.
    let erase = async |session: &mut DatabaseSession| {
        let needs = read_needs(session, user).await?;
        let is_needed = needs != PhoneNeeds { unpaid: 0, refunding: 0, waiting: 0 };
        let found = sqlx::query_as::<_, (String, Option<DateTime<Utc>>)>(
            "select coalesce($2, session_user::text), tokens_not_before from users where id = $1",
        );
        let found = found.bind(user.get()).bind(by).fetch_optional(&mut *session).await?;
        let Some((by, ended)) = found.filter(|_| !is_needed) else { return Ok(false) };
        // The nickname has digits of the phone. The end of the sessions is later than each before.
        let query = sqlx::query(
            "update users
             set phone = null, nickname = 'erased', erased_at = $2, erased_by = $3,
                 tokens_not_before = greatest($4, tokens_not_before)
             where id = $1 and phone is not null",
        );
        let end = ended.map_or(now, |ended| now.max(ended + TimeDelta::microseconds(1)));
        let query = query.bind(user.get()).bind(now).bind(by).bind(end);
        Ok(query.execute(session).await?.rows_affected() > 0)
    };
    Work::transaction(READ_WITHIN, pool).run(erase).await
}
