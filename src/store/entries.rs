//! Entries: who takes part in a draw, and who stands in line.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::postgres::PgPool;
use uuid::Uuid;

use super::columns::{column, row};
use super::statements::{Work, in_time, step_in_time};
use super::{DatabaseClock, DatabaseSession, Service, Stop, StoreError, order_steps};
use crate::model::{
    Clock, Code, Entry, EntryStatus, HeldFor, Line, OrderId, Refusal, UserId, VoucherId,
};

row! { Entry: id, voucher_id, status, entered_at, place, offered_in_the_last_hour, order_id }

/// How long the offers of one step may take, and a draw, without its entries: if the connection is lost meanwhile, the line waits for
/// so long.
const SERVED_WITHIN: Duration = Duration::from_secs(5);
/// How much longer a draw may take for each entry. One that took longer would be begun again for ever: a million entries took two
/// minutes on a busy machine.
const DRAWN_WITHIN_EACH: Duration = Duration::from_micros(600);
/// How long it may take to read what is published of a draw, or to count a line. Readers of other draws, or lines, wait for as
/// long. A million entries took five seconds on a busy machine.
pub(super) const READ_WITHIN: Duration = Duration::from_secs(30);

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

/// An entry, and the block of 64 places in which it is. Its place is that within the block, and the offers of the last hour are
/// not counted: [`LineCounts`] has both. So no request counts a long line.
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
        _ => {
            let refusal = Refusal::read(word, *order, *until, || clock.now());
            let defect =
                || StoreError::defect(Service::Postgres, format!("enter_line says {row:?}"));
            Granted::Refused(refusal.ok_or_else(defect)?)
        }
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

/// Takes an entry out of the draw or the line of `voucher`, and publishes why.
///
/// # Errors
/// `voucher_not_found`. `entry_not_found`: it does not wait. `already_bought`: it was offered the order. `draw_closed`: the
/// entries are closed, and the draw is to come.
pub async fn remove(
    pool: &PgPool,
    voucher: VoucherId,
    entry: Uuid,
    reason: &str,
    administrator: UserId,
) -> Result<(), Stop> {
    let query = sqlx::query_as("select * from remove_entry($1, $2, $3, $4)")
        .bind(voucher.get())
        .bind(entry)
        .bind(reason)
        .bind(administrator.get());
    match step_in_time(pool, async |session| query.fetch_one(session).await).await? {
        (None, _) => Ok(()),
        (Some(Code::AlreadyBought), Some(order)) => Err(Refusal::already_bought(order).into()),
        (Some(code), _) => Err(code.into()),
    }
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
                  when e.status = 3 and e.is_removed then 'removed'
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

/// A voucher, none of `except`, whose draw is due at `now` or whose line can be offered stock; the people for whom it is held;
/// and how many may be offered at once, at most `limit`; of a draw, how many entries there are at most.
pub async fn find_due(
    pool: &PgPool,
    now: DateTime<Utc>,
    except: &[VoucherId],
    limit: i64,
) -> Result<Option<(VoucherId, HeldFor, i64)>, StoreError> {
    let query = sqlx::query_as(
        "select s.voucher_id, s.held_for, case s.held_for when 2 then least(s.stock, $2) else s.entered end as count
         from seckill_vouchers s join vouchers v on v.id = s.voucher_id
         where s.held_for > 0 and not s.paused and s.cancelled_at is null
           and $3 >= s.begin_time and $3 < s.end_time and s.voucher_id <> all ($1)
           and case s.held_for
                 when 2 then s.stock > 0 and is_offer_time(v.offer_between, $3)
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

/// Draws the entries of `voucher`, at most so many, if it is time.
pub async fn draw_entries(
    pool: &PgPool,
    voucher: VoucherId,
    at_most: i64,
) -> Result<Served, StoreError> {
    let limit =
        SERVED_WITHIN + DRAWN_WITHIN_EACH.saturating_mul(at_most.try_into().unwrap_or(u32::MAX));
    let query = sqlx::query_scalar("select draw_entries($1)").bind(voucher.get());
    let draw = async |session: &mut DatabaseSession| query.fetch_one(session).await;
    Work::transaction(limit, pool).run(draw).await
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
