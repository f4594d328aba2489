//! Waiting for the lock: who is woken when, and what is left when nobody waits any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use faults::{Fault, Proxy};
use futures_util::FutureExt;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis_link::Redis;
use redisson_lock::{Guard, Lease, LockClient, LockError, LockOptions};
use tokio::task::{JoinHandle, JoinSet, yield_now};

use crate::lock::LONG;
use crate::world::World;
use testkit::wait::{eventually, must};

impl World {
    pub fn channel(&self, name: &str) -> String {
        format!("redisson_lock__channel:{{{name}}}")
    }

    /// How many connections listen for releases of the lock.
    pub async fn listeners(&self, name: &str) -> i64 {
        let answer: (String, i64) = self.ask(&["PUBSUB", "NUMSUB", &self.channel(name)]).await;
        answer.1
    }

    async fn until_listened(&self, name: &str) {
        eventually("somebody listens", async || self.listeners(name).await > 0).await;
    }
}

/// Whoever waits in a task of its own.
fn waiting(locks: &LockClient, name: &str) -> JoinHandle<Result<Guard, LockError>> {
    tokio::spawn(locks.lock(name).acquire())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_sleeps_until_the_holder_leaves_and_then_enters() {
    let world = World::new().await;
    let (name, holder) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    let guard = holder.lock(&name).acquire().await.unwrap();
    let locks = world.lock_client(Lease::Renewed(LONG));
    let waiter = waiting(&locks, &name);
    world.until_listened(&name).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    // The lease of a minute would be no help here.
    let guard = must("the waiter enters", waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
    eventually("nobody listens any more", async || world.listeners(&name).await == 0).await;
}

#[tokio::test]
async fn a_wait_ends_at_its_limit_and_leaves_nothing_behind() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    let guard = locks.lock(&name).acquire().await.unwrap();
    for limit in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(150)] {
        let other = locks.lock(&name).acquire_within(limit).await.unwrap();
        assert!(other.is_none(), "{limit:?}");
    }
    eventually("nobody listens any more", async || world.listeners(&name).await == 0).await;
    guard.release().await.unwrap();
    assert!(!world.exists(&name).await);
}

