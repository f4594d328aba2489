//! What is published of draws, and their public numbers.

use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::postgres::PgPool;

use super::columns::row;
use super::entries::READ_WITHIN;
use super::statements::{Work, in_time};
use super::time_limits::GIVES_WAY;
use super::vouchers::{breaks, lock_sale, write_step};
use super::{DatabaseSession, Stop, StoreError, order_steps};
use crate::model::{
    Code, Draw, DrawService, EndedEntry, PUBLIC_NUMBER, Refusal, RemovedEntry, UserId, VoucherId,
};

/// The last other draw with the title of `voucher` that was cancelled, or ended without being drawn, before this one was drawn, or
/// over: whoever did not like who won, or would have, could try again, also by draws that were made at once.
async fn previous_draw(
    pool: &PgPool,
    voucher: VoucherId,
    now: DateTime<Utc>,
) -> Result<Option<VoucherId>, StoreError> {
    let query = sqlx::query_scalar(
        "with own as materialized (
           select lower(btrim(title)) as own_title, least(coalesce(drawn_at, cancelled_at, end_time), $2) as until
           from vouchers join seckill_vouchers on voucher_id = id where id = $1
         )
         select id
         from own, (select id, title, case when drawn_at is null then least(cancelled_at, end_time) else cancelled_at end as over_at
                    from vouchers join seckill_vouchers on voucher_id = id where draw_time is not null) other
         where lower(btrim(title)) = own_title and id <> $1 and over_at <= until
         order by over_at desc, id desc limit 1",
    );
    let query = query.bind(voucher.get()).bind(now);
    in_time(pool, async |session| query.fetch_optional(session).await).await
}

/// How far the draw of `voucher` is, as a text: while it is the same, so is what [`find`] returns, or, `with_service`, what
/// [`service`] does. If the clock went back, several may end at one instant, the latest: they are counted. `None`: there is no draw.
pub async fn version(
    pool: &PgPool,
    voucher: VoucherId,
    with_service: bool,
) -> Result<Option<String>, StoreError> {
    let now = order_steps::time(pool).await?;
    let query = sqlx::query_scalar(
        "select row(draw_time <= greatest($2, line_time), draw_beacon_number, drawn_at,
                    case when drawn_at is null then row(cancelled_at, end_time <= greatest($2, line_time)) end,
                    case when $3 then (
                      select row(ended_at, count(*)) from entries
                      where voucher_id = $1 and status <> 1 and place > 0 and entered_at < draw_time
                      group by ended_at order by ended_at desc limit 1) end,
                    case when $3 then (
                      select count(*) from voucher_steps where voucher_id = $1 and step = 'entry_removed') end)::text
         from vouchers join seckill_vouchers on voucher_id = id where id = $1 and draw_time is not null",
    );
    let query = query.bind(voucher.get()).bind(now).bind(with_service);
    let version: Option<String> =
        in_time(pool, async |session| query.fetch_optional(session).await).await?;
    let Some(version) = version else { return Ok(None) };
    Ok(Some(format!("{version} {:?}", previous_draw(pool, voucher, now).await?)))
}

row! { EndedEntry: entry_id, place, outcome, at }
row! { RemovedEntry: entry_id, reason, at }

/// What became of the entries of the draw of `voucher`.
pub async fn service(pool: &PgPool, voucher: VoucherId) -> Result<DrawService, StoreError> {
    let query = sqlx::query_as(
        "select e.id as entry_id, place,
                case when status = 2 then 'offered' when is_passed then 'passed' when is_removed then 'removed' else 'left' end as outcome,
                ended_at as at
         from entries e join vouchers v on v.id = e.voucher_id
         where e.voucher_id = $1 and status <> 1 and place > 0 and entered_at < draw_time order by place",
    );
    let ended = query.bind(voucher.get());
    let removed = sqlx::query_as(
        "select (details->>'entry_id')::uuid as entry_id, details->>'reason' as reason, at
         from voucher_steps where voucher_id = $1 and step = 'entry_removed' order by number",
    );
    let removed = removed.bind(voucher.get());
    let read = async |session: &mut DatabaseSession| {
        let ended = ended.fetch_all(&mut *session).await?;
        Ok(DrawService { voucher_id: voucher, ended, removed: removed.fetch_all(session).await? })
    };
    Work::snapshot(READ_WITHIN, pool).run(read).await
}

row! {
    Draw: voucher_id, draw_time, seed_hash, beacon, number, entries, entries_hash, seed, places, drawn_at, cancelled_at,
    ended_at, previous_draw
}

