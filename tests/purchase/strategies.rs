//! The purchase service: what it remembers, how many it serves at once, and what it leaves behind. What every buyer
//! is told is in `cases`.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use seckill::model::{Outcome, Refusal, VoucherId};
use seckill::purchase::sales::Sales;
use seckill::purchase::{PurchaseError, PurchasesOptions};
use seckill::store::DatabaseClock;

use super::shops::{Answer, restock, rush};
use testkit::shop::world::{World, each_strategy, run_sql, user};
use testkit::wait::eventually;

/// A process that has just started knows no voucher, and its whole crowd waits for one read.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_at_a_process_that_has_just_started_is_sold_to() {
    let world = World::new().await;
    world.users(1_000).await;
    let voucher = world.voucher(1).await.id;
    let (codes, sold) = rush(&[world.shop().await], voucher, 1_000, 1).await;
    assert_eq!(sold.len(), 1);
    assert_eq!(codes, BTreeMap::from([("ordered", 1), ("sold_out", 999)]));
}

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

/// From memory, whether this process sold it or asked the database in vain: the database has no order any more, and is not
/// asked. Then it is.
#[tokio::test]
async fn a_buyer_is_told_of_the_order_from_memory_and_is_forgotten_within_a_second() {
    each_strategy(async |world| {
        world.users(2).await;
        let voucher = world.voucher(100).await.id;
        let shop = world.shop().await;
        for (buyer, is_sold_elsewhere) in [(user(1), false), (user(2), true)] {
            // A machine that is busy may take longer than the memory lasts: then once more.
            eventually("memory refuses", async || {
                let elsewhere = world.shop().await;
                let seller = if is_sold_elsewhere { &elsewhere } else { &shop };
                let Outcome::Ordered(order) = seller.buy(buyer, voucher).await.unwrap() else {
                    return false;
                };
                let refused = Outcome::Refused(Refusal::already_bought(order.id));
                let again = async || shop.buy(buyer, voucher).await.unwrap() == refused;
                let by_the_database = !is_sold_elsewhere || again().await;
                run_sql(&world.database_url, "delete from orders").await;
                let by_memory = again().await;
                // As at the end of an order's life.
                let end = "delete from orders; update seckill_vouchers set revision = revision + 1";
                run_sql(&world.database_url, end).await;
                by_the_database && by_memory
            })
            .await;
            eventually("the order is forgotten", async || {
                shop.buy(buyer, voucher).await.unwrap().code() == "ordered"
            })
            .await;
        }
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
