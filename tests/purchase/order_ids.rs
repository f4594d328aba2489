//! The order-id worker: unique under concurrency and across workers, and increasing in each, whatever
//! the clock and Redis do; and never a wrong id.

#[allow(unused_imports)]
use crate::worlds::*;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use futures_util::future::join_all;
use redis_link::Redis;
use seckill::model::{Clock, OrderId};
use seckill::store::{OrderIdError, OrderIds, StoreError};
use tokio::task::JoinSet;

use testkit::shop::world::{World, midnight};

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn second_of(instant: DateTime<Utc>) -> i64 {
    instant.timestamp() - OrderId::EPOCH_SECONDS
}

fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

#[easy_ext::ext(OrderIdsWorld)]
pub impl World {
    async fn counter(&self, day: NaiveDate) -> Option<i64> {
        let key = self.keys.order_counter(day);
        self.redis.query(redis::cmd("GET").arg(key)).await.unwrap()
    }

    async fn set_counter(&self, day: NaiveDate, value: &str) {
        let key = self.keys.order_counter(day);
        self.redis.query::<()>(redis::cmd("SET").arg(key).arg(value)).await.unwrap();
    }

    async fn lose_counter(&self) {
        let key = self.keys.order_counter(self.clock.now().date_naive());
        self.redis.query::<()>(redis::cmd("DEL").arg(key)).await.unwrap();
    }
}

#[tokio::test]
async fn an_id_is_the_seconds_since_2022_and_the_number_of_the_day() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    for number in 1..=3 {
        let id = ids.next().await.unwrap();
        assert_eq!((id.second(), id.sequence()), (second_of(midnight()), number));
        assert_eq!(id.instant(), midnight());
    }
    let key = world.keys.order_counter(day("2026-11-11"));
    assert!(key.ends_with(":icr:order:2026:11:11"), "{key}");
    assert_eq!(world.counter(day("2026-11-11")).await, Some(3));
}

#[tokio::test]
async fn the_day_changes_between_two_microseconds_in_utc() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    world.clock.set(instant("2026-11-11T23:59:59.999999Z"));
    let before = ids.next().await.unwrap();
    world.clock.advance(TimeDelta::microseconds(1));
    let after = ids.next().await.unwrap();
    assert_eq!(before.instant(), instant("2026-11-11T23:59:59Z"));
    assert_eq!(after.instant(), instant("2026-11-12T00:00:00Z"));
    assert_eq!((before.sequence(), after.sequence()), (1, 1));
    assert_eq!(world.counter(day("2026-11-11")).await, Some(1));
    assert_eq!(world.counter(day("2026-11-12")).await, Some(1));
}

/// Shows another instant each time it is looked at.
#[derive(Debug)]
struct RunningClock {
    micros: AtomicI64,
    step: i64,
}

impl Clock for RunningClock {
    fn now(&self) -> DateTime<Utc> {
        let micros = self.micros.fetch_add(self.step, Ordering::SeqCst);
        DateTime::from_timestamp_micros(micros).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn seconds_and_day_come_from_one_instant_also_while_midnight_passes() {
    let world = World::new().await;
    let start = instant("2026-11-11T23:59:58Z");
    let clock = RunningClock { micros: start.timestamp_micros().into(), step: 39_892 };
    let ids = OrderIds::new(world.redis.clone(), world.keys.clone(), Arc::new(clock), None);
    let mut made = Vec::new();
    for _ in 0..100 {
        made.extend(next_many(&ids, 4).await);
    }
    let of = |text| made.iter().filter(|id| id.instant().date_naive() == day(text)).count() as i64;
    let (eleventh, twelfth) = (of("2026-11-11"), of("2026-11-12"));
    assert_eq!(eleventh + twelfth, 400);
    assert!(eleventh > 0 && twelfth > 0, "{eleventh} {twelfth}");
    // The new day begins at 1: no number of it was drawn from the old day's counter.
    let mut numbers: Vec<i64> = made
        .iter()
        .filter(|id| id.instant().date_naive() == day("2026-11-12"))
        .map(|id| id.sequence())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=twelfth).collect::<Vec<_>>());
    assert_eq!(world.counter(day("2026-11-12")).await, Some(twelfth));
}

