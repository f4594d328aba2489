//! What there is about a person, for `seckill user`; and that a person is erased.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::postgres::PgPool;

use super::statements::{Work, in_time};
use super::{DatabaseSession, StoreError, order_steps};
use crate::model::UserId;

/// The entries of one person are found among all.
const READ_WITHIN: Duration = Duration::from_secs(60);

/// A phone that was in use before it had one canonical form is found as it is.
const USER: &str = "
    select id, with_text_ids(to_jsonb(u)) from users u
    where phone in ($1, $2) order by phone = $1 desc limit 1";

const ORDERS: &str = "
    select with_text_ids(to_jsonb(o) || jsonb_build_object(
      'status', (array['unpaid', 'paid', 'used', 'cancelled', 'refunding', 'refunded'])[o.status],
      'steps', (select jsonb_agg(x order by x.number) from order_steps x where x.voucher_id = o.voucher_id and x.order_id = o.id),
      'payments', (select jsonb_agg(x order by x.number) from payments x where x.voucher_id = o.voucher_id and x.order_id = o.id),
      'refunds', (select jsonb_agg(x order by x.number) from refunds x where x.voucher_id = o.voucher_id and x.order_id = o.id),
      'payment_cancellations', (
        select jsonb_agg(x) from payment_cancellations x where x.voucher_id = o.voucher_id and x.order_id = o.id),
      'early_returns', (select jsonb_agg(x) from early_returns x where x.voucher_id = o.voucher_id and x.order_id = o.id)))
    from orders o where o.user_id = $1 order by o.id, o.voucher_id";

const ENTRIES: &str = "
    select with_text_ids(to_jsonb(e) || jsonb_build_object(
      'status', (array['waiting', 'offered', 'gone'])[e.status],
      'sale_is_over', coalesce(s.end_time <= sale_time() or s.cancelled_at is not null, true)))
    from entries e left join seckill_vouchers s on s.voucher_id = e.voucher_id
    where e.user_id = $1 order by e.entered_at, e.id";

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

/// The phone of `user` goes, the sessions end, and `by` whom is kept; without that the role of the database is. Returns
/// whether there was a phone.
pub async fn erase(pool: &PgPool, user: UserId, by: Option<&str>) -> Result<bool, StoreError> {
    let now = order_steps::time(pool).await?;
    // The nickname has digits of the phone. The end of the sessions is later than each before.
    let query = sqlx::query(
        "update users
         set phone = null, nickname = 'erased', erased_at = $2, erased_by = coalesce($3, session_user),
             tokens_not_before = greatest($2, tokens_not_before + interval '1 microsecond')
         where id = $1 and phone is not null",
    )
    .bind(user.get())
    .bind(now)
    .bind(by);
    let erased = in_time(pool, async |session| query.execute(session).await).await?;
    Ok(erased.rows_affected() > 0)
}
