//! Orders, read. [`order_writer`](super::order_writer) writes them.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::postgres::PgPool;

use super::columns::row;
use super::statements::{Work, in_time};
use super::{Database, DatabaseSession, Stop, StoreError};
use crate::model::order::REFUNDING_AGAIN;
use crate::model::{
    Code, Member, Order, OrderId, OrderOfBuyer, OrderStatus, Refusal, UserId, VoucherId,
};

row! {
    Order: id, user_id, voucher_id, status, amount, created_at, pay_by, paid_at, used_at, cancelled_at,
    refunded_at, charged_back_at, returned_amount
}

row! { OrderOfBuyer: ..order, phone }

/// Which order is meant: the voucher is needed only where orders of two vouchers have the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderKey {
    /// The order.
    pub id: OrderId,
    /// Its voucher.
    pub voucher: Option<VoucherId>,
}

impl From<OrderId> for OrderKey {
    fn from(id: OrderId) -> Self {
        Self { id, voucher: None }
    }
}

/// More orders than this with one id are not told apart.
const MAX_OF_ONE_ID: i64 = 10;

/// The order that `key` names; of `buyer`, or of anybody.
///
/// # Errors
/// `order_not_found`. `order_ambiguous`: orders of several vouchers have the id, because Redis had lost its counter.
pub async fn find(pool: &PgPool, key: OrderKey, buyer: Option<UserId>) -> Result<Order, Stop> {
    let query = sqlx::query_as(
        "select * from orders where id = $1 and ($2::bigint is null or voucher_id = $2)
           and ($3::bigint is null or user_id = $3)
         order by voucher_id limit $4",
    )
    .bind(key.id.get())
    .bind(key.voucher.map(VoucherId::get))
    .bind(buyer.map(UserId::get))
    .bind(MAX_OF_ONE_ID);
    let found = in_time(pool, async |connection| query.fetch_all(connection).await).await;
    let mut found: Vec<Order> = found.map_err(StoreError::into_read_error)?;
    if found.len() > 1 {
        let vouchers = found.iter().map(|order| order.voucher_id).collect();
        let ambiguous = Refusal::from(Code::OrderAmbiguous);
        return Err(ambiguous.with(Member::VoucherIds(vouchers)).into());
    }
    found.pop().ok_or_else(|| Code::OrderNotFound.into())
}

/// The order with this id of `voucher`.
pub async fn find_of_voucher(
    pool: &PgPool,
    voucher: VoucherId,
    id: OrderId,
) -> Result<Option<Order>, StoreError> {
    let query = sqlx::query_as("select * from orders where id = $1 and voucher_id = $2")
        .bind(id.get())
        .bind(voucher.get());
    in_time(pool, async |connection| query.fetch_optional(connection).await).await
}

/// Which of the live orders of `voucher`, by their numbers, the one of `user` is, from 1; 0: there is none.
pub async fn place_of(pool: &PgPool, voucher: VoucherId, user: UserId) -> Result<i64, StoreError> {
    let query = sqlx::query_scalar(
        "select count(*) from orders
         where voucher_id = $1 and id > 0 and is_live(status) and id <= (
           select max(id) from orders
           where voucher_id = $1 and user_id = $2 and id > 0 and is_live(status))",
    )
    .bind(voucher.get())
    .bind(user.get());
    in_time(pool, async |connection| query.fetch_one(connection).await).await
}

/// The live orders of `voucher` whose buyers are none of these users, from the first to the last.
pub async fn count_beside(
    pool: &PgPool,
    voucher: VoucherId,
    (first, last): (UserId, UserId),
) -> Result<i64, StoreError> {
    let query = sqlx::query_scalar(
        "select count(*) from orders
         where voucher_id = $1 and id > 0 and is_live(status)
           and user_id not between $2 and $3",
    )
    .bind(voucher.get())
    .bind(first.get())
    .bind(last.get());
    in_time(pool, async |connection| query.fetch_one(connection).await).await
}

/// The end of a page of `limit` rows. By an id alone the next page begins: those that have the id of the last row are on
/// this page, too.
fn end_page<T>(rows: &mut Vec<T>, limit: i64, id: impl Fn(&T) -> OrderId) {
    let limit = usize::try_from(limit).unwrap_or_default();
    let Some(last) = limit.checked_sub(1).and_then(|last| rows.get(last)).map(&id) else { return };
    let more = rows[limit..].iter().take_while(|row| id(row) == last).count();
    rows.truncate(limit + more);
}

/// Orders of `user` with ids below `before`, newest first: `limit`, and those of other vouchers that have the last id.
pub async fn list_of_user(
    pool: &PgPool,
    user: UserId,
    before: Option<OrderId>,
    limit: i64,
) -> Result<Vec<Order>, StoreError> {
    let query = sqlx::query_as(
        "select * from orders where user_id = $1 and id < $2
         order by id desc
         limit $3",
    )
    .bind(user.get())
    .bind(before.map_or(i64::MAX, OrderId::get))
    .bind(limit + MAX_OF_ONE_ID);
    let mut orders: Vec<Order> =
        in_time(pool, async |connection| query.fetch_all(connection).await).await?;
    end_page(&mut orders, limit, |order| order.id);
    Ok(orders)
}

/// The numbers of all states.
const ANY_STATE: [i16; 7] = [1, 2, 3, 4, 5, 6, REFUNDING_AGAIN];

/// Lists orders of one voucher: of each state so many as are wanted, by the index orders_of_voucher (hence `id > 0`).
const LIST_OF_VOUCHER: &str = "select o.*, u.phone
    from unnest($3::smallint[]) state
    cross join lateral (
        select * from orders
        where voucher_id = $1 and status = state and id > 0 and id < $2
        order by id desc limit $4
    ) o
    left join users u on u.id = o.user_id
    order by o.id desc limit $4";

