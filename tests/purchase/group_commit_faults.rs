//! Group commits whose connection is cut, goes deaf or finds nobody: who has bought is told so,
//! and nothing is guessed.

use std::sync::Arc;
use std::time::Duration;

use faults::Fault;
use seckill::model::{Clock, Outcome, VoucherId};
use seckill::purchase::{PurchaseError, Purchases, PurchasesOptions};
use seckill::store::{StoreError, orders};
use sqlx::Connection;

use super::placing::orders_in_good_books;
use super::shops::{
    Answer, GROUPS, Linked, asks_again, buyers, linked_shop, no_lock, nothing_was_done,
};
use testkit::shop::held_rows::end_those_who_wait;
use testkit::shop::world::{World, each_of, each_strategy, user};
use testkit::wait::{eventually, must};

/// What whoever has an order is told.
const WITH_ORDER: [&str; 2] = ["ordered", "already_bought"];

async fn all_are_told(
    shop: &Arc<Purchases>,
    voucher: VoucherId,
    (first, last): (i64, i64),
    codes: &[&str],
) {
    for (number, answer) in buyers(shop, voucher, first, last).join_all().await {
        assert!(codes.contains(&answer.unwrap().code()), "{number}");
    }
}

/// Everybody bought, and one had bought before; what each was told is what is there, and no lock is left.
async fn settled(world: &World, mut told: Vec<(i64, Answer)>) {
    let first = orders::list_of_user(world.database.pool(), user(30), None, 2).await.unwrap();
    told.push((30, Ok(Outcome::Ordered(first[0].clone()))));
    let count = told.len() as i64;
    for (number, answer) in told {
        let Ok(Outcome::Ordered(order)) = answer else { panic!("{number}: {answer:?}") };
        assert_eq!(order.user_id, user(number));
        let kept = orders::find(world.database.pool(), order.id.into(), None).await.unwrap();
        assert_eq!(kept, order);
    }
    assert_eq!(orders_in_good_books(world).await, count);
    eventually("every lock is free", async || no_lock(world, count).await).await;
}

