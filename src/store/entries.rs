//! Entries: who takes part in a draw, and who stands in line.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::postgres::PgPool;
use uuid::Uuid;

use super::columns::{column, row};
use super::statements::{Work, in_time, step_in_time};
use super::time_limits::GIVES_WAY;
use super::vouchers::{breaks, lock_sale};
use super::{DatabaseClock, DatabaseSession, Service, Stop, StoreError, order_steps};
use crate::model::{
    Clock, Code, Draw, DrawService, EndedEntry, Entry, EntryStatus, HeldFor, Line, OrderId,
    PUBLIC_NUMBER, Refusal, UserId, VoucherId,
};

row! { Entry: id, voucher_id, status, entered_at, place, offered_in_the_last_hour, order_id }

/// How long a draw may take, or the offers of one step. One that took longer would be begun again for ever: a million
/// entries took two minutes on a busy machine.
const SERVED_WITHIN: Duration = Duration::from_secs(600);
/// How long it may take to read what is published of a draw, or to count a line. Readers of other draws, or lines, wait for as
/// long. A million entries took five seconds on a busy machine.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// What a buyer wants: the id of a new entry, or to be taken out.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // the names say it
pub struct Wish {
    pub buyer: UserId,
    pub new_id: Option<Uuid>,
}

/// What became of a [`Wish`]. Only `Entered` and `Left` changed anything.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Granted {
    Entered(InBlock),
    EnteredBefore,
    Left,
    NotEntered,
    Refused(Refusal),
}

/// An entry, and the block of 64 places in which it is. Its place is that within the block, and nobody is counted who was offered
/// an order: [`LineCounts`] has the rest. So no request counts a long line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InBlock {
    /// What its buyer sees, if it is not in line.
    pub entry: Entry,
    block: Option<i64>,
}

row! { InBlock: ..entry, block }

/// How many wait in a line, block by block, and how many were offered an order in the last hour.
#[derive(Debug)]
pub struct LineCounts {
    /// The blocks in which somebody waits.
    blocks: Vec<i64>,
    /// How many wait up to the end of each of them.
    up_to: Vec<i64>,
    offered: i64,
}

row! { LineCounts: blocks, up_to, offered }

impl LineCounts {
    /// The entry with its place in the whole line.
    pub fn complete(&self, InBlock { mut entry, block }: InBlock) -> Entry {
        if let (Some(place), Some(block)) = (&mut entry.place, block) {
            let before = self.blocks.partition_point(|other| *other < block);
            *place += before.checked_sub(1).map_or(0, |last| self.up_to[last]);
        }
        entry.offered_in_the_last_hour = self.offered;
        entry
    }
}

type WishRow =
    (String, Option<Uuid>, Option<OrderId>, Option<DateTime<Utc>>, Option<i64>, Option<i64>);

fn granted(
    voucher_id: VoucherId,
    row: &WishRow,
    clock: &DatabaseClock,
) -> Result<Granted, StoreError> {
    let (word, id, order, until, ahead, block) = row;
    Ok(match (word.as_str(), *id, *until) {
        ("entered", Some(id), Some(entered_at)) => {
            let entry = Entry {
                id,
                voucher_id,
                status: if ahead.is_some() { EntryStatus::InLine } else { EntryStatus::Entered },
                entered_at,
                place: ahead.map(|ahead| ahead + 1),
                offered_in_the_last_hour: 0,
                order_id: None,
            };
            Granted::Entered(InBlock { entry, block: *block })
        }
        ("entered_before", ..) => Granted::EnteredBefore,
        ("left", ..) => Granted::Left,
        ("not_entered", ..) => Granted::NotEntered,
        _ => match Refusal::read(word, *order, *until, || clock.now()) {
            Some(refusal) => Granted::Refused(refusal),
            None => {
                return Err(StoreError::defect(
                    Service::Postgres,
                    format!("enter_line says {row:?}"),
                ));
            }
        },
    })
}

/// Does what `wishes` say, all in one transaction. Returns what became of each, in their order.
pub async fn enter(
    pool: &PgPool,
    clock: &DatabaseClock,
    voucher: VoucherId,
    wishes: &[Wish],
) -> Result<Vec<Granted>, StoreError> {
    let query = sqlx::query_as("select * from enter_line($1, $2, $3)")
        .bind(voucher.get())
        .bind(wishes.iter().map(|wish| wish.buyer.get()).collect::<Vec<_>>())
        .bind(wishes.iter().map(|wish| wish.new_id).collect::<Vec<_>>());
    let rows: Vec<WishRow> =
        step_in_time(pool, async |session| query.fetch_all(session).await).await?;
    assert_eq!(rows.len(), wishes.len(), "enter_line says something of each wish: {rows:?}");
    rows.iter().map(|row| granted(voucher, row, clock)).collect()
}