/// Lists orders of all vouchers which fulfil a condition.
macro_rules! list_where {
    ($condition:literal) => {
        concat!(
            "select o.*, u.phone from orders o left join users u on u.id = o.user_id
             where $1::bigint is null and o.id < $2 and o.status = any ($3)",
            $condition,
            " order by o.id desc limit $4"
        )
    };
}

/// Orders with ids below `before`, newest first: of `voucher`, or of all; in `status`, or in any. There are `limit`, and
/// of all vouchers also those that have the last id.
pub async fn list(
    pool: &PgPool,
    voucher: Option<VoucherId>,
    status: Option<OrderStatus>,
    before: Option<OrderId>,
    limit: i64,
) -> Result<Vec<OrderOfBuyer>, StoreError> {
    let states = status.map_or_else(|| ANY_STATE.to_vec(), OrderStatus::numbers);
    let query = sqlx::query_as(match (voucher, status) {
        (Some(_), _) => LIST_OF_VOUCHER,
        (None, None | Some(OrderStatus::Paid)) => list_where!(""),
        // It stands for the index orders_of_rare_status.
        (None, Some(_)) => list_where!(" and o.status <> order_paid()"),
    });
    // Of one voucher each order has an id of its own.
    let of_one_id = if voucher.is_none() { MAX_OF_ONE_ID } else { 0 };
    let query = query
        .bind(voucher.map(VoucherId::get))
        .bind(before.map_or(i64::MAX, OrderId::get))
        .bind(states)
        .bind(limit + of_one_id);
    let mut orders: Vec<OrderOfBuyer> =
        in_time(pool, async |connection| query.fetch_all(connection).await).await?;
    end_page(&mut orders, limit, |of_buyer| of_buyer.order.id);
    Ok(orders)
}

/// Orders read at a time for an export.
const EXPORTED_AT_ONCE: i64 = 1_000;

/// The next orders of an export, as [`list`] has them, and where the one after these begins if there may be more.
pub async fn export(
    pool: &PgPool,
    voucher: Option<VoucherId>,
    status: Option<OrderStatus>,
    before: Option<OrderId>,
) -> Result<(Vec<OrderOfBuyer>, Option<OrderId>), StoreError> {
    let found = list(pool, voucher, status, before, EXPORTED_AT_ONCE).await?;
    let is_full = found.len() >= EXPORTED_AT_ONCE as usize;
    let last = found.last().filter(|_| is_full).map(|last| last.order.id);
    Ok((found, last))
}

/// Nobody buys yet, and distributed orders may lie on many servers.
const LAST_ID_WITHIN: Duration = Duration::from_secs(5);

/// The greatest order id there is: where the order-id worker continues.
pub async fn last_id(pool: &PgPool) -> Result<Option<OrderId>, StoreError> {
    let last = sqlx::query_scalar("select max(id) from orders");
    Work::snapshot(LAST_ID_WITHIN, pool).run(async |session| last.fetch_one(session).await).await
}

/// The live orders that `buyers` have of `voucher`, by buyer. One call, so that one server of a distributed
/// database has it all.
pub async fn find_owned(
    pool: &PgPool,
    voucher: VoucherId,
    buyers: &[UserId],
) -> Result<HashMap<UserId, OrderId>, StoreError> {
    let query = sqlx::query_as("select * from orders_of_buyers($1, $2)")
        .bind(voucher.get())
        .bind(buyers.iter().map(|user| user.get()).collect::<Vec<_>>());
    let owned: Vec<(UserId, OrderId)> =
        in_time(pool, async |connection| query.fetch_all(connection).await).await?;
    Ok(owned.into_iter().collect())
}

/// The owners of a voucher of which nothing is sold now.
#[derive(Debug)]
pub struct FinishedSale {
    /// The revision of the voucher.
    pub revision: i64,
    /// All owners of live orders, in any order, and their orders.
    pub owners: Vec<(UserId, OrderId)>,
}

/// The owners of live orders of `voucher`, each of two reads in at most `limit`; `None` where more may come:
/// it is neither sold out nor paused nor held for a draw or a line nor past the end of its sale, or another session
/// holds its row.
pub async fn owners_of_finished(
    database: &Database,
    voucher: VoucherId,
    limit: Duration,
) -> Result<Option<FinishedSale>, StoreError> {
    // With the row locked nobody is between the check of the window and the commit. From here on no order
    // comes in this revision: nobody has to wait while the owners are read, in a transaction of their own.
    let revision = sqlx::query_scalar(
        "select revision from seckill_vouchers
         where voucher_id = $1 and (stock = 0 or paused or held_for > 0 or sale_time() >= end_time)
         for share skip locked",
    )
    .bind(voucher.get());
    let pool = database.pool();
    let lock = async |session: &mut DatabaseSession| revision.fetch_optional(session).await;
    let revision: Option<i64> =
        Work::transaction(limit, pool).run(lock).await.map_err(StoreError::into_read_error)?;
    let Some(revision) = revision else { return Ok(None) };
    // One row of two arrays: a quarter of a million rows cost the driver many times the processor's time.
    let owners = sqlx::query_as(
        "select coalesce(array_agg(user_id), '{}'), coalesce(array_agg(id), '{}')
         from orders where voucher_id = $1 and is_live(status)",
    )
    .bind(voucher.get());
    let read = async |session: &mut DatabaseSession| owners.fetch_one(session).await;
    let owners: (Vec<UserId>, Vec<OrderId>) = Work::snapshot(limit, pool).run(read).await?;
    Ok(Some(FinishedSale { revision, owners: owners.0.into_iter().zip(owners.1).collect() }))
}
