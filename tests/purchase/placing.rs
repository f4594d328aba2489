//! Orders that are placed by the writer, without a lock and a memory.

use std::sync::Arc;

use chrono::TimeDelta;
use futures_util::future::join_all;
use group_commit::Limits;
use seckill::model::{Code, ManualClock, Member, OrderId, Refusal, VoucherId};
use seckill::store::{Database, DatabaseClock, NewOrder, OrderWriter, Placed, StoreError};
use testkit::shop::world::{World, midnight, user};

/// An order that costs nothing.
pub const ORDERED: Placed = Placed::Ordered(None);

pub const fn refused(code: Code) -> Placed {
    Placed::Refused(Refusal { code, member: None, detail: None })
}

pub const SOLD_OUT: Placed = refused(Code::SoldOut);

pub const fn has(order_id: i64) -> Placed {
    let member = Some(Member::OrderId(OrderId::new(order_id).unwrap()));
    Placed::Refused(Refusal { code: Code::AlreadyBought, member, detail: None })
}

pub type OrderOf = (VoucherId, NewOrder);

/// An order with the id of its buyer.
pub fn order(voucher: VoucherId, buyer: i64) -> OrderOf {
    new_orders(voucher, buyer, &[buyer])[0]
}

/// Orders of these buyers, with ids from `first` on.
pub fn new_orders(voucher: VoucherId, first: i64, buyers: &[i64]) -> Vec<OrderOf> {
    let order = |(id, buyer): (i64, &i64)| NewOrder {
        id: OrderId::new(id).unwrap(),
        user: user(*buyer),
        at: midnight() + TimeDelta::microseconds(id * 1_001),
    };
    (first..).zip(buyers).map(|it| (voucher, order(it))).collect()
}

/// A writer for which it is always midnight.
pub fn writer(database: &Database) -> OrderWriter {
    let clock = Arc::new(DatabaseClock::new(Arc::new(ManualClock::starting_at(midnight()))));
    OrderWriter::new(database.clone(), clock, Limits::batches_of(256), false)
}

/// Places all of `orders` in one batch. All are submitted before the leader, which is a task of its
/// own, gets to run: so the runtime must have one thread.
pub async fn try_place(
    writer: &OrderWriter,
    orders: &[OrderOf],
) -> Vec<Result<Placed, StoreError>> {
    join_all(orders.iter().map(|(voucher, order)| writer.place(*voucher, *order))).await
}

pub async fn place(writer: &OrderWriter, orders: &[OrderOf]) -> Vec<Placed> {
    try_place(writer, orders).await.into_iter().map(Result::unwrap).collect()
}

/// Nothing was done for any of `orders`, and the buyers may ask again.
pub async fn none_is_placed(writer: &OrderWriter, orders: &[OrderOf]) {
    for placed in try_place(writer, orders).await {
        let error = placed.unwrap_err();
        assert!(error.retry_may_help() && !error.outcome_unknown(), "{error:?}");
    }
}

/// By how many transactions the orders were written.
pub async fn transactions(world: &World) -> i64 {
    let count = sqlx::query_scalar("select count(distinct xmin::text) from orders");
    count.fetch_one(world.database.pool()).await.unwrap()
}

/// How many orders there are of all vouchers, whose books hold.
pub async fn orders_in_good_books(world: &World) -> i64 {
    world.audits_hold().await.iter().map(|audit| audit.orders).sum()
}
