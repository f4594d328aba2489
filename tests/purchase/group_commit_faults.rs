//! Group commits whose connection is cut, goes deaf or finds nobody: who has bought is told so,
//! and nothing is guessed.

#[allow(unused_imports)]
use crate::worlds::*;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use faults::{Fault, Proxy};
use redis_link::Redis;
use seckill::model::{Clock, Outcome, VoucherId};
use seckill::purchase::{PurchaseError, Purchases, PurchasesOptions};
use seckill::store::StoreError;
use seckill::store::{Database, orders};
use sqlx::Connection;

use crate::purchase::group_commit::{Answer, GROUPS, buyers};
use testkit::shop::held_rows::end_those_who_wait;
use testkit::shop::world::{World, each_of, each_strategy, user};
use testkit::wait::{eventually, must};

/// A shop whose connections to the stores can be broken.
pub struct Linked {
    pub shop: Arc<Purchases>,
    connections: Database,
    pub database: Proxy,
    pub redis: Proxy,
}

#[easy_ext::ext(GroupCommitFaultsWorld)]
pub impl World {
    /// The database by a way that can be broken.
    async fn linked_database(&self) -> (Proxy, Database) {
        let url = url::Url::parse(&self.database_url).unwrap();
        let socket = url.query_pairs().find(|(name, _)| name == "host").unwrap().1;
        let socket = Path::new(&*socket).join(".s.PGSQL.5432");
        let database = Proxy::before_socket(socket).await.unwrap();
        let database_url = format!("postgres://postgres@{}{}", database.address(), url.path());
        (database, Database::new(&database_url).unwrap())
    }

    async fn linked_shop(&self) -> Linked {
        let (database, connections) = self.linked_database().await;
        let redis = Proxy::start(&self.redis_url).await.unwrap();
        let options = PurchasesOptions { lease: Duration::from_secs(1), ..self.options() };
        let shop = Purchases::start(
            connections.clone(),
            Redis::new(redis.url()).unwrap(),
            self.keys.clone(),
            self.clock.clone(),
            options,
        );
        Linked { shop: shop.await.unwrap(), connections, database, redis }
    }

    /// Everybody bought, what each was told is what is there, and no lock is left.
    async fn all_bought(&self, told: Vec<(i64, Answer)>) {
        let count = told.len() as i64;
        for (number, answer) in told {
            let Ok(Outcome::Ordered(order)) = answer else { panic!("{number}: {answer:?}") };
            assert_eq!(order.user_id, user(number));
            let kept = orders::find(self.database.pool(), order.id.into(), None).await.unwrap();
            assert_eq!(kept.order(), Some(order));
        }
        let audit = self.audit().await;
        assert!(audit.holds && audit.orders == count, "{audit:?}");
        eventually("every lock is free", async || !self.any_lock(count).await).await;
    }
}

/// The first purchase waits in the database and the others behind it, when `break_it` is called;
/// then the first gets on.
async fn cut(world: &World, break_it: impl AsyncFnOnce(&Linked)) -> Vec<(i64, Answer)> {
    world.users(31).await;
    let voucher = world.voucher(100).await.id;
    let linked = world.linked_shop().await;
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
        if world.strategy == GROUPS[0] {
            eventually("they have their locks", async || world.locks_held(last).await == last)
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

#[easy_ext::ext(GroupCommitFaultsWorld2)]
pub impl World {
    async fn locks_held(&self, users: i64) -> i64 {
        let mut command = redis::cmd("EXISTS");
        for number in 1..=users {
            command.arg(self.keys.order_lock(user(number)));
        }
        self.redis.query(&command).await.unwrap()
    }

    /// As [`World::all_bought`]; with the one who bought before.
    async fn settled(&self, mut told: Vec<(i64, Answer)>) {
        let first = orders::list_of_user(self.database.pool(), user(30), None, 2).await.unwrap();
        told.push((30, Ok(Outcome::Ordered(first[0].clone()))));
        self.all_bought(told).await;
    }
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
            world.settled(told.await).await;
        })
        .await;
    }
}

/// Its members hear that nobody knows; the next attempt goes over another connection and settles it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_connection_that_went_deaf_is_given_up_and_asking_again_settles_the_outcome() {
    each_of(GROUPS, async |world| {
        world.users(20).await;
        let voucher = world.voucher(100).await.id;
        let linked = world.linked_shop().await;
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
            eventually("the buyer has an order", async || {
                match linked.shop.buy(user(number), voucher).await {
                    Ok(outcome) => matches!(outcome.code(), "ordered" | "already_bought"),
                    Err(error) => {
                        assert!(error.retry_may_help(), "{error:?}");
                        false
                    }
                }
            })
            .await;
        }
        must("the shutdown ends", linked.shop.shutdown()).await;
        assert!(!world.any_lock(20).await);
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders == 20, "{audit:?}");
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
        eventually("the lock of the one in doubt is free", async || !world.any_lock(30).await)
            .await;
        let voucher = audit.voucher_id;
        for (_, answer) in buyers(&shop, voucher, 1, 30).join_all().await {
            assert!(matches!(answer.unwrap().code(), "ordered" | "already_bought"));
        }
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders == 30, "{audit:?}");
    })
    .await;
}