/// What is published of the draw of `voucher` now; `None`: it has none.
///
/// An entry from before the close may not be committed yet, and what is published must not change, also if the clock goes back.
/// So between the close and the draw it is read after the sale's lock was had, and under the lock it is written that the close was,
/// and the end, if the sale ended undrawn: the seed is out then.
pub async fn find(pool: &PgPool, voucher: VoucherId) -> Result<Option<Draw>, StoreError> {
    let now = order_steps::time(pool).await?;
    let state = sqlx::query_as(
        "select greatest($2, line_time), draw_time <= greatest($2, line_time) and drawn_at is null
         from vouchers where id = $1 and draw_time is not null",
    )
    .bind(voucher.get())
    .bind(now);
    let state: Option<(DateTime<Utc>, bool)> =
        in_time(pool, async |session| state.fetch_optional(session).await).await?;
    let Some((now, is_drawn_next)) = state else { return Ok(None) };
    if is_drawn_next {
        let closed = sqlx::query(
            "update vouchers set line_time = greatest(line_time, draw_time, case when end_time <= $2 then end_time end)
             from seckill_vouchers where id = $1 and voucher_id = $1
               and (line_time >= greatest(draw_time, case when end_time <= $2 then end_time end)) is not true",
        )
        .bind(voucher.get())
        .bind(now);
        let close = async |session: &mut DatabaseSession| {
            lock_sale(session, voucher).await?;
            closed.execute(session).await.map(drop)
        };
        Work::step_with(GIVES_WAY, pool).run(close).await?;
    }
    let published = sqlx::query_as(
        "select v.id as voucher_id, draw_time, encode(sha256(convert_to(draw_seed, 'UTF8')), 'hex') as seed_hash,
                draw_beacon as beacon, draw_beacon_number as number, drawn_at, $3::bigint as previous_draw,
                case when drawn_at is null then cancelled_at end as cancelled_at,
                case when drawn_at is null and cancelled_at is null and end_time <= line_time then end_time end as ended_at,
                case when drawn_at is not null or cancelled_at is not null or end_time <= line_time then draw_seed end as seed,
                case when drawn_at is not null then coalesce(places, '{}') end as places,
                case when $2 >= draw_time then coalesce(ids, '{}') end as entries,
                case when $2 >= draw_time then encode(sha256(convert_to(coalesce(lines, ''), 'UTF8')), 'hex')
                end as entries_hash
         from vouchers v join seckill_vouchers s on s.voucher_id = v.id left join lateral (
           select array_agg(e.id order by e.id) as ids, array_agg(e.place order by e.id) as places,
                  string_agg(e.id || E'\\n', '' order by e.id) as lines
           from entries e where e.voucher_id = $1 and $2 >= v.draw_time and e.entered_at < v.draw_time
             and not (e.status = 3 and e.ended_at < v.draw_time)
         ) entered on true
         where v.id = $1 and draw_time is not null",
    )
    .bind(voucher.get())
    .bind(now)
    .bind(previous_draw(pool, voucher, now).await?.map(VoucherId::get));
    let work = Work::snapshot(READ_WITHIN, pool);
    work.run(async |session| published.fetch_optional(session).await).await
}

/// Where the public number of the draw of `voucher` comes from; `None`: it has no draw.
pub async fn beacon(pool: &PgPool, voucher: VoucherId) -> Result<Option<String>, StoreError> {
    let beacon = "select draw_beacon from vouchers where id = $1 and draw_time is not null";
    let query = sqlx::query_scalar(beacon).bind(voucher.get());
    in_time(pool, async |session| query.fetch_optional(session).await).await
}

/// Keeps the public number that goes into the draw of `voucher`: once, from the moment on at which its source publishes it,
/// while the sale is on. `administrator` is `None` at the shell. From that moment until the draw [`vouchers::change`](super::vouchers::change) refuses what could change
/// who wins.
///
/// # Errors
/// `not_found`: there is no such draw. `draw_open`: its source publishes the number later. `draw_closed`: it has another number,
/// or takes none. `invalid_request`: it is no number of its source in its one spelling. `sale_paused`: everybody could compute the
/// winners before anybody is drawn. `sale_ended`: nothing is drawn any more.
pub async fn tell_number(
    pool: &PgPool,
    voucher: VoucherId,
    number: &str,
    administrator: Option<UserId>,
) -> Result<(), Stop> {
    // The time is read when the sale is locked: a sale that ended meanwhile draws nothing. And a worker looks every second:
    // a number without a draw would let whoever reads the seed choose, by a later end, whether there is one.
    let query = sqlx::query_as(
        "with now as materialized (select sale_time() as now),
         judged as (
           select case
                    when draw_beacon_number = $2 then null
                    when greatest(draw_time, draw_beacon_at) > now then 'draw_open'
                    when draw_beacon = '' or draw_beacon_number is not null then 'draw_closed'
                    when cancelled_at is not null or end_time <= greatest(now, line_time) + interval '5 seconds' then 'sale_ended'
                    when paused then 'sale_paused'
                  end as refusal
           from now, vouchers join seckill_vouchers on voucher_id = id
           where id = $1 and draw_time is not null
         ), kept as (
           update vouchers set draw_beacon_number = $2, changed_at = now from judged, now
           where id = $1 and refusal is null and draw_beacon_number is null
           returning id
         )
         select refusal, exists (select from kept) from judged",
    )
    .bind(voucher.get())
    .bind(number);
    let told: Option<Code> = Work::step_with(GIVES_WAY, pool)
        .run(async |session| {
            lock_sale(session, voucher).await?;
            let told: Option<(Option<Code>, bool)> = match query.fetch_optional(&mut *session).await
            {
                Err(sqlx::Error::Database(error))
                    if breaks(&*error, "draw_number_has_one_spelling") =>
                {
                    return Ok(Some(Code::InvalidRequest));
                }
                told => told?,
            };
            let Some((refusal, is_new)) = told else { return Ok(Some(Code::NotFound)) };
            if is_new {
                let step = ("draw_number_set", &json!({ "number": [null, number] }));
                write_step(session, voucher, step, administrator).await?;
            }
            Ok(refusal)
        })
        .await?;
    let Some(code) = told else { return Ok(()) };
    let detail = match code {
        Code::NotFound => "this voucher has no draw",
        Code::DrawOpen => "its entries are not closed, or its public number is not published yet",
        Code::DrawClosed => "the draw has another number, or takes none",
        Code::InvalidRequest => PUBLIC_NUMBER,
        code => return Err(code.into()),
    };
    Err(Refusal::from(code).detail(detail).into())
}