/// Draws `many` ids at once, `times` times, each greater than every id that was returned before it
/// was asked for.
async fn draw(ids: &OrderIds, times: usize, many: usize, returned: &AtomicI64) -> Vec<i64> {
    let mut drawn = Vec::new();
    for _ in 0..times {
        let before = returned.load(Ordering::SeqCst);
        for id in next_many(ids, many).await.into_iter().map(OrderId::get) {
            assert!(id > before, "{id} was asked for after {before} was returned");
            returned.fetch_max(id, Ordering::SeqCst);
            drawn.push(id);
        }
    }
    assert!(drawn.is_sorted());
    drawn
}

async fn unique(tasks: JoinSet<Vec<i64>>, expected: usize) {
    let drawn: Vec<i64> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(drawn.len(), expected);
    assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), expected, "an id came twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_tasks_draw_ten_thousand_ids_none_twice_and_always_upwards() {
    let world = World::new().await;
    let ids = Arc::new(world.order_ids(None));
    let returned = Arc::new(AtomicI64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let (ids, returned) = (Arc::clone(&ids), Arc::clone(&returned));
        tasks.spawn(async move { draw(&ids, 200, 1, &returned).await });
    }
    unique(tasks, 10_000).await;
    assert_eq!(world.counter(day("2026-11-11")).await, Some(10_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_on_one_counter_never_make_the_same_id() {
    let world = World::new().await;
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let redis = Redis::new(&world.redis_url).unwrap();
        let ids = Arc::new(OrderIds::new(redis, world.keys.clone(), world.clock.clone(), None));
        let returned = Arc::new(AtomicI64::new(0));
        for many in [1, 1, 1, 2, 2, 3, 3, 7] {
            let (ids, returned) = (Arc::clone(&ids), Arc::clone(&returned));
            tasks.spawn(async move { draw(&ids, 40, many, &returned).await });
        }
    }
    unique(tasks, 8 * 40 * 20).await;
}

#[tokio::test]
async fn a_clock_that_goes_back_is_not_followed() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    let mut last = ids.next().await.unwrap();
    let backwards = [
        midnight() - TimeDelta::microseconds(1), // yesterday
        midnight() - TimeDelta::seconds(1),
        midnight() - TimeDelta::days(1),
        instant("2021-12-31T23:59:59Z"),
        DateTime::UNIX_EPOCH - TimeDelta::days(1),
        midnight(),
    ];
    for now in backwards {
        world.clock.set(now);
        let id = ids.next().await.unwrap();
        assert!(id > last, "{now}");
        assert_eq!(id.second(), last.second(), "{now}");
        last = id;
    }
    world.clock.set(midnight() + TimeDelta::seconds(2));
    assert_eq!(ids.next().await.unwrap().second(), last.second() + 2);
}

#[tokio::test]
async fn a_worker_continues_after_the_last_id_of_the_database() {
    let world = World::new().await;
    let ahead = second_of(midnight()) + 7;
    let ids = world.order_ids(OrderId::from_parts(ahead, 41));
    let id = ids.next().await.unwrap();
    // Redis knows nothing of those 41: the counter is raised, and the second left behind.
    assert_eq!((id.second(), id.sequence()), (ahead + 1, 42));
    assert_eq!(world.counter(day("2026-11-11")).await, Some(42));
    // Where Redis does know, the numbers go on in the same second.
    let ids = world.order_ids(Some(id));
    let id = ids.next().await.unwrap();
    assert_eq!((id.second(), id.sequence()), (ahead + 1, 43));
    // Yesterday's last number says nothing of today's.
    let ids = world.order_ids(OrderId::from_parts(second_of(midnight()) - 1, 1_000));
    assert_eq!(ids.next().await.unwrap().sequence(), 44);
}

#[tokio::test]
async fn a_clock_before_2022_is_refused() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    for now in ["2021-12-31T23:59:59.999999Z", "1970-01-01T00:00:00Z", "1960-01-01T00:00:00Z"] {
        world.clock.set(instant(now));
        let refused = ids.next().await;
        assert!(matches!(refused, Err(OrderIdError::ClockOutOfRange(_))), "{now}: {refused:?}");
    }
    assert_eq!(world.counter(day("2022-01-01")).await, None);
    world.clock.set(instant("2022-01-01T00:00:00Z"));
    assert_eq!(ids.next().await.unwrap().get(), 1);
}

