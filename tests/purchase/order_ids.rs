//! The order-id worker: unique under concurrency and across workers, and increasing in each, whatever
//! the clock and Redis do; and never a wrong id.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt;
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::FromRedisValue;
use redis_link::Redis;
use seckill::model::{Clock, OrderId};
use seckill::store::{OrderIdError, OrderIds, StoreError};
use tokio::task::{JoinSet, yield_now};

use testkit::flood::flood;
use testkit::shop::world::{World, midnight};

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

pub fn second_of(instant: DateTime<Utc>) -> i64 {
    instant.timestamp() - OrderId::EPOCH_SECONDS
}

/// Does this to the counter of the day.
pub async fn with_counter<T: FromRedisValue>(
    world: &World,
    day: DateTime<Utc>,
    name: &str,
    more: Option<i64>,
) -> T {
    let mut command = redis::cmd(name);
    command.arg(world.keys.order_counter(day.date_naive())).arg(more);
    world.redis.query(&command).await.unwrap()
}

async fn counter(world: &World, day: DateTime<Utc>) -> Option<i64> {
    with_counter(world, day, "GET", None).await
}

/// So many ids, asked for at once.
pub async fn next_many(ids: &OrderIds, count: usize) -> Vec<OrderId> {
    let drawn = join_all((0..count).map(|_| ids.next())).await;
    drawn.into_iter().map(Result::unwrap).collect()
}

pub fn assert_all_differ(ids: &[OrderId]) {
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "an id came twice: {ids:?}");
}

/// A loss at every turn may exhaust an attempt, and on a busy machine Redis may not answer in time; neither gives a wrong id.
fn id_or_retry(answer: Result<OrderId, OrderIdError>) -> Option<OrderId> {
    assert!(answer.as_ref().err().is_none_or(OrderIdError::retry_may_help), "{answer:?}");
    answer.ok()
}

/// What the worker answers before the buyer leaves, who looks so often.
pub async fn next_within(ids: &OrderIds, looks: usize) -> Option<OrderId> {
    let mut request = Box::pin(ids.next());
    for _ in 0..looks {
        if let Some(answer) = (&mut request).now_or_never() {
            return id_or_retry(answer);
        }
        yield_now().await;
    }
    None
}

#[tokio::test]
async fn an_id_is_the_seconds_since_2022_and_the_number_of_the_day_in_utc() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    let key = world.keys.order_counter(midnight().date_naive());
    assert!(key.ends_with(":icr:order:2026:11:11"), "{key}");
    for (now, number) in [
        ("2026-11-11T00:00:00Z", 1),
        ("2026-11-11T00:00:00Z", 2),
        ("2026-11-11T23:59:59.999999Z", 3),
        ("2026-11-12T00:00:00Z", 1),
    ] {
        world.clock.set(instant(now));
        let id = ids.next().await.unwrap();
        assert_eq!((id.second(), id.sequence()), (second_of(instant(now)), number));
        assert_eq!(id.instant().timestamp(), instant(now).timestamp());
        assert_eq!(counter(&world, instant(now)).await, Some(number));
    }
}

/// Shows the next second each time it is looked at.
#[derive(Debug)]
struct RunningClock(AtomicI64);

impl Clock for RunningClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp(self.0.fetch_add(1, Ordering::SeqCst), 0).unwrap()
    }
}

/// On a runtime of one thread all are asked for before the first call to Redis: they are in a row, and second and day come
/// from one look at the clock, also while midnight passes.
#[tokio::test]
async fn ids_that_are_asked_for_together_are_in_a_row_by_one_call_at_one_instant() {
    let world = World::new().await;
    let start = midnight() - TimeDelta::seconds(3);
    let clock = Arc::new(RunningClock(start.timestamp().into()));
    let ids = OrderIds::new(world.redis.clone(), world.keys.clone(), clock, None);
    let mut number = 0;
    for (second, count) in (second_of(start)..).zip([1, 4, 500, 4, 500, 1]) {
        if second == second_of(midnight()) {
            assert_eq!(counter(&world, start).await, Some(number));
            number = 0;
        }
        for id in next_many(&ids, count).await {
            number += 1;
            assert_eq!((id.second(), id.sequence()), (second, number));
        }
    }
    assert_eq!(counter(&world, midnight()).await, Some(number));
}

/// How many workers there are, how many ids each of a worker's tasks asks for at once, how often, and whether Redis loses the
/// counter again and again while buyers leave. Each id is greater than all that its worker returned before it was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_of_one_worker_or_eight_draw_no_id_twice_and_always_upwards() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    for (workers, at_once, times, is_lost) in [
        (1, vec![1; 50], 200, false),
        (8, vec![1, 1, 1, 2, 2, 3, 3, 7], 40, false),
        (1, vec![1; 50], 100, true),
    ] {
        let world = World::new().await;
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            let redis = Redis::new(&world.redis_url).unwrap();
            let ids = Arc::new(OrderIds::new(redis, world.keys.clone(), world.clock.clone(), None));
            let returned = Arc::new(AtomicI64::new(0));
            for (task, &many) in (0..).zip(&at_once) {
                let (ids, returned) = (Arc::clone(&ids), Arc::clone(&returned));
                let mut random = StdRng::seed_from_u64(seed.wrapping_add(task));
                tasks.spawn(async move {
                    let mut all = Vec::new();
                    for _ in 0..times {
                        let before = returned.load(Ordering::SeqCst);
                        // Redis keeps up with those who left: one of six waits for the answer.
                        let drawn: Vec<OrderId> = match random.random_range(0..6) {
                            _ if !is_lost => next_many(&ids, many).await,
                            5 => id_or_retry(ids.next().await).into_iter().collect(),
                            looks => next_within(&ids, looks).await.into_iter().collect(),
                        };
                        for id in drawn {
                            assert!(id.get() > before, "{id} after {before}");
                            returned.fetch_max(id.get(), Ordering::SeqCst);
                            all.push(id);
                        }
                    }
                    assert!(all.is_sorted());
                    all
                });
            }
        }
        let lose = async |_| {
            with_counter::<i64>(&world, midnight(), "DEL", None).await;
            for _ in 0..rand::random_range(0..40) {
                world.redis.ping().await.unwrap();
            }
        };
        let drawn = flood(usize::from(is_lost), lose, tasks.join_all()).await.concat();
        assert_all_differ(&drawn);
        let count = workers * at_once.iter().sum::<usize>() * times;
        if is_lost {
            assert!(drawn.len() > 100, "only {} ids", drawn.len());
        } else {
            assert_eq!(drawn.len(), count);
            assert_eq!(counter(&world, midnight()).await, Some(count as i64));
        }
    }
}

