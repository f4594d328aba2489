//! The owner of an order is told of it before any refusal: on every node, after a restart, and also where
//! the first answer was lost.

use std::sync::Arc;

use chrono::TimeDelta;
use faults::Fault;
use futures_util::future::join_all;
use seckill::model::{Clock, Code, Order, Outcome, Refusal, VoucherId};
use seckill::purchase::Purchases;
use seckill::store::FRESH_FOR;
use seckill::store::order_steps::Actor;
use sqlx::Connection;

use crate::orders::races::bought;
use crate::purchase::shops::{LOCKING, change_sale, linked_shop};
use testkit::shop::world::{World, each_of, each_strategy, user};
use testkit::wait::eventually;

/// The stock goes 0, 1, 0 between two looks of the other node, and it is not the same sale. Whoever cancels buys again when the
/// pause is over.
#[tokio::test(flavor = "multi_thread")]
async fn owners_are_loaded_anew_after_stock_came_back() {
    let world = World::new().await;
    world.users(3).await;
    let voucher = world.priced_voucher(1).await.id;
    let (node, other) = (world.shop().await, world.shop().await);
    let orders = world.orders(&node);
    let cancel = async |order: Order| {
        orders.cancel(order.id, Actor::Buyer(order.user_id)).await.unwrap();
    };
    let pass = async |seconds| {
        world.set_time(world.clock.now() + TimeDelta::seconds(seconds)).await;
    };
    let code = async |node: &Arc<Purchases>, number: i64| {
        node.buy(user(number), voucher).await.unwrap().code()
    };
    let first = bought(&node, 1, voucher).await;
    other_knows_the_owners(&other, voucher).await;
    cancel(first).await;
    let second = bought(&node, 2, voucher).await;
    eventually("the other node knows the new owner", async || {
        code(&other, 2).await == "already_bought"
    })
    .await;
    other_knows_the_owners(&other, voucher).await;
    assert_eq!(code(&other, 1).await, "sold_out");
    assert_eq!(code(&other, 2).await, "already_bought");
    cancel(second).await;
    pass(1).await;
    // This node sells at once; the other one within the second for which memory is believed.
    cancel(bought(&node, 2, voucher).await).await;
    pass(2).await;
    eventually("the other node sells again", async || code(&other, 2).await == "ordered").await;
    assert_eq!(code(&node, 3).await, "sold_out");
    assert!(world.audit().await.holds);
}

/// A sale is as large as its stock was, however few of its orders there are.
#[tokio::test(flavor = "multi_thread")]
async fn owners_of_a_large_sale_are_not_loaded_for_a_few_questions() {
    let world = World::new().await;
    world.users(3).await;
    let voucher = world.voucher(100_000).await.id;
    assert_eq!(world.shop().await.buy(user(1), voucher).await.unwrap().code(), "ordered");
    change_sale(&world, voucher, "stock = 0").await;
    let node = world.shop().await;
    for _ in 0..100 {
        assert_eq!(node.buy(user(3), voucher).await.unwrap().code(), "sold_out");
    }
    assert_eq!(node.buy(user(1), voucher).await.unwrap().code(), "already_bought");
    let sale = node.sale(voucher).await.unwrap().unwrap();
    assert!(!node.knows_owners_of(&sale.voucher));
}

/// A stranger asks until so many have asked that the owners are loaded.
async fn other_knows_the_owners(other: &Arc<Purchases>, voucher: VoucherId) {
    eventually("the owners are in memory", async || {
        assert_eq!(other.buy(user(3), voucher).await.unwrap().code(), "sold_out");
        let sale = other.sale(voucher).await.unwrap().unwrap();
        other.knows_owners_of(&sale.voucher)
    })
    .await;
}

/// The database is cut off before the buyer's node is told of the commit, and the last voucher is sold by
/// another node. The buyer, told to ask again, is told of the order.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_is_settled_though_the_voucher_is_sold_out_meanwhile() {
    each_strategy(async |world| {
        world.users(3).await;
        let voucher = world.voucher(2).await.id;
        let linked = linked_shop(&world).await;
        let node = Arc::clone(&linked.shop);
        world.wait_long_for_rows().await;
        let row = world.hold_the_row().await;
        let buyer = Arc::clone(&node);
        let buying = tokio::spawn(async move { buyer.buy(user(1), voucher).await });
        world.until_one_waits().await;
        // The order is in the database's hands, which commits it when the buyer has given up.
        linked.database.break_by(Fault::Deaf);
        assert!(buying.await.unwrap().is_err_and(|error| error.outcome_unknown()));
        row.close().await.unwrap();
        eventually("the order is committed", async || world.audit().await.orders == 1).await;

        let other = world.shop().await;
        assert_eq!(other.buy(user(2), voucher).await.unwrap().code(), "ordered");
        linked.database.break_by(Fault::None);
        for node in [node, other, world.shop().await] {
            eventually("the buyer is told of the order", async || {
                // The node whose database was away finds it again within a second.
                let answer = node.buy(user(1), voucher).await;
                answer.is_ok_and(|outcome| outcome.code() == "already_bought")
            })
            .await;
            assert_eq!(node.buy(user(3), voucher).await.unwrap().code(), "sold_out");
        }
    })
    .await;
}

/// A second click ends before Redis is asked; and whoever has an order is told of it even then.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_user_does_not_reach_redis() {
    each_of(LOCKING, async |world| {
        world.users(2).await;
        let voucher = world.voucher(2).await.id;
        let linked = linked_shop(&world).await;
        world.wait_long_for_rows().await;
        let row = world.hold_the_row().await;
        let node = Arc::clone(&linked.shop);
        let first = tokio::spawn(async move { node.buy(user(1), voucher).await });
        world.until_one_waits().await;
        linked.redis.break_by(Fault::Down);
        // At once: one after the other they may take longer than the first purchase waits for the row.
        for again in join_all((0..100).map(|_| linked.shop.buy(user(1), voucher))).await {
            assert_eq!(again.unwrap(), Outcome::Refused(Code::OrderInProgress.into()));
        }
        assert!(
            linked.shop.buy(user(2), voucher).await.is_err(),
            "Redis is asked for another user"
        );
        linked.redis.break_by(Fault::None);
        row.close().await.unwrap();
        // The row was held for as long as that took: the answer may have come too late.
        let _ = first.await.unwrap();
    })
    .await;
}

/// Whoever has an order may ask again at any time: in a batch of a sale that is on, one such buyer would cost as much as
/// the batch.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_who_asks_again_later_does_not_reach_the_row_of_the_sale() {
    each_strategy(async |world| {
        world.users(1).await;
        let voucher = world.voucher(2).await.id;
        let node = world.shop().await;
        let Outcome::Ordered(order) = node.buy(user(1), voucher).await.unwrap() else {
            panic!("there are two");
        };
        let row = world.hold_the_row().await;
        // What was read a moment ago is not believed any more.
        tokio::time::sleep(FRESH_FOR).await;
        let again = node.buy(user(1), voucher).await.unwrap();
        assert_eq!(again, Outcome::Refused(Refusal::already_bought(order.id)));
        row.close().await.unwrap();
    })
    .await;
}