/// The first purchase waits in the database and the others behind it, when `break_it` is called;
/// then the first gets on.
async fn cut(world: &World, break_it: impl AsyncFnOnce(&Linked)) -> Vec<(i64, Answer)> {
    world.users(31).await;
    let voucher = world.voucher(100).await.id;
    let linked = linked_shop(world).await;
    world.wait_long_for_rows().await;
    // The statements are prepared, and the sale is known.
    assert_eq!(linked.shop.buy(user(30), voucher).await.unwrap().code(), "ordered");
    // The second batch may come before the first one's connection is back in the pool. It must not
    // have to connect, or the fault hits that, and no batch.
    let pool = linked.connections.purchases();
    drop(tokio::join!(pool.acquire(), pool.acquire()));
    eventually("connections lie idle", async || pool.num_idle() >= 2).await;
    let row = world.hold_the_row().await;
    let mut told = vec![buyers(&linked.shop, voucher, 1, 1)];
    world.until_one_waits().await;
    // One after the other: when all have their locks, the second waits for the batch, or the third.
    for (first, last) in [(2, 2), (3, 3), (4, 29)] {
        told.push(buyers(&linked.shop, voucher, first, last));
        if world.settings.strategy == GROUPS[0] {
            eventually("they have their locks", async || world.locks_held(1..=last).await == last)
                .await;
        }
    }
    break_it(&linked).await;
    row.close().await.unwrap();
    let mut answers = Vec::new();
    for told in told {
        answers.extend(told.join_all().await);
    }
    // Somebody whom memory does not know.
    answers.push((31, linked.shop.buy(user(31), voucher).await));
    must("the shutdown ends", linked.shop.shutdown()).await;
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_that_is_lost_on_its_way_there_or_back_is_found_and_told() {
    for lost in ["answer of the batch", "answer of a single order", "batch", "session"] {
        println!("lost: {lost}");
        each_of(GROUPS, async |world| {
            let told = cut(&world, async |linked| match lost {
                // The first answer is that of the purchase before the batch.
                "answer of the batch" => linked.database.break_after(1, Fault::LoseAnswer),
                "answer of a single order" => linked.database.break_by(Fault::LoseAnswer),
                "batch" => linked.database.break_by(Fault::LoseRequest),
                _ => end_those_who_wait(world.database.pool()).await,
            });
            settled(&world, told.await).await;
        })
        .await;
    }
}

/// Its members are told that nobody knows; the next attempt goes over another connection and settles it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_connection_that_went_deaf_is_given_up_and_asking_again_settles_the_outcome() {
    each_of(GROUPS, async |world| {
        world.users(20).await;
        let voucher = world.voucher(100).await.id;
        let linked = linked_shop(&world).await;
        linked.shop.sale(voucher).await.unwrap();
        world.wait_long_for_rows().await;
        let row = world.hold_the_row().await;
        let tasks = buyers(&linked.shop, voucher, 1, 20);
        world.until_one_waits().await;
        linked.database.break_by(Fault::Deaf);
        let mut unknown = 0;
        for (number, answer) in tasks.join_all().await {
            let error = answer.unwrap_err();
            assert!(error.retry_may_help(), "{number}: {error:?}");
            unknown += i64::from(error.outcome_unknown());
        }
        assert!(unknown > 0);
        // The connections that come now are not deaf. The one that has the batch stays so, and the
        // server gets on with what came by it when the row is free.
        linked.database.break_by(Fault::None);
        row.close().await.unwrap();
        for number in 1..=20 {
            let may_help = PurchaseError::retry_may_help;
            let code = asks_again(&linked.shop, voucher, number, may_help).await;
            assert!(WITH_ORDER.contains(&code), "{code}");
        }
        must("the shutdown ends", linked.shop.shutdown()).await;
        assert!(no_lock(&world, 20).await);
        assert_eq!(orders_in_good_books(&world).await, 20);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_that_is_away_costs_a_503_and_no_order() {
    each_of(GROUPS, async |world| {
        let told = cut(&world, async |linked| linked.database.break_by(Fault::Down)).await;
        let mut doubtful = 0;
        for (number, answer) in told {
            match answer {
                // The one that was in the database: its answer may have been on its way.
                Ok(outcome) => assert_eq!((number, outcome.code()), (1, "ordered")),
                Err(error) => {
                    assert!(error.retry_may_help(), "{number}: {error:?}");
                    doubtful += i64::from(error.outcome_unknown() && number != 31);
                }
            }
        }
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders <= 2 + doubtful, "{audit:?}");
        // By another way it goes on.
        let shop = world.shop().await;
        eventually("the lock of the one in doubt is free", async || no_lock(&world, 30).await)
            .await;
        let voucher = audit.voucher_id;
        all_are_told(&shop, voucher, (1, 30), &WITH_ORDER).await;
        assert_eq!(orders_in_good_books(&world).await, 30);
    })
    .await;
}

/// A buyer who waits for the batch has what is needed; to some of those behind the first a lock or an id is on the way yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_that_goes_away_costs_those_a_503_who_need_it_and_nobody_an_order() {
    each_of(GROUPS, async |world| {
        let told = cut(&world, async |linked| linked.redis.break_by(Fault::Down)).await;
        let (ordered, late): (Vec<_>, Vec<_>) = told.into_iter().partition(|(_, it)| it.is_ok());
        // The first was in the database. The last came later.
        assert_eq!((ordered[0].0, late.last().unwrap().0), (1, 31));
        assert!(ordered.len() > 1 || world.settings.strategy == GROUPS[1], "{ordered:?}");
        late.into_iter().for_each(nothing_was_done);
        settled(&world, ordered).await;
        eventually("every lock is free", async || no_lock(&world, 31).await).await;
        let (shop, voucher) = (world.shop().await, world.audit().await.voucher_id);
        all_are_told(&shop, voucher, (2, 29), &WITH_ORDER).await;
        assert!(world.audit().await.holds);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ids_that_cannot_be_drawn_cost_an_error_and_the_locks_are_given_back() {
    each_of(GROUPS, async |world| {
        world.users(20).await;
        let voucher = world.voucher(100).await.id;
        // They do not end by themselves while anybody looks.
        let options = PurchasesOptions { lease: Duration::from_secs(600), ..world.options() };
        let shop = world.purchases(options).await;
        shop.sale(voucher).await.unwrap();
        let key = world.keys.order_counter(world.clock.now().date_naive());
        world.redis.query::<()>(redis::cmd("SET").arg(&key).arg("no number")).await.unwrap();
        for (number, answer) in buyers(&shop, voucher, 1, 20).join_all().await {
            let error = answer.unwrap_err();
            assert!(matches!(error, PurchaseError::OrderId(_)), "{number}: {error:?}");
            assert!(!error.outcome_unknown(), "{number}: {error:?}");
        }
        eventually("every lock is free", async || no_lock(&world, 20).await).await;
        world.redis.query::<()>(redis::cmd("DEL").arg(&key)).await.unwrap();
        all_are_told(&shop, voucher, (1, 20), &["ordered"]).await;
        assert_eq!(orders_in_good_books(&world).await, 20);
    })
    .await;
}

/// Those who are at Redis, and those who wait behind them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_that_goes_deaf_costs_those_who_wait_for_their_locks_a_503_and_no_order() {
    each_of(GROUPS, async |world| {
        world.users(31).await;
        let voucher = world.voucher(100).await.id;
        let linked = linked_shop(&world).await;
        assert_eq!(linked.shop.buy(user(31), voucher).await.unwrap().code(), "ordered");
        linked.redis.break_by(Fault::Deaf);
        let tasks = buyers(&linked.shop, voucher, 1, 30);
        let told = must("everybody is told", tasks.join_all()).await;
        told.into_iter().for_each(nothing_was_done);
        linked.redis.break_by(Fault::None);
        // What could not be given back ends by itself.
        eventually("every lock is free", async || no_lock(&world, 30).await).await;
        let shop = world.shop().await;
        all_are_told(&shop, voucher, (1, 30), &["ordered"]).await;
        assert_eq!(orders_in_good_books(&world).await, 31);
        must("the shutdown ends", linked.shop.shutdown()).await;
    })
    .await;
}

fn is_circuit_open(error: &PurchaseError) -> bool {
    matches!(error, PurchaseError::CircuitOpen)
}

/// Its buyers are told that nothing was done, and those who come then are told so at once; another voucher is sold.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_that_is_held_too_long_costs_a_503_and_no_order_and_delays_no_other_voucher() {
    each_strategy(async |world| {
        world.users(40).await;
        let (voucher, free) = (world.voucher(5).await.id, world.voucher(50).await.id);
        let shop = world.shop().await;
        shop.sale(free).await.unwrap();
        let held = format!("select from seckill_vouchers where voucher_id = {voucher} for update");
        let row = world.begin(&held).await;
        nothing_was_done((1, shop.buy(user(1), voucher).await));
        assert!(no_lock(&world, 5).await);
        for number in [1, 2] {
            assert!(shop.buy(user(number), voucher).await.is_err_and(|it| is_circuit_open(&it)));
        }
        all_are_told(&shop, free, (10, 40), &["ordered"]).await;
        row.close().await.unwrap();
        assert_eq!(asks_again(&shop, voucher, 2, is_circuit_open).await, "ordered");
        assert_eq!(shop.buy(user(1), voucher).await.unwrap().code(), "ordered");
        must("the shutdown ends", shop.shutdown()).await;
        assert!(no_lock(&world, 40).await);
        let audits = world.audits_hold().await;
        assert_eq!(audits.iter().map(|it| it.orders).collect::<Vec<_>>(), [2, 31], "{audits:?}");
    })
    .await;
}

/// The database gets no further than the commit, which waits: it may come through or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_batch_that_the_database_does_not_answer_is_unknown_and_is_found_when_asked_for_again() {
    each_strategy(async |world| {
        world.users(3).await;
        let voucher = world.voucher(5).await.id;
        let shop = world.shop().await;
        shop.sale(voucher).await.unwrap();
        world.wait_long_for_rows().await;
        let row = world.hold_the_row().await;
        let unknown = shop.buy(user(1), voucher).await;
        assert!(
            matches!(unknown, Err(PurchaseError::Order(StoreError::Unknown { .. }))),
            "{unknown:?}"
        );
        assert!(no_lock(&world, 3).await);
        row.close().await.unwrap();
        // What the server had begun it ends; the buyer who asks again is named the order, or gets one.
        let code = asks_again(&shop, voucher, 1, is_circuit_open).await;
        assert!(WITH_ORDER.contains(&code), "{code}");
        must("the shutdown ends", shop.shutdown()).await;
        assert_eq!(orders_in_good_books(&world).await, 1);
    })
    .await;
}