/// T10. The release falls between the miss and the subscription, where nobody hears it.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_between_the_miss_and_the_subscription_is_not_slept_through() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.redis_url).await.unwrap();
    let holder = world.lock_client(Lease::Renewed(LONG));
    let name = world.lock_name();
    let guard = holder.lock(&name).acquire().await.unwrap();
    let redis = Redis::new(proxy.url()).unwrap();
    redis.ping().await.unwrap();
    let locks = LockClient::new(redis, LockOptions::default());
    // The next connection, the one to listen on, is held up on its way.
    proxy.break_by(Fault::Hold);
    let waiter = waiting(&locks, &name);
    proxy.until_held().await;
    // The miss was before there was anything to listen on. (That it is the confirmation that
    // makes for the second try, and not the clock, is for tests with a clock that stands
    // still: `lock_cancelled_waiting`, `lock_model`.)
    guard.release().await.unwrap();
    proxy.break_by(Fault::None);
    let guard = must("the waiter tries again", waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_waiters_of_several_clients_enter_one_at_a_time() {
    let world = World::new().await;
    let (name, inside, entered) =
        (world.lock_name(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    let clients: Vec<_> = (0..4).map(|_| world.lock_client(Lease::Renewed(LONG))).collect();
    for number in 0..80 {
        let lock = clients[number % clients.len()].lock(&name);
        let (inside, entered) = (Arc::clone(&inside), Arc::clone(&entered));
        tasks.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            yield_now().await;
            assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
            entered.fetch_add(1, Ordering::SeqCst);
            guard.release().await.unwrap();
        });
    }
    must("all have been inside", tasks.join_all()).await;
    assert_eq!(entered.load(Ordering::SeqCst), 80);
    eventually("nobody listens any more", async || world.listeners(&name).await == 0).await;
    for client in clients {
        client.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn waiters_that_give_up_at_any_moment_cost_nobody_else_the_wake_up() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..60 {
        // Of the plain lock, and of the fair one.
        let lock = if round % 2 == 0 { locks.lock(&name) } else { locks.lock(&name).fair() };
        let guard = lock.acquire().await.unwrap();
        let mut tasks = JoinSet::new();
        for number in 0..20 {
            let (lock, polls) = (lock.clone(), random.random_range(1..40));
            tasks.spawn(async move {
                if number == 0 {
                    // The one who stays.
                    return lock.acquire().await.unwrap().release().await.unwrap();
                }
                let mut entering = Box::pin(lock.acquire());
                for _ in 0..polls {
                    if let Some(entered) = (&mut entering).now_or_never() {
                        return entered.unwrap().release().await.unwrap();
                    }
                    yield_now().await;
                }
            });
        }
        guard.release().await.unwrap();
        must("the one who stays has entered", tasks.join_all()).await;
    }
    locks.shutdown().await;
    assert!(world.is_gone(&name).await);
    eventually("nobody listens any more", async || world.listeners(&name).await == 0).await;
}

/// Behind a stranger who waits for the owner, the owner would wait for itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_of_an_owner_that_got_in_by_another_way_follows_at_once() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    // No end and no word of release: nothing but the owner's own entry can help.
    world.ask::<()>(&["HSET", &name, "a-foreign-program:1", "1"]).await;
    let stranger = waiting(&locks, &name);
    world.until_listened(&name).await;
    let owner = locks.owner();
    let lock = locks.lock(&name).owned_by(&owner);
    let waiter = tokio::spawn(lock.acquire());
    yield_now().await;
    world.ask::<()>(&["DEL", &name]).await;
    let guard = lock.try_acquire().await.unwrap().unwrap();
    let second = must("the waiter follows", waiter).await.unwrap().unwrap();
    assert_eq!(lock.holds(&owner).await.unwrap(), 2);
    second.release().await.unwrap();
    guard.release().await.unwrap();
    must("the stranger enters", stranger).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_survive_the_loss_of_every_connection() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.redis_url).await.unwrap();
    let (name, holder) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    let locks = LockClient::new(Redis::new(proxy.url()).unwrap(), LockOptions::default());
    for fault in [Fault::Down, Fault::Deaf] {
        let guard = holder.lock(&name).acquire().await.unwrap();
        let waiter = waiting(&locks, &name);
        world.until_listened(&name).await;
        proxy.break_by(fault);
        // Told to nobody.
        guard.release().await.unwrap();
        proxy.break_by(Fault::None);
        let guard = must("the waiter enters", waiter).await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
    locks.shutdown().await;
    assert!(!world.exists(&name).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_fails_when_redis_stays_away_too_long() {
    let world = World::new().await;
    let proxy = Proxy::start(&world.redis_url).await.unwrap();
    let options = LockOptions::default().outage_patience(Duration::from_millis(300));
    let locks = LockClient::new(Redis::new(proxy.url()).unwrap(), options);
    proxy.break_by(Fault::Down);
    let refused = must("the wait fails", locks.lock("x").acquire()).await;
    assert!(refused.as_ref().is_err_and(LockError::retry_may_help), "{refused:?}");
    let limit = Duration::from_millis(50);
    let refused = must("the wait fails", locks.lock("x").acquire_within(limit)).await;
    assert!(refused.as_ref().is_err_and(LockError::retry_may_help), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_every_wait_and_leaves_no_subscription() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    let guard = world.lock_client(Lease::Renewed(LONG)).lock(&name).acquire().await.unwrap();
    let waiters: Vec<_> = (0..50).map(|_| waiting(&locks, &name)).collect();
    world.until_listened(&name).await;
    locks.shutdown().await;
    for waiter in waiters {
        let ended = must("the wait ends", waiter).await.unwrap();
        assert!(matches!(ended, Err(LockError::ShutDown)), "{ended:?}");
    }
    let refused = locks.lock(&name).try_acquire().await;
    assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
    eventually("nobody listens any more", async || world.listeners(&name).await == 0).await;
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_wait_than_may() {
    let world = World::new().await;
    let name = world.lock_name();
    let locks = world.locks(LockOptions::default().max_waiters(2));
    let guard = locks.lock(&name).acquire().await.unwrap();
    let mut waiters = JoinSet::new();
    for _ in 0..2 {
        let lock = locks.lock(&name);
        waiters.spawn(async move {
            // The third may have been there first.
            let entered = loop {
                match lock.acquire().await {
                    Err(LockError::TooManyWaiters(2)) => yield_now().await,
                    entered => break entered,
                }
            };
            entered.unwrap().release().await.unwrap();
        });
    }
    // Whether the two have lined up yet, only a third can tell.
    eventually("the third is refused", async || {
        let third = locks.lock(&name).acquire_within(Duration::from_millis(5)).await;
        matches!(third, Err(LockError::TooManyWaiters(2)))
    })
    .await;
    guard.release().await.unwrap();
    must("those who wait have been inside", waiters.join_all()).await;
}

/// A shutdown must not overtake an acquire that was cancelled by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_shutdown_in_the_middle_of_many_acquires_leaves_no_lock() {
    let world = World::new().await;
    for round in 0..20 {
        let locks = world.lock_client(Lease::Renewed(LONG));
        let name = format!("{}:{round}", world.lock_name());
        let mut tasks = JoinSet::new();
        for number in 0..40 {
            let lock = locks.lock(format!("{name}:{}", number % 5));
            tasks.spawn(async move {
                while let Ok(guard) = lock.acquire().await {
                    // Not dropped: after the shutdown that would leave it to its lease.
                    guard.release().await.unwrap();
                }
            });
        }
        for _ in 0..round {
            yield_now().await;
        }
        locks.shutdown().await;
        tasks.join_all().await;
        for number in 0..5 {
            assert!(!world.exists(&format!("{name}:{number}")).await, "round {round}");
        }
    }
}

// On one thread: nothing else runs while the acquire is polled.
#[tokio::test]
async fn a_shutdown_waits_for_an_acquire_that_nobody_polls_and_cleans_up_after_it() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    // Connected, and the script known: one poll sends all there is to send.
    locks
        .lock(format!("{name}:another"))
        .try_acquire()
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    let mut entering = Box::pin(locks.lock(&name).try_acquire());
    assert!((&mut entering).now_or_never().is_none());
    eventually("it is granted, and nobody knows", async || world.exists(&name).await).await;
    let shutdown = tokio::spawn({
        let locks = locks.clone();
        async move { locks.shutdown().await }
    });
    eventually("the shutdown has begun", async || {
        matches!(
            locks.lock(format!("{name}:another")).try_acquire().await,
            Err(LockError::ShutDown)
        )
    })
    .await;
    assert!(world.exists(&name).await);
    drop(entering);
    must("the shutdown ends", shutdown).await.unwrap();
    assert!(!world.exists(&name).await);
}
