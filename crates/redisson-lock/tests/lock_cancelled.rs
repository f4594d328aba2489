//! Futures of the lock dropped at every point: nothing is left behind, and nothing that
//! somebody still holds is given back.

use std::sync::Arc;
use std::task::Poll;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis_link::Redis;
use redisson_lock::{Lease, LockClient, LockOptions};
use tokio::task::{JoinSet, yield_now};

use crate::lock::LONG;
use crate::world::World;

/// Polls `future` up to `polls` times, and drops it. Whether it came to its end.
pub async fn poll_and_drop<T>(polls: usize, future: impl Future<Output = T>) -> bool {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        if let Poll::Ready(answer) = futures_util::poll!(&mut future) {
            drop(answer);
            return true;
        }
        yield_now().await;
    }
    false
}

#[tokio::test]
async fn an_acquire_dropped_at_any_await_point_leaves_no_lock() {
    let world = World::new().await;
    for connected in [true, false] {
        for polls in 0..60 {
            // A handle of its own, for the await points of connecting.
            let redis = Redis::new(&world.redis_url).unwrap();
            if connected {
                redis.ping().await.unwrap();
            }
            let locks = LockClient::new(redis, LockOptions::default().lease(Lease::Renewed(LONG)));
            let name = format!("{}:{connected}:{polls}", world.lock_name());
            let ended = poll_and_drop(polls, locks.lock(&name).try_acquire()).await;
            locks.shutdown().await;
            assert!(!world.exists(&name).await, "after {polls} polls, ended: {ended}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hundreds_of_acquires_dropped_at_random_leave_no_lock() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let world = Arc::new(World::new().await);
    let locks = world.lock_client(Lease::Renewed(LONG));
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let (world, locks) = (Arc::clone(&world), locks.clone());
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(task));
        tasks.spawn(async move {
            for _ in 0..100 {
                // Ten names for all: some acquires find the lock held.
                let name = format!("{}:{}", world.lock_name(), random.random_range(0..10));
                poll_and_drop(random.random_range(0..12), locks.lock(&name).try_acquire()).await;
            }
        });
    }
    tasks.join_all().await;
    locks.shutdown().await;
    for number in 0..10 {
        let name = format!("{}:{number}", world.lock_name());
        let fields: Vec<(String, String)> = world.ask(&["HGETALL", &name]).await;
        assert!(fields.is_empty(), "{fields:?}");
    }
}

#[tokio::test]
async fn a_release_dropped_at_any_await_point_is_done_all_the_same() {
    let world = World::new().await;
    for polls in 0..20 {
        let locks = world.lock_client(Lease::Renewed(LONG));
        let name = format!("{}:{polls}", world.lock_name());
        let owner = locks.owner();
        let outer = locks.lock(&name).owned_by(&owner).try_acquire().await.unwrap().unwrap();
        let inner = locks.lock(&name).owned_by(&owner).try_acquire().await.unwrap().unwrap();
        poll_and_drop(polls, inner.release()).await;
        locks.shutdown().await;
        // One hold was given back: neither none nor both.
        assert_eq!(world.holds(&name, owner.field()).await.as_deref(), Some("1"), "{polls}");
        outer.release().await.unwrap();
        assert!(!world.exists(&name).await);
    }
}

/// An acquire that never reached Redis must not be cleaned up after with the hold that the
/// same owner has from before.
#[tokio::test]
async fn a_second_acquire_dropped_at_any_await_point_leaves_the_first_hold_alone() {
    let world = World::new().await;
    for connected in [true, false] {
        for polls in 0..60 {
            let first = world.lock_client(Lease::Renewed(LONG));
            let name = format!("{}:{connected}:{polls}", world.lock_name());
            let owner = first.owner();
            let outer = first.lock(&name).owned_by(&owner).try_acquire().await.unwrap().unwrap();
            let redis = Redis::new(&world.redis_url).unwrap();
            if connected {
                redis.ping().await.unwrap();
            }
            let second = LockClient::new(redis, LockOptions::default().lease(Lease::Renewed(LONG)));
            poll_and_drop(polls, second.lock(&name).owned_by(&owner).try_acquire()).await;
            second.shutdown().await;
            let holds = world.holds(&name, owner.field()).await;
            assert_eq!(holds.as_deref(), Some("1"), "after {polls} polls, connected: {connected}");
            outer.release().await.unwrap();
            assert!(!world.exists(&name).await);
        }
    }
}