/// The latest entry of `buyer` for `voucher`.
pub async fn find(
    pool: &PgPool,
    voucher: VoucherId,
    buyer: UserId,
) -> Result<Option<InBlock>, StoreError> {
    let query = sqlx::query_as(
        "select e.id, e.voucher_id, e.entered_at, e.order_id, e.place / 64 as block, 0::bigint as offered_in_the_last_hour,
                case
                  when e.status = 3 then 'left'
                  when e.status = 2 and o.status = 1 then 'offered'
                  when e.status = 2 and o.status in (2, 3, 5) then 'bought'
                  when e.status = 2 then 'missed'
                  when e.place is null then 'entered'
                  else 'in_line'
                end as status,
                case when e.status = 1 and e.place is not null then (
                  select count(*) + 1
                  from (select other.place from entries other
                        where other.voucher_id = $1 and other.status = 1 and other.place > 0
                          and other.place >= e.place / 64 * 64 and other.place < e.place
                        order by other.place limit 64) ahead
                ) end as place
         from entries e
         left join orders o on o.id = e.order_id and o.voucher_id = e.voucher_id
         where e.voucher_id = $1 and e.user_id = $2
         order by e.status = 1 desc, e.entered_at desc, e.place desc nulls last limit 1",
    )
    .bind(voucher.get())
    .bind(buyer.get());
    in_time(pool, async |session| query.fetch_optional(session).await).await
}

/// Counts the line of `voucher`.
pub async fn count_line(
    pool: &PgPool,
    voucher: VoucherId,
    now: DateTime<Utc>,
) -> Result<LineCounts, StoreError> {
    let query = sqlx::query_as(
        "select coalesce(array_agg(block order by block), '{}') as blocks,
                coalesce(array_agg(up_to order by block), '{}') as up_to,
                (select count(*) from entries e
                 where e.voucher_id = $1 and e.status = 2 and e.ended_at > $2) as offered
         from (
           select block, (sum(count(*)) over (order by block))::bigint as up_to
           from (select place / 64 as block from entries where voucher_id = $1 and status = 1 and place > 0) waiting
           group by block
         ) counted",
    )
    .bind(voucher.get())
    .bind(now - TimeDelta::hours(1));
    let work = Work::snapshot(READ_WITHIN, pool);
    work.run(async |session| query.fetch_one(session).await).await
}

/// How far the draw of `voucher` is, as a text: while it is the same, so is what [`draw`] returns. `None`: there is no draw.
pub async fn draw_version(pool: &PgPool, voucher: VoucherId) -> Result<Option<String>, StoreError> {
    let now = order_steps::time(pool).await?;
    let query = sqlx::query_scalar(
        "select row(draw_time <= greatest($2, line_time), draw_beacon_number, drawn_at,
                    case when drawn_at is null then row(cancelled_at, end_time <= greatest($2, line_time)) end)::text
         from vouchers join seckill_vouchers on voucher_id = id where id = $1 and draw_time is not null",
    );
    let query = query.bind(voucher.get()).bind(now);
    let version: Option<String> =
        in_time(pool, async |session| query.fetch_optional(session).await).await?;
    let Some(version) = version else { return Ok(None) };
    Ok(Some(format!("{version} {:?}", previous_draw(pool, voucher, now).await?)))
}

/// The last other draw with the title of `voucher` that was cancelled, or ended without being drawn, before this one was drawn, or
/// over: whoever did not like who won, or would have, could try again, also by draws that were made at once.
async fn previous_draw(
    pool: &PgPool,
    voucher: VoucherId,
    now: DateTime<Utc>,
) -> Result<Option<VoucherId>, StoreError> {
    let query = sqlx::query_scalar(
        "with own as materialized (
           select title as own_title, least(coalesce(drawn_at, cancelled_at, end_time), $2) as until
           from vouchers join seckill_vouchers on voucher_id = id where id = $1
         )
         select id
         from own, (select id, title, case when drawn_at is null then least(cancelled_at, end_time) else cancelled_at end as over_at
                    from vouchers join seckill_vouchers on voucher_id = id where draw_time is not null) other
         where title = own_title and id <> $1 and over_at <= until
         order by over_at desc, id desc limit 1",
    );
    let query = query.bind(voucher.get()).bind(now);
    in_time(pool, async |session| query.fetch_optional(session).await).await
}