/// The buyers behind the first one wait in its batcher, with an id, or are still drawing one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_that_goes_away_before_the_ids_costs_a_503_and_no_order() {
    let world = World { strategy: GROUPS[1], ..World::new().await };
    let mut told = cut(&world, async |linked| linked.redis.break_by(Fault::Down)).await;
    let (_, first) = told.remove(0);
    assert_eq!(first.unwrap().code(), "ordered", "it had all it needed");
    let (ordered, late): (Vec<_>, Vec<_>) = told.into_iter().partition(|(_, told)| told.is_ok());
    late.into_iter().for_each(nothing_was_done);
    let audit = world.audit().await;
    assert!(audit.holds && audit.orders == 2 + ordered.len() as i64, "{audit:?}");
    let shop = world.shop().await;
    for (_, answer) in buyers(&shop, audit.voucher_id, 2, 29).join_all().await {
        assert!(matches!(answer.unwrap().code(), "ordered" | "already_bought"));
    }
    assert!(world.audit().await.holds);
}

/// A buyer who waits for the batch has a lock and an id. (To some they may be on the way yet.)
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_that_goes_away_costs_nobody_the_order_who_waits_for_the_batch() {
    let world = World { strategy: GROUPS[0], ..World::new().await };
    let mut told = cut(&world, async |linked| linked.redis.break_by(Fault::Down)).await;
    nothing_was_done(told.pop().unwrap());
    let (ordered, late): (Vec<_>, Vec<_>) = told.into_iter().partition(|(_, told)| told.is_ok());
    late.into_iter().for_each(nothing_was_done);
    // The first was in the database, and others waited behind it.
    assert!(ordered.len() > 1, "{ordered:?}");
    world.settled(ordered).await;
    eventually("every lock is free", async || !world.any_lock(31).await).await;
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
        eventually("every lock is free", async || !world.any_lock(20).await).await;
        world.redis.query::<()>(redis::cmd("DEL").arg(&key)).await.unwrap();
        all_buy(&shop, voucher, 1, 20).await;
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders == 20, "{audit:?}");
    })
    .await;
}

/// Those who are at Redis, and those who wait behind them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_that_goes_deaf_costs_those_who_wait_for_their_locks_a_503_and_no_order() {
    each_of(GROUPS, async |world| {
        world.users(31).await;
        let voucher = world.voucher(100).await.id;
        let linked = world.linked_shop().await;
        assert_eq!(linked.shop.buy(user(31), voucher).await.unwrap().code(), "ordered");
        linked.redis.break_by(Fault::Deaf);
        let tasks = buyers(&linked.shop, voucher, 1, 30);
        let told = must("everybody is told", tasks.join_all()).await;
        told.into_iter().for_each(nothing_was_done);
        linked.redis.break_by(Fault::None);
        // What could not be given back ends by itself.
        eventually("every lock is free", async || !world.any_lock(30).await).await;
        let shop = world.shop().await;
        all_buy(&shop, voucher, 1, 30).await;
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders == 31, "{audit:?}");
        must("the shutdown ends", linked.shop.shutdown()).await;
    })
    .await;
}

async fn all_buy(shop: &Arc<Purchases>, voucher: VoucherId, first: i64, last: i64) {
    for (number, answer) in buyers(shop, voucher, first, last).join_all().await {
        assert_eq!(answer.unwrap().code(), "ordered", "{number}");
    }
}

pub fn nothing_was_done((number, answer): (i64, Answer)) {
    let error = answer.unwrap_err();
    assert!(error.retry_may_help() && !error.outcome_unknown(), "{number}: {error:?}");
}

/// Its buyers are told that nothing was done, and those who come then hear so at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_that_is_held_too_long_costs_a_503_and_no_order() {
    each_strategy(async |world| {
        world.users(5).await;
        let voucher = world.voucher(5).await.id;
        let shop = world.shop().await;
        let row = world.hold_the_row().await;
        nothing_was_done((1, shop.buy(user(1), voucher).await));
        assert!(!world.any_lock(5).await);
        for number in [1, 2] {
            let refused = shop.buy(user(number), voucher).await;
            assert!(matches!(refused, Err(PurchaseError::CircuitOpen)), "{refused:?}");
        }
        row.close().await.unwrap();
        eventually("the next one buys", async || match shop.buy(user(2), voucher).await {
            Ok(outcome) => outcome.code() == "ordered",
            Err(error) => {
                assert!(matches!(error, PurchaseError::CircuitOpen), "{error:?}");
                false
            }
        })
        .await;
        assert_eq!(shop.buy(user(1), voucher).await.unwrap().code(), "ordered");
        must("the shutdown ends", shop.shutdown()).await;
        assert!(!world.any_lock(5).await);
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders == 2, "{audit:?}");
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
        assert!(!world.any_lock(3).await);
        row.close().await.unwrap();
        // What the server had begun it ends; the buyer who asks again is named the order, or gets one.
        eventually("the buyer has an order", async || match shop.buy(user(1), voucher).await {
            Ok(outcome) => matches!(outcome.code(), "ordered" | "already_bought"),
            Err(error) => {
                assert!(matches!(error, PurchaseError::CircuitOpen), "{error:?}");
                false
            }
        })
        .await;
        must("the shutdown ends", shop.shutdown()).await;
        let audit = world.audit().await;
        assert!(audit.holds && audit.orders == 1, "{audit:?}");
    })
    .await;
}
