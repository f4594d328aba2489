//! The purchase service when buyers leave, ids are taken, and Redis or the database misbehave.

#[allow(unused_imports)]
use crate::worlds::*;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use chrono::{DateTime, Utc};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use seckill::model::{Clock, ManualClock, Order, OrderId, Outcome, VoucherId};
use seckill::purchase::{PurchaseError, Purchases};
use seckill::store::orders;
use tokio::task::{JoinSet, yield_now};

use crate::purchase::strategies::rush;
use testkit::shop::world::{World, each_strategy, midnight, user};
use testkit::wait::{eventually, must};

async fn orders_of(world: &World, number: i64) -> Vec<Order> {
    orders::list_of_user(world.database.pool(), user(number), None, 10).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn buyers_who_leave_at_any_moment_leave_an_order_whole_or_none() {
    each_strategy(async |world| {
        let seed: u64 = rand::random();
        println!("seed {seed}");
        let world = Arc::new(world);
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
                        if let Poll::Ready(answer) = futures_util::poll!(&mut attempt) {
                            return answer
                                .is_ok_and(|outcome| matches!(outcome, Outcome::Ordered(_)));
                        }
                        yield_now().await;
                    }
                }
                false
            });
        }
        tasks.join_all().await;
        eventually("every lock is free", async || !world.any_lock(200).await).await;
        shop.shutdown().await;
        let audit = world.audit().await;
        assert!(audit.holds, "{audit:?}");
        // What was begun was ended: the same again changes nothing.
        assert_eq!(world.audit().await, audit);
        assert!(!world.any_lock(200).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_a_shutdown_nothing_is_under_way() {
    each_strategy(async |world| {
        world.users(100).await;
        let voucher = world.voucher(100).await;
        let shop = world.shop().await;
        shop.sale(voucher.id).await.unwrap();
        for number in 1..=100 {
            // Begun, and left at once.
            assert!(futures_util::poll!(Box::pin(shop.buy(user(number), voucher.id))).is_pending());
        }
        must("the shutdown ends", shop.shutdown()).await;
        assert!(!world.any_lock(100).await);
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders == 100, "what was begun is bought: {audit:?}");
    })
    .await;
}

/// Writes orders of `voucher`, of users 11 and up, with the `count` numbers that come next.
async fn take_ids(world: &World, voucher: VoucherId, count: i64) -> Vec<OrderId> {
    let second = midnight().timestamp() - OrderId::EPOCH_SECONDS;
    let mut taken = Vec::new();
    for sequence in 1..=count {
        let id = OrderId::from_parts(second, sequence).unwrap();
        sqlx::query("insert into orders (id, user_id, voucher_id) values ($1, $2, $3)")
            .bind(id.get())
            .bind(10 + sequence)
            .bind(voucher.get())
            .execute(world.database.pool())
            .await
            .unwrap();
        taken.push(id);
    }
    sqlx::query("update seckill_vouchers set stock = stock - $1::bigint")
        .bind(count)
        .execute(world.database.pool())
        .await
        .unwrap();
    taken
}

async fn stock(world: &World, voucher: VoucherId) -> i64 {
    let audits = seckill::purchase::audit::run(world.database.pool(), Some(voucher)).await.unwrap();
    assert!(audits[0].holds, "{audits:?}");
    audits[0].stock
}

#[tokio::test]
async fn an_order_id_that_is_taken_is_replaced() {
    each_strategy(async |world| {
        world.users(20).await;
        let voucher = world.voucher(9).await;
        let shop = world.shop().await;
        let taken = take_ids(&world, voucher.id, 2).await;
        let Outcome::Ordered(order) = shop.buy(user(1), voucher.id).await.unwrap() else {
            panic!()
        };
        assert!(order.id > taken[1]);
        assert_eq!(orders_of(&world, 1).await, [order]);
        assert_eq!(stock(&world, voucher.id).await, 6);
    })
    .await;
}

#[tokio::test]
async fn too_many_taken_ids_in_a_row_are_an_error_that_costs_nothing() {
    each_strategy(async |world| {
        world.users(20).await;
        let voucher = world.voucher(9).await;
        let shop = world.shop().await;
        take_ids(&world, voucher.id, 4).await;
        let failed = shop.buy(user(1), voucher.id).await;
        assert!(failed.as_ref().is_err_and(PurchaseError::retry_may_help), "{failed:?}");
        assert!(!failed.is_err_and(|error| error.outcome_unknown()));
        assert_eq!(stock(&world, voucher.id).await, 5);
        assert!(!world.any_lock(2).await);
        assert_eq!(shop.buy(user(1), voucher.id).await.unwrap().code(), "ordered");
    })
    .await;
}

/// The lock is no more than a courtesy: without it, and with a counter that starts anew
/// again and again, the constraints still keep the books.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_that_forgets_everything_in_the_rush_oversells_nothing() {
    each_strategy(async |world| {
        let world = Arc::new(world);
        world.users(20).await;
        let voucher = world.voucher(15).await;
        let shops = [world.shop().await, world.shop().await];
        let done = Arc::new(AtomicBool::new(false));
        let (forgetful, stop) = (Arc::clone(&world), Arc::clone(&done));
        let forgetting = tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let mut command = redis::cmd("DEL");
                command.arg(forgetful.keys.order_counter(forgetful.clock.now().date_naive()));
                for number in 1..=20 {
                    command.arg(forgetful.keys.order_lock(user(number)));
                }
                forgetful.redis.query::<()>(&command).await.unwrap();
            }
        });
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
        let told = must("everybody has an answer", tasks.join_all()).await;
        // Two nodes that drew one number for one user, in one second, told the user of one order.
        let told: HashSet<OrderId> = told.into_iter().flatten().collect();
        let told = told.len() as i64;
        done.store(true, Ordering::SeqCst);
        forgetting.await.unwrap();
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders == told, "{told} were told, {audit:?}");
        // Once Redis remembers again the rest is sold.
        for number in 1..=20 {
            shops[0].buy(user(number), voucher.id).await.unwrap();
        }
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders == 15, "{audit:?}");
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
                world.restock(voucher.id, 3).await;
            }
        };
        let (_, ()) = tokio::join!(rush(&shops, voucher.id, 60, 3), restocking);
        eventually("the restocked vouchers are sold", async || {
            rush(&shops, voucher.id, 60, 1).await;
            world.audit().await.stock == 0
        })
        .await;
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders == 35, "{audit:?}");
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

#[easy_ext::ext(PurchaseFaultsWorld)]
impl World {
    async fn shop_with_broken_clock(&self) -> (Arc<Purchases>, Arc<BrokenClock>) {
        let clock = Arc::new(BrokenClock { clock: self.clock.clone(), armed: false.into() });
        (self.purchases_by(clock.clone(), self.options()).await, clock)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_buyer_whose_purchase_meets_a_panic_is_told_and_nothing_stays_behind() {
    each_strategy(async |world| {
        world.users(20).await;
        let voucher = world.voucher(20).await.id;
        let (shop, clock) = world.shop_with_broken_clock().await;
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
        assert!(!world.any_lock(20).await);
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders == 11, "{audit:?}");
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