#[tokio::test]
async fn a_worker_continues_after_the_last_id_of_the_database() {
    let world = World::new().await;
    let ahead = second_of(midnight()) + 7;
    let id = world.order_ids(OrderId::from_parts(ahead, 41)).next().await.unwrap();
    // Redis knows nothing of those 41: the counter is raised, and the second left behind.
    assert_eq!((id.second(), id.sequence()), (ahead + 1, 42));
    assert_eq!(counter(&world, midnight()).await, Some(42));
    // Where Redis does know, the numbers go on in the same second.
    let id = world.order_ids(Some(id)).next().await.unwrap();
    assert_eq!((id.second(), id.sequence()), (ahead + 1, 43));
    // Yesterday's last number says nothing of today's.
    let yesterday = OrderId::from_parts(second_of(midnight()) - 1, 1_000);
    assert_eq!(world.order_ids(yesterday).next().await.unwrap().sequence(), 44);
}

async fn is_out_of_range(ids: &OrderIds) {
    let refused = ids.next().await;
    assert!(matches!(refused, Err(OrderIdError::ClockOutOfRange(_))), "{refused:?}");
}

#[tokio::test]
async fn a_clock_before_2022_or_after_the_last_second_is_refused() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    for now in ["2021-12-31T23:59:59.999999Z", "1970-01-01T00:00:00Z", "1960-01-01T00:00:00Z"] {
        world.clock.set(instant(now));
        is_out_of_range(&ids).await;
    }
    assert_eq!(counter(&world, instant("2022-01-01T00:00:00Z")).await, None);
    world.clock.set(instant("2022-01-01T00:00:00Z"));
    assert_eq!(ids.next().await.unwrap().get(), 1);
    let last = DateTime::from_timestamp(OrderId::EPOCH_SECONDS + OrderId::MAX_SECOND, 0).unwrap();
    world.clock.set(last);
    let id = ids.next().await.unwrap();
    assert_eq!((id.second(), id.sequence()), (OrderId::MAX_SECOND, 1));
    for later in [TimeDelta::seconds(1), TimeDelta::days(40_000)] {
        world.clock.set(last + later);
        is_out_of_range(&ids).await;
    }
    world.clock.set(last);
    assert_eq!(ids.next().await.unwrap().sequence(), 2);
    // No second is left to move on to.
    with_counter::<i64>(&world, last, "DEL", None).await;
    is_out_of_range(&ids).await;
}

/// What the counter shows, how many ask at once, and the number that does not fit.
#[tokio::test]
async fn the_last_number_of_a_day_is_used_and_those_who_ask_beyond_it_are_refused_together() {
    const LAST: i64 = OrderId::MAX_SEQUENCE;
    let world = World::new().await;
    for (shown, many, exhausted) in [
        (LAST - 1, 1, None),
        (LAST, 1, Some(LAST + 1)),
        (LAST + 1, 1, Some(LAST + 2)),
        (LAST - 3, 3, None),
        (LAST - 3, 4, Some(LAST + 1)),
        (i64::MAX - 1, 1, Some(i64::MAX)),
        (i64::MAX, 1, Some(i64::MAX)),
        (i64::MAX - 3, 4, Some(i64::MAX)),
    ] {
        with_counter::<()>(&world, midnight(), "SET", Some(shown)).await;
        let ids = world.order_ids(None);
        let answers = join_all((0..many).map(|_| ids.next())).await;
        for (answer, place) in answers.into_iter().zip(1..) {
            match answer {
                Ok(id) => assert_eq!((id.sequence(), exhausted), (shown + place, None)),
                Err(OrderIdError::SequenceExhausted(at)) => assert_eq!(Some(at), exhausted),
                Err(error) => panic!("{shown}: {error:?}"),
            }
        }
    }
    world.clock.advance(TimeDelta::days(1));
    assert_eq!(world.order_ids(None).next().await.unwrap().sequence(), 1);
}

#[tokio::test]
async fn a_counter_that_is_none_is_an_error_and_left_alone() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    let mut twelve = redis::cmd("SET");
    twelve.arg(world.keys.order_counter(midnight().date_naive())).arg("twelve");
    world.redis.query::<()>(&twelve).await.unwrap();
    let refused = ids.next().await;
    assert!(matches!(refused, Err(OrderIdError::Store(StoreError::Defect { .. }))), "{refused:?}");
    with_counter::<()>(&world, midnight(), "SET", Some(-5)).await;
    assert!(ids.next().await.unwrap().sequence() > 0);
}
