//! A line for what comes back, in the rows of `entries`: what r31a and r31b do alike.

use sqlx::PgConnection;

use super::WorkTurn;

/// The user is last in line, or stands there already. False where the user has an order: then nothing is committed.
pub(super) async fn enter(
    connection: &mut PgConnection,
    voucher: i64,
    user: i64,
) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "with entered as (
           insert into entries (voucher_id, id, user_id, entered_at, place)
           select $1, gen_random_uuid(), $2, now(), coalesce(max(place), 0) + 1
           from entries where voucher_id = $1
           on conflict do nothing
         )
         select not exists (select from orders where voucher_id = $1 and user_id = $2
                              and status in (1, 2, 3, 5))",
    )
    .bind(voucher)
    .bind(user)
    .fetch_one(connection)
    .await
}

/// Takes the voucher's row, before any order, as a purchase does: no two wait for each other.
pub(super) async fn lock(connection: &mut PgConnection, voucher: i64) -> sqlx::Result<()> {
    let row = "select from seckill_vouchers where voucher_id = $1 for no key update";
    sqlx::query(row).bind(voucher).execute(connection).await.map(drop)
}

/// Ends an order that was not paid in time, if there is one, and gives its voucher back.
pub(super) async fn give_back(
    connection: &mut PgConnection,
    voucher: i64,
) -> sqlx::Result<WorkTurn> {
    let ended = sqlx::query(
        "with ended as (
           update orders set status = 4, cancelled_at = now(), cancelled_by = 3
           where voucher_id = $1 and id = (
             select id from orders where voucher_id = $1 and status = 1 and pay_by <= now()
             order by pay_by, id limit 1)
           returning voucher_id
         )
         update seckill_vouchers s set stock = stock + 1 from ended
         where s.voucher_id = ended.voucher_id",
    );
    let ended = ended.bind(voucher).execute(connection).await?;
    Ok(if ended.rows_affected() == 0 { WorkTurn::Idle } else { WorkTurn::Cancelled })
}

/// The user who is first in line, and the place, where something is there to offer.
pub(super) async fn first(
    connection: &mut PgConnection,
    voucher: i64,
) -> sqlx::Result<Option<(i64, i64)>> {
    let first = sqlx::query_as(
        "select user_id, place from entries join seckill_vouchers using (voucher_id)
         where voucher_id = $1 and status = 1 and stock > 0
         order by place, entered_at limit 1",
    );
    first.bind(voucher).fetch_optional(connection).await
}
