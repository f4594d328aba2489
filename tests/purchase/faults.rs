//! The purchase service when buyers leave, ids are taken, and Redis or the database misbehave.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use futures_util::poll;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use seckill::model::{Clock, ManualClock, OrderId, Outcome, VoucherId};
use seckill::purchase::{PurchaseError, Strategy};
use seckill::store::orders;
use sqlx::Connection;
use tokio::task::{JoinSet, yield_now};

use crate::purchase::placing::orders_in_good_books;
use crate::purchase::shops::{no_lock, restock, rush};
use testkit::flood::flood;
use testkit::shop::world::{World, each_strategy, midnight, run_sql, user};
use testkit::wait::{eventually, must};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn buyers_who_leave_at_any_moment_leave_an_order_whole_or_none() {
    each_strategy(async |world| {
        let seed: u64 = rand::random();
        println!("seed {seed}");
        world.users(200).await;
        let voucher = world.voucher(60).await;
        let shop = world.shop().await;
        let mut tasks = JoinSet::new();
        for number in 1..=200 {
            let shop = Arc::clone(&shop);
            let mut random = StdRng::seed_from_u64(seed.wrapping_add(number));
            tasks.spawn(async move {
                for _ in 0..3 {
                    let mut attempt = Box::pin(shop.buy(user(number.cast_signed()), voucher.id));
                    for _ in 0..random.random_range(0..8) {
                        if poll!(&mut attempt).is_ready() {
                            return;
                        }
                        yield_now().await;
                    }
                }
            });
        }
        tasks.join_all().await;
        eventually("every lock is free", async || no_lock(&world, 200).await).await;
        shop.shutdown().await;
        let audit = world.audit().await;
        assert!(audit.holds, "{audit:?}");
        // What was begun was ended: the same again changes nothing.
        assert_eq!(world.audit().await, audit);
        assert!(no_lock(&world, 200).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_shutdown_waits_for_what_was_begun_also_where_the_buyer_has_left() {
    each_strategy(async |world| {
        // Where each order is a transaction, an order is refused whose turn does not come within a second.
        let half = if world.settings.strategy == Strategy::Locked { 3 } else { 50 };
        let all = 2 * half;
        world.users(100).await;
        let voucher = world.voucher(100).await.id;
        let shop = world.shop().await;
        shop.sale(voucher).await.unwrap();
        world.wait_long_for_rows().await;
        let row = world.hold_the_row().await;
        let each = (1..=half).map(async |number| shop.buy(user(number), voucher).await);
        let mut buying = pin!(join_all(each));
        // Each is under way now, in a task of its own.
        assert!(poll!(&mut buying).is_pending());
        for number in half + 1..=all {
            assert!(poll!(Box::pin(shop.buy(user(number), voucher))).is_pending());
        }
        world.until_one_waits().await;
        let shutdown = async {
            must("the shutdown ends", shop.shutdown()).await;
            orders_in_good_books(&world).await
        };
        let free = async { row.close().await.unwrap() };
        let (told, orders, ()) = tokio::join!(buying, shutdown, free);
        assert!(told.iter().all(|answer| matches!(answer, Ok(Outcome::Ordered(_)))), "{told:?}");
        assert_eq!(orders, all);
        assert!(no_lock(&world, 100).await);
    })
    .await;
}

/// Writes orders of `voucher`, of users 11 and up, with the `count` numbers that come next. Returns the last of them.
async fn take_ids(world: &World, voucher: VoucherId, count: i64) -> OrderId {
    let second = midnight().timestamp() - OrderId::EPOCH_SECONDS;
    let ids = (1..=count).map(|sequence| OrderId::from_parts(second, sequence).unwrap());
    let ids: Vec<i64> = ids.map(OrderId::get).collect();
    let take = format!(
        "insert into orders (id, user_id, voucher_id)
         select id, 10 + number, {voucher} from unnest(array{ids:?}) with ordinality it (id, number);
         update seckill_vouchers set stock = stock - {count}"
    );
    run_sql(&world.database_url, &take).await;
    OrderId::from_parts(second, count).unwrap()
}

#[tokio::test]
async fn an_order_id_that_is_taken_is_replaced_and_too_many_are_an_error_that_costs_nothing() {
    for (taken, is_replaced) in [(2, true), (4, false)] {
        each_strategy(async |world| {
            world.users(20).await;
            let voucher = world.voucher(9).await.id;
            let shop = world.shop().await;
            let last = take_ids(&world, voucher, taken).await;
            match shop.buy(user(1), voucher).await {
                Ok(Outcome::Ordered(order)) if is_replaced => {
                    assert!(order.id > last);
                    let pool = world.database.pool();
                    let kept = orders::list_of_user(pool, user(1), None, 10).await.unwrap();
                    assert_eq!(kept, [order]);
                }
                Err(error) if !is_replaced => {
                    assert!(error.retry_may_help() && !error.outcome_unknown(), "{error:?}");
                }
                other => panic!("{other:?}"),
            }
            let audit = world.audit().await;
            let left = 9 - taken - i64::from(is_replaced);
            assert!(audit.holds && audit.stock == left, "{audit:?}");
            assert!(no_lock(&world, 2).await);
            let code = if is_replaced { "already_bought" } else { "ordered" };
            assert_eq!(shop.buy(user(1), voucher).await.unwrap().code(), code);
        })
        .await;
    }
}

/// The lock is no more than a courtesy: without it, and with a counter that starts anew
/// again and again, the constraints still keep the books.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_that_forgets_everything_in_the_rush_oversells_nothing() {
    each_strategy(async |world| {
        world.users(20).await;
        let voucher = world.voucher(15).await;
        let shops = [world.shop().await, world.shop().await];
        let forget = async |_| {
            let mut command = redis::cmd("DEL");
            command.arg(world.keys.order_counter(world.clock.now().date_naive()));
            command.arg((1..=20).map(|it| world.keys.order_lock(user(it))).collect::<Vec<_>>());
            world.redis.query::<()>(&command).await.unwrap();
        };
        let mut tasks = JoinSet::new();
        for attempt in 0..10 {
            for number in 1..=20 {
                let shop = Arc::clone(&shops[attempt % 2]);
                tasks.spawn(async move {
                    match shop.buy(user(number), voucher.id).await {
                        Ok(Outcome::Ordered(order)) => Some(order.id),
                        Ok(Outcome::Refused(_)) => None,
                        // Too many taken ids, a counter that keeps falling: never a wrong answer.
                        Err(error) => {
                            assert!(
                                error.retry_may_help() && !error.outcome_unknown(),
                                "{error:?}"
                            );
                            None
                        }
                    }
                });
            }
        }
        let told = flood(1, forget, must("everybody has an answer", tasks.join_all())).await;
        // Two nodes that drew one number for one user, in one second, told the user of one order.
        let told: HashSet<OrderId> = told.into_iter().flatten().collect();
        let told = told.len() as i64;
        assert_eq!(orders_in_good_books(&world).await, told);
        // Once Redis remembers again the rest is sold.
        for number in 1..=20 {
            shops[0].buy(user(number), voucher.id).await.unwrap();
        }
        assert_eq!(orders_in_good_books(&world).await, 15);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stock_that_comes_in_the_rush_is_sold_and_no_more_than_that() {
    each_strategy(async |world| {
        world.users(60).await;
        let voucher = world.voucher(5).await;
        let shop = world.shop().await;
        let shops = [Arc::clone(&shop)];
        let restocking = async {
            for _ in 0..10 {
                restock(&world, voucher.id, 3).await;
            }
        };
        let (_, ()) = tokio::join!(rush(&shops, voucher.id, 60, 3), restocking);
        eventually("the restocked vouchers are sold", async || {
            rush(&shops, voucher.id, 60, 1).await;
            world.audit().await.stock == 0
        })
        .await;
        assert_eq!(orders_in_good_books(&world).await, 35);
    })
    .await;
}

/// Panics when it is looked at in a task, once, after it was armed.
#[derive(Debug)]
struct BrokenClock {
    clock: Arc<ManualClock>,
    armed: AtomicBool,
}

impl Clock for BrokenClock {
    fn now(&self) -> DateTime<Utc> {
        // A test is no task; order ids are drawn in a task of their own.
        let panics = tokio::task::try_id().is_some() && self.armed.swap(false, Ordering::SeqCst);
        assert!(!panics, "this clock is broken, as it should be here");
        self.clock.now()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_buyer_whose_purchase_meets_a_panic_is_told_and_nothing_stays_behind() {
    each_strategy(async |world| {
        world.users(20).await;
        let voucher = world.voucher(20).await.id;
        let clock = Arc::new(BrokenClock { clock: world.clock.clone(), armed: false.into() });
        let shop = world.purchases_by(clock.clone(), world.options()).await;
        assert_eq!(shop.buy(user(20), voucher).await.unwrap().code(), "ordered");
        for number in 1..=5 {
            clock.armed.store(true, Ordering::SeqCst);
            let told = must("the buyer is told", shop.buy(user(number), voucher)).await;
            let error = told.unwrap_err();
            assert!(matches!(error, PurchaseError::OrderId(_)), "{error:?}");
            assert!(!error.outcome_unknown(), "no order was sent");
            assert!(!clock.armed.load(Ordering::SeqCst));
            // Others are not kept waiting; the buyer is until the lock has been released.
            let other = must("another one is told", shop.buy(user(number + 10), voucher)).await;
            assert_eq!(other.unwrap().code(), "ordered");
            eventually("the buyer buys", async || {
                let code = shop.buy(user(number), voucher).await.unwrap().code();
                assert!(["ordered", "order_in_progress"].contains(&code), "{code}");
                code == "ordered"
            })
            .await;
        }
        must("the shutdown ends", shop.shutdown()).await;
        assert!(no_lock(&world, 20).await);
        assert_eq!(orders_in_good_books(&world).await, 11);
    })
    .await;
}

#[tokio::test]
async fn a_voucher_that_is_read_again_keeps_its_circuit_breaker() {
    let world = World::new().await;
    let voucher = world.voucher(1).await;
    let shop = world.shop().await;
    let sale = async || shop.sale(voucher.id).await.unwrap().unwrap();
    let first = sale().await;
    // Memory forgets a voucher within a second.
    eventually("the voucher is read again", async || !Arc::ptr_eq(&first, &sale().await)).await;
    assert!(Arc::ptr_eq(&first.breaker, &sale().await.breaker));
}