/// The same of what [`draw_service`] returns. An offer moves the revision of the sale, also if the clock went back; then several may
/// leave at one instant, the latest, and are counted.
pub async fn service_version(
    pool: &PgPool,
    voucher: VoucherId,
) -> Result<Option<String>, StoreError> {
    let query = sqlx::query_scalar(
        "select row(drawn_at, revision, (
                  select row(ended_at, count(*)) from entries
                  where voucher_id = $1 and status <> 1 and place > 0 and entered_at < draw_time
                  group by ended_at order by ended_at desc limit 1))::text
         from vouchers join seckill_vouchers on voucher_id = id where id = $1 and draw_time is not null",
    );
    let query = query.bind(voucher.get());
    in_time(pool, async |session| query.fetch_optional(session).await).await
}

row! { EndedEntry: entry_id, place, outcome, at }

/// What became of the entries of the draw of `voucher`.
pub async fn draw_service(pool: &PgPool, voucher: VoucherId) -> Result<DrawService, StoreError> {
    let query = sqlx::query_as(
        "select e.id as entry_id, place, case when status = 2 then 'offered' when is_passed then 'passed' else 'left' end as outcome, ended_at as at
         from entries e join vouchers v on v.id = e.voucher_id
         where e.voucher_id = $1 and status <> 1 and place > 0 and entered_at < draw_time order by place",
    );
    let query = query.bind(voucher.get());
    let work = Work::snapshot(READ_WITHIN, pool);
    let ended = work.run(async |session| query.fetch_all(session).await).await?;
    Ok(DrawService { voucher_id: voucher, ended })
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
pub async fn draw(pool: &PgPool, voucher: VoucherId) -> Result<Option<Draw>, StoreError> {
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
         where v.id = $1",
    )
    .bind(voucher.get())
    .bind(now)
    .bind(previous_draw(pool, voucher, now).await?.map(VoucherId::get));
    let work = Work::snapshot(READ_WITHIN, pool);
    work.run(async |session| published.fetch_one(session).await).await.map(Some)
}

row! { Line: entered, in_line, offered, closed, number, drawn_at }

/// How many wait for `voucher`, and how far its draw is; `None`: there is no such voucher.
pub async fn line(pool: &PgPool, voucher: VoucherId) -> Result<Option<Line>, StoreError> {
    let now = order_steps::time(pool).await?;
    let query = sqlx::query_as(
        "select count(e.id) filter (where e.status = 1 and e.place is null) as entered,
                count(e.id) filter (where e.status = 1 and e.place is not null) as in_line,
                count(e.id) filter (where e.status = 2) as offered,
                v.draw_time <= greatest($2, v.line_time) as closed, v.draw_beacon_number as number, v.drawn_at
         from vouchers v left join entries e on e.voucher_id = v.id
         where v.id = $1
         group by v.draw_time, v.line_time, v.draw_beacon_number, v.drawn_at",
    )
    .bind(voucher.get())
    .bind(now);
    let work = Work::snapshot(READ_WITHIN, pool);
    work.run(async |session| query.fetch_optional(session).await).await
}

/// Where the public number of the draw of `voucher` comes from; `None`: it has no draw.
pub async fn beacon(pool: &PgPool, voucher: VoucherId) -> Result<Option<String>, StoreError> {
    let query = sqlx::query_scalar(
        "select draw_beacon from vouchers where id = $1 and draw_time is not null",
    );
    let query = query.bind(voucher.get());
    in_time(pool, async |session| query.fetch_optional(session).await).await
}

