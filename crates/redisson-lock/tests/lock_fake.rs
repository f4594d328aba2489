//! The fake for tests of users, beside a real Redis.

use std::time::Duration;

use redis_link::Redis;
use redisson_lock::fake::FakeRedis;
use redisson_lock::{Lease, LockClient, LockError, LockOptions};

use crate::world::World;

const HOUR: Duration = Duration::from_secs(3600);

fn fake_locks() -> (FakeRedis, LockClient) {
    let fake = FakeRedis::default();
    let options = LockOptions::default().lease(Lease::Renewed(HOUR));
    (fake.clone(), LockClient::new(Redis::over(fake), options))
}

/// What a lock tells, step by step.
async fn told(locks: &LockClient, name: &str) -> Vec<String> {
    let mut told = Vec::new();
    let owner = locks.owner();
    let lock = locks.lock(name).lease(Lease::Fixed(HOUR));
    let mine = lock.clone().owned_by(&owner).fenced();
    let outer = mine.acquire().await.unwrap();
    let inner = mine.try_acquire().await.unwrap().expect("an owner enters again");
    told.push(format!("one token: {}", outer.fence() == inner.fence()));
    told.push(format!("other: {:?}", lock.try_acquire().await.map(|guard| guard.is_some())));
    let within = lock.acquire_within(Duration::ZERO).await;
    told.push(format!("other, waiting: {:?}", within.map(|guard| guard.is_some())));
    told.push(format!("holds: {:?}", lock.holds(&owner).await));
    let remaining = lock.remaining().await.unwrap().expect("it has an end");
    told.push(format!("an hour: {}", remaining <= HOUR && remaining > HOUR / 2));
    let token = inner.fence();
    inner.release().await.unwrap();
    told.push(format!("holds: {:?}", lock.holds(&owner).await));
    outer.release().await.unwrap();
    told.push(format!("free: {:?}", lock.state().await));
    let again = mine.acquire().await.unwrap();
    told.push(format!("a larger token: {}", again.fence() > token));
    again.keep_at_least(HOUR).unwrap();
    drop(again.release().await);
    let kept = lock.state().await.unwrap().expect("it is kept");
    told.push(format!("kept: {}, {}", kept.is_kept(), kept.holds));
    told.push(format!("other: {:?}", lock.try_acquire().await.map(|guard| guard.is_some())));
    told
}

#[tokio::test]
async fn the_fake_tells_what_a_real_one_does() {
    let world = World::new().await;
    let (_, fake) = fake_locks();
    let real = world.locks(LockOptions::default());
    assert_eq!(told(&fake, "l").await, told(&real, &world.name()).await);
}

#[tokio::test(start_paused = true)]
async fn leases_of_the_fake_end_by_the_clock_of_the_test_and_waiters_enter() {
    let (_, locks) = fake_locks();
    let short = locks.lock("l").lease(Lease::Fixed(Duration::from_secs(60)));
    let guard = short.acquire().await.unwrap();
    let (next, ()) = tokio::join!(locks.lock("l").acquire(), guard.lost());
    assert!(matches!(guard.release().await, Err(LockError::NotHeld(_))));
    next.unwrap().release().await.unwrap();
    assert!(!locks.lock("l").is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_fake_that_is_down_has_done_nothing_and_what_it_does_not_know_is_an_error() {
    let (fake, locks) = fake_locks();
    fake.set_down(true);
    let error = locks.lock("l").try_acquire().await.unwrap_err();
    assert!(error.retry_may_help() && !error.outcome_unknown(), "{error}");
    fake.set_down(false);
    let fair = locks.lock("l").fair().try_acquire().await.unwrap_err();
    assert!(fair.to_string().contains("plain locks alone"), "{fair}");
    assert!(locks.lock("l").try_acquire().await.unwrap().is_some());
}