#[tokio::test]
async fn the_last_second_is_used_and_the_one_after_it_refused() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    let last = DateTime::from_timestamp(OrderId::EPOCH_SECONDS + OrderId::MAX_SECOND, 0).unwrap();
    world.clock.set(last);
    let id = ids.next().await.unwrap();
    assert_eq!((id.second(), id.sequence()), (OrderId::MAX_SECOND, 1));
    for later in [TimeDelta::seconds(1), TimeDelta::days(40_000)] {
        world.clock.set(last + later);
        let refused = ids.next().await;
        assert!(matches!(refused, Err(OrderIdError::ClockOutOfRange(_))), "{refused:?}");
    }
    world.clock.set(last);
    assert_eq!(ids.next().await.unwrap().sequence(), 2);
    // No second is left to move on to.
    world.lose_counter().await;
    let refused = ids.next().await;
    assert!(matches!(refused, Err(OrderIdError::ClockOutOfRange(_))), "{refused:?}");
}

#[tokio::test]
async fn the_last_number_of_a_day_is_used_and_the_one_after_it_refused() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    let today = day("2026-11-11");
    world.set_counter(today, &(OrderId::MAX_SEQUENCE - 1).to_string()).await;
    let id = ids.next().await.unwrap();
    assert_eq!((id.second(), id.sequence()), (second_of(midnight()), OrderId::MAX_SEQUENCE));
    for _ in 0..2 {
        world.clock.advance(TimeDelta::seconds(1));
        let refused = ids.next().await;
        assert!(matches!(refused, Err(OrderIdError::SequenceExhausted(_))), "{refused:?}");
    }
    world.set_counter(today, &(i64::MAX - 1).to_string()).await;
    for _ in 0..2 {
        let refused = ids.next().await;
        assert!(matches!(refused, Err(OrderIdError::SequenceExhausted(i64::MAX))), "{refused:?}");
    }
    world.clock.advance(TimeDelta::days(1));
    assert_eq!(ids.next().await.unwrap().sequence(), 1);
}

#[tokio::test]
async fn a_counter_that_is_none_is_an_error_and_left_alone() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    world.set_counter(day("2026-11-11"), "twelve").await;
    let refused = ids.next().await;
    assert!(matches!(refused, Err(OrderIdError::Store(StoreError::Defect { .. }))), "{refused:?}");
    world.set_counter(day("2026-11-11"), "-5").await;
    assert!(ids.next().await.unwrap().sequence() > 0);
}

/// So many ids, asked for at once.
pub async fn next_many(ids: &OrderIds, count: usize) -> Vec<OrderId> {
    let drawn = join_all((0..count).map(|_| ids.next())).await;
    drawn.into_iter().map(Result::unwrap).collect()
}

/// On a runtime of one thread all are asked for before the first call to Redis. This clock is a second
/// later at each call: ids of one second are from one call.
#[tokio::test]
async fn ids_that_are_asked_for_together_are_in_a_row_by_one_call() {
    let world = World::new().await;
    let clock = RunningClock { micros: midnight().timestamp_micros().into(), step: 1_000_000 };
    let ids = OrderIds::new(world.redis.clone(), world.keys.clone(), Arc::new(clock), None);
    let first = ids.next().await.unwrap();
    let many = next_many(&ids, 500).await;
    let numbers: Vec<_> = many.iter().map(|id| (id.second(), id.sequence())).collect();
    let second = second_of(midnight()) + 1;
    assert_eq!(numbers, (2..=501).map(|number| (second, number)).collect::<Vec<_>>());
    assert_eq!((first.second(), first.sequence()), (second - 1, 1));
    assert_eq!(world.counter(day("2026-11-11")).await, Some(501));
}

#[tokio::test]
async fn ids_of_which_the_last_would_overflow_are_refused_together() {
    let world = World::new().await;
    let ids = world.order_ids(None);
    let today = day("2026-11-11");
    world.set_counter(today, &(OrderId::MAX_SEQUENCE - 3).to_string()).await;
    for refused in join_all((0..4).map(|_| ids.next())).await {
        assert!(matches!(refused, Err(OrderIdError::SequenceExhausted(_))), "{refused:?}");
    }
    world.set_counter(today, &(OrderId::MAX_SEQUENCE - 3).to_string()).await;
    let last = *next_many(&world.order_ids(None), 3).await.last().unwrap();
    assert_eq!(last.sequence(), OrderId::MAX_SEQUENCE);
    world.set_counter(today, &(i64::MAX - 3).to_string()).await;
    for refused in join_all((0..4).map(|_| ids.next())).await {
        assert!(matches!(refused, Err(OrderIdError::SequenceExhausted(i64::MAX))), "{refused:?}");
    }
}