/// Keeps the public number that goes into the draw of `voucher`: once, from the moment on at which its source publishes it,
/// while the sale is on. From that moment until the draw [`vouchers::change`](super::vouchers::change) refuses what could change
/// who wins.
///
/// # Errors
/// `not_found`: there is no such draw. `draw_open`: its source publishes the number later. `draw_closed`: it has another number,
/// or takes none. `invalid_request`: it is no number of its source in its one spelling. `sale_paused`: everybody could compute the winners before anybody is drawn. `sale_ended`: nothing is drawn any more.
pub async fn tell_number(pool: &PgPool, voucher: VoucherId, number: &str) -> Result<(), Stop> {
    // The time is read when the sale is locked: a sale that ended meanwhile draws nothing. And a worker looks every second:
    // a number without a draw would let whoever reads the seed choose, by a later end, whether there is one.
    let query = sqlx::query_scalar(
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
         )
         select refusal from judged",
    )
    .bind(voucher.get())
    .bind(number);
    let told: Option<Option<Code>> = Work::step_with(GIVES_WAY, pool)
        .run(async |session| {
            lock_sale(session, voucher).await?;
            match query.fetch_optional(session).await {
                Err(sqlx::Error::Database(error))
                    if breaks(&*error, "draw_number_has_one_spelling") =>
                {
                    Ok(Some(Some(Code::InvalidRequest)))
                }
                told => told,
            }
        })
        .await?;
    match told {
        Some(None) => Ok(()),
        Some(Some(Code::DrawOpen)) => Err(Refusal::from(Code::DrawOpen)
            .detail("its entries are not closed, or its public number is not published yet")
            .into()),
        Some(Some(Code::InvalidRequest)) => {
            Err(Refusal::from(Code::InvalidRequest).detail(PUBLIC_NUMBER).into())
        }
        Some(Some(Code::DrawClosed)) => Err(Refusal::from(Code::DrawClosed)
            .detail("the draw has another number, or takes none")
            .into()),
        Some(Some(code)) => Err(code.into()),
        None => Err(Refusal::from(Code::NotFound).detail("this voucher has no draw").into()),
    }
}

/// A voucher, none of `except`, whose draw is due at `now` or whose line can be offered stock; the people for whom it is held;
/// and how many may be offered at once, at most `limit`.
pub async fn find_due(
    pool: &PgPool,
    now: DateTime<Utc>,
    except: &[VoucherId],
    limit: i64,
) -> Result<Option<(VoucherId, HeldFor, i64)>, StoreError> {
    let query = sqlx::query_as(
        "select s.voucher_id, s.held_for, least(s.stock, $2)::bigint as count
         from seckill_vouchers s join vouchers v on v.id = s.voucher_id
         where s.held_for > 0 and not s.paused and s.cancelled_at is null
           and $3 >= s.begin_time and $3 < s.end_time and s.voucher_id <> all ($1)
           and case s.held_for
                 when 2 then s.stock > 0
                 else greatest($3, v.line_time) >= v.draw_time and (v.draw_beacon = '' or v.draw_beacon_number is not null)
               end
         limit 1",
    )
    .bind(except.iter().map(|voucher| voucher.get()).collect::<Vec<_>>())
    .bind(limit)
    .bind(now);
    in_time(pool, async |session| query.fetch_optional(session).await).await
}

/// What a step did for a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Served {
    /// The entries are drawn.
    Drawn,
    /// Orders were offered.
    Offered,
    /// There was nothing to do.
    Idle,
    /// The sale ended meanwhile.
    SaleEnded,
    /// Another order has one of the ids.
    IdTaken,
    /// One of the first in line cannot have it now.
    Refused,
}

column!(Served: &str);

/// Draws the entries of `voucher`, if it is time.
pub async fn draw_entries(pool: &PgPool, voucher: VoucherId) -> Result<Served, StoreError> {
    let query = sqlx::query_scalar("select draw_entries($1)").bind(voucher.get());
    let draw = async |session: &mut DatabaseSession| query.fetch_one(session).await;
    Work::transaction(SERVED_WITHIN, pool).run(draw).await
}

/// Offers up to so many orders of `voucher` as there are `ids` to those who are first in line. `passes`: those who cannot have one
/// now lose their places, and are returned.
pub async fn offer(
    pool: &PgPool,
    voucher: VoucherId,
    ids: &[OrderId],
    passes: bool,
) -> Result<(Served, Vec<UserId>), StoreError> {
    let query = sqlx::query_as("select * from offer_to_line($1, $2, $3)")
        .bind(voucher.get())
        .bind(ids.iter().map(|id| id.get()).collect::<Vec<_>>())
        .bind(passes);
    let offer = async |session: &mut DatabaseSession| query.fetch_one(session).await;
    Work::transaction(SERVED_WITHIN, pool).run(offer).await
}
