//! The purchase service: what it remembers, how many it serves at once, and what it leaves behind. What every buyer
//! is told is in `cases`.

use std::sync::Arc;

use futures_util::future::join_all;
use seckill::model::{Outcome, Refusal, VoucherId};
use seckill::purchase::sales::Sales;
use seckill::purchase::{PurchaseError, PurchasesOptions};
use seckill::store::DatabaseClock;

use super::shops::{Answer, restock};
use testkit::shop::world::{World, each_strategy, run_sql, user};
use testkit::wait::eventually;

/// Requests that miss together are one query; and what is read is read anew within a second.
#[tokio::test]
async fn sales_are_read_together_and_read_anew() {
    let world = World::new().await;
    let (one, other) = (world.voucher(1).await.id, world.voucher(2).await.id);
    let gone = VoucherId::new(999).unwrap();
    let sales = Sales::new(&world.database, &Arc::new(DatabaseClock::new(world.clock.clone())));
    let ids = [one, other, one, gone, other];
    let found = join_all(ids.iter().map(|id| sales.find(*id))).await;
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    let of = |place: usize| found[place].as_ref().unwrap();
    assert_eq!((of(0).voucher.id, of(1).voucher.stock), (one, 2));
    assert!(Arc::ptr_eq(of(0), of(2)) && Arc::ptr_eq(of(1), of(4)));
    assert!(found[3].is_none());
    restock(&world, one, 5).await;
    eventually("memory has read it anew", async || {
        sales.find(one).await.unwrap().unwrap().voucher.stock == 6
    })
    .await;
}

async fn forget_orders(world: &World) {
    run_sql(&world.database_url, "delete from orders").await;
}

/// From memory: the database has no order any more, and is not asked. Then it is.
#[tokio::test]
async fn a_buyer_is_told_of_the_order_from_memory_and_is_forgotten_within_a_second() {
    each_strategy(async |world| {
        world.users(1).await;
        let voucher = world.voucher(100).await;
        let shop = world.shop().await;
        // A machine that is busy may take longer than the memory lasts: then once more.
        eventually("memory refuses", async || {
            let Outcome::Ordered(order) = shop.buy(user(1), voucher.id).await.unwrap() else {
                return false;
            };
            forget_orders(&world).await;
            let again = Outcome::Refused(Refusal::AlreadyBought { order_id: order.id });
            let refused = shop.buy(user(1), voucher.id).await.unwrap() == again;
            // As at the end of an order's life.
            let end = "delete from orders; update seckill_vouchers set revision = revision + 1";
            run_sql(&world.database_url, end).await;
            refused
        })
        .await;
        eventually("the order is forgotten", async || {
            shop.buy(user(1), voucher.id).await.unwrap().code() == "ordered"
        })
        .await;
    })
    .await;
}

/// The database refuses the second attempt, and memory the third.
#[tokio::test]
async fn a_buyer_whom_the_database_has_refused_is_refused_by_memory() {
    each_strategy(async |world| {
        world.users(1).await;
        let voucher = world.voucher(100).await;
        let shop = world.shop().await;
        eventually("memory refuses", async || {
            let elsewhere = world.shop().await;
            let bought = elsewhere.buy(user(1), voucher.id).await.unwrap();
            let Outcome::Ordered(order) = bought else { panic!("{bought:?}") };
            let again = Outcome::Refused(Refusal::AlreadyBought { order_id: order.id });
            let by_the_database = shop.buy(user(1), voucher.id).await.unwrap();
            forget_orders(&world).await;
            // A machine that is busy may take longer than the memory lasts: then once more.
            let by_memory = shop.buy(user(1), voucher.id).await.unwrap();
            forget_orders(&world).await;
            by_the_database == again && by_memory == again
        })
        .await;
    })
    .await;
}

/// On a runtime of one thread all are asked before any of them gets on.
#[tokio::test]
async fn more_than_may_be_under_way_are_refused_at_once() {
    each_strategy(async |world| {
        world.users(20).await;
        let voucher = world.voucher(20).await;
        let shop = world.purchases(PurchasesOptions { burst: 1, ..world.options() }).await;
        shop.sale(voucher.id).await.unwrap();
        let answers = join_all((1..=20).map(|number| shop.buy(user(number), voucher.id))).await;
        let ordered = answers.iter().filter(|answer| matches!(answer, Ok(Outcome::Ordered(_))));
        assert_eq!(ordered.count(), 1);
        let overloaded = |answer: &&Answer| matches!(answer, Err(PurchaseError::Overloaded));
        assert_eq!(answers.iter().filter(overloaded).count(), 19);
        // The place is free again.
        let Outcome::Ordered(_) = shop.buy(user(20), voucher.id).await.unwrap() else { panic!() };
        assert!(world.audit().await.holds);
    })
    .await;
}
