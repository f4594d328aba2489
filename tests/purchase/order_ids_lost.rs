//! The order-id worker while Redis loses the counter.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;

use chrono::TimeDelta;
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use seckill::model::{Clock, OrderId};
use seckill::store::OrderIds;
use tokio::task::JoinSet;

use crate::purchase::order_ids::next_many;
use testkit::shop::world::World;

async fn lose_counter(world: &World) {
    let key = world.keys.order_counter(world.clock.now().date_naive());
    world.redis.query::<()>(redis::cmd("DEL").arg(key)).await.unwrap();
}

fn all_different(ids: &[OrderId]) {
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "an id came twice: {ids:?}");
}

#[tokio::test]
async fn an_emptied_redis_never_makes_a_worker_repeat_itself() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    let mut made = Vec::new();
    for _ in 0..20 {
        for _ in 0..=made.len() % 5 {
            made.push(ids.next().await.unwrap());
        }
        lose_counter(&world).await;
    }
    assert!(made.is_sorted_by(|one, next| one < next), "{made:?}");
}

/// On one connection commands run in the order they were sent, and one task sends them in
/// the order it first polls them: the counter is lost exactly between two requests, while
/// both are under way.
#[tokio::test]
async fn a_counter_lost_between_two_requests_under_way_gives_no_id_twice() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    world.redis.ping().await.unwrap();
    let (one, (), two) = tokio::join!(ids.next(), lose_counter(&world), ids.next());
    all_different(&[one.unwrap(), two.unwrap()]);

    for requests in 1..30 {
        let first = join_all((0..requests).map(|_| ids.next()));
        let second = join_all((0..2 * requests).map(|_| ids.next()));
        let (first, (), second) = tokio::join!(first, lose_counter(&world), second);
        let made: Vec<OrderId> = first.into_iter().chain(second).map(Result::unwrap).collect();
        all_different(&made);
    }
}

#[tokio::test]
async fn a_counter_that_fell_back_a_little_gives_no_id_twice() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    let key = world.keys.order_counter(world.clock.now().date_naive());
    let mut made = Vec::new();
    for fall in [1, 3, 9] {
        for _ in 0..10 {
            made.push(ids.next().await.unwrap());
        }
        let fall = async {
            world.redis.query::<()>(redis::cmd("DECRBY").arg(&key).arg(fall)).await.unwrap();
        };
        let before = join_all((0..5).map(|_| ids.next()));
        let after = join_all((0..20).map(|_| ids.next()));
        let (before, (), after) = tokio::join!(before, fall, after);
        made.extend(before.into_iter().chain(after).map(Result::unwrap));
    }
    all_different(&made);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_counter_lost_again_and_again_under_fifty_tasks_gives_no_id_twice() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let world = World::new().await;
    let ids = Arc::new(world.order_ids(None));
    let returned = Arc::new(AtomicI64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let (ids, returned) = (Arc::clone(&ids), Arc::clone(&returned));
        tasks.spawn(async move {
            let mut drawn = Vec::new();
            for _ in 0..100 {
                let before = returned.load(Ordering::SeqCst);
                // A loss at every turn may exhaust an attempt; it must not give a wrong id.
                let Ok(id) = ids.next().await else { continue };
                assert!(id.get() > before, "{id} after {before}");
                returned.fetch_max(id.get(), Ordering::SeqCst);
                drawn.push(id);
            }
            drawn
        });
    }
    let losing = async {
        loop {
            lose_counter(&world).await;
            for _ in 0..random.random_range(0..40) {
                world.redis.ping().await.unwrap();
            }
        }
    };
    let drawn = tokio::select! {
        () = losing => unreachable!("it never ends"),
        drawn = tasks.join_all() => drawn,
    };
    let drawn: Vec<OrderId> = drawn.into_iter().flatten().collect();
    assert!(drawn.len() > 100, "only {} ids", drawn.len());
    all_different(&drawn);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_loss_under_fifty_tasks_fails_nobody() {
    let world = World::new().await;
    for _ in 0..20 {
        let ids = Arc::new(world.order_ids(None));
        let mut tasks = JoinSet::new();
        for _ in 0..50 {
            let ids = Arc::clone(&ids);
            tasks.spawn(async move { [ids.next().await.unwrap(), ids.next().await.unwrap()] });
        }
        lose_counter(&world).await;
        let drawn: Vec<OrderId> = tasks.join_all().await.into_iter().flatten().collect();
        all_different(&drawn);
        world.clock.advance(TimeDelta::days(1));
    }
}

/// What a second process does after a loss: its floor is lower than what the first handed
/// out, so only the clock parts the two. From the next second on they never meet.
#[tokio::test]
async fn a_second_worker_with_a_lower_floor_never_repeats_the_first() {
    let world = World::new().await;
    let one = world.order_ids(None);
    let other = world.order_ids(None);
    let mut made = vec![other.next().await.unwrap()];
    for _ in 0..50 {
        made.push(one.next().await.unwrap());
    }
    // The first one notices in the very second of the loss and moves on by itself.
    lose_counter(&world).await;
    made.push(one.next().await.unwrap());
    made.push(other.next().await.unwrap());
    // The second one asks first, a second after the loss.
    lose_counter(&world).await;
    world.clock.advance(TimeDelta::seconds(5));
    for _ in 0..60 {
        made.push(other.next().await.unwrap());
        made.push(one.next().await.unwrap());
    }
    all_different(&made);
}

/// An id, or none where Redis did not answer in time: a busy machine, and no wrong id.
async fn next_if_answered(ids: &OrderIds) -> Option<OrderId> {
    match ids.next().await {
        Ok(id) => Some(id),
        Err(error) => {
            assert!(error.retry_may_help(), "{error:?}");
            None
        }
    }
}

/// A request may be given up at any point: the buyer left. The others must not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_that_are_given_up_leave_gaps_and_nothing_else() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let world = World::new().await;
    let ids: Arc<OrderIds> = Arc::new(world.order_ids(None));
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let ids = Arc::clone(&ids);
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(task));
        tasks.spawn(async move {
            let mut drawn = Vec::new();
            for _ in 0..50 {
                for _ in 0..5 {
                    let mut request = Box::pin(next_if_answered(&ids));
                    for _ in 0..random.random_range(0..6) {
                        if let Poll::Ready(id) = futures_util::poll!(&mut request) {
                            drawn.extend(id);
                            break;
                        }
                        tokio::task::yield_now().await;
                    }
                }
                // Redis keeps up with those who left: one of six waits for its answer.
                drawn.extend(next_if_answered(&ids).await);
            }
            drawn
        });
    }
    let mut drawn = Vec::new();
    for round in 0..500 {
        drawn.extend(next_if_answered(&ids).await);
        if round % 100 == 0 {
            lose_counter(&world).await;
        }
    }
    assert!(drawn.is_sorted_by(|one, next| one < next));
    drawn.extend(tasks.join_all().await.into_iter().flatten());
    assert!(drawn.len() > 500, "only {} ids", drawn.len());
    all_different(&drawn);
}

#[tokio::test]
async fn a_counter_lost_among_ids_drawn_together_gives_no_id_twice() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    let mut made = Vec::new();
    for count in 1..60 {
        if count % 2 == 0 {
            world.clock.advance(TimeDelta::seconds(1));
        }
        let (first, (), second) =
            tokio::join!(next_many(&ids, count), lose_counter(&world), next_many(&ids, 40));
        made.extend(first);
        made.extend(second);
    }
    all_different(&made);
}
