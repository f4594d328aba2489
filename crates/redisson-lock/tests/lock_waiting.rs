//! Waiting for the lock: who is woken when, and what is left when nobody waits any more.

use std::time::Duration;

use faults::{Fault, Proxy};
use futures_util::FutureExt;
use redis_link::Redis;
use redisson_lock::{LockClient, LockError, LockOptions};
use tokio::task::{JoinSet, yield_now};

use crate::world::{World, passes, taken, waiting};
use testkit::wait::{eventually, must};

/// T10. The release falls between the miss and the subscription, where nobody hears it.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_between_the_miss_and_the_subscription_is_not_slept_through() {
    let (world, name, holder) = World::with_locks().await;
    let proxy = Proxy::start(&world.redis_url).await.unwrap();
    let guard = holder.lock(&name).acquire().await.unwrap();
    let redis = Redis::new(proxy.url()).unwrap();
    redis.ping().await.unwrap();
    let locks = LockClient::new(redis, LockOptions::default());
    // The next connection, the one to listen on, is held up on its way.
    proxy.break_by(Fault::Hold);
    let waiter = waiting(&locks.lock(&name));
    proxy.until_held().await;
    // The miss was before there was anything to listen on. (That it is the confirmation that
    // makes for the second try, and not the clock, is for tests with a clock that stands
    // still: `lock_cancelled`, `lock_model`.)
    guard.release().await.unwrap();
    proxy.break_by(Fault::None);
    let guard = must("the waiter tries again", waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// Behind a stranger who waits for the owner, the owner would wait for itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_of_an_owner_that_got_in_by_another_way_follows_at_once() {
    let (world, name, locks) = World::with_locks().await;
    // No end and no word of release: nothing but the owner's own entry can help.
    world.ask::<()>(&["HSET", &name, "a-foreign-program:1", "1"]).await;
    let stranger = waiting(&locks.lock(&name));
    world.until_listeners(&name, 1).await;
    let owner = locks.owner();
    let lock = locks.lock(&name).owned_by(&owner);
    let waiter = tokio::spawn(lock.acquire());
    yield_now().await;
    // The owner has it from one moment to the next: if the key were away in between, the
    // stranger, who may still be trying, could enter.
    let give = "redis.call('del', KEYS[1]) redis.call('hset', KEYS[1], ARGV[1], 1)";
    world.ask::<()>(&["EVAL", give, "1", &name, owner.field()]).await;
    let guard = lock.try_acquire().await.unwrap().unwrap();
    world.ask::<()>(&["HINCRBY", &name, owner.field(), "-1"]).await;
    let second = must("the waiter follows", waiter).await.unwrap().unwrap();
    assert_eq!(lock.holds(&owner).await.unwrap(), 2);
    second.release().await.unwrap();
    guard.release().await.unwrap();
    must("the stranger enters", stranger).await.unwrap().unwrap().release().await.unwrap();
}

/// The release is told to nobody, or to the connection that was made anew.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_survive_the_loss_of_every_connection() {
    let (world, name, holder) = World::with_locks().await;
    let (proxy, locks) = world.behind_proxy(LockOptions::default()).await;
    for (fault, mended) in [(Fault::Down, false), (Fault::Down, true), (Fault::Deaf, false)] {
        let guard = holder.lock(&name).acquire().await.unwrap();
        let waiter = waiting(&locks.lock(&name));
        world.until_listeners(&name, 1).await;
        proxy.break_by(fault);
        if mended {
            world.until_listeners(&name, 0).await;
            proxy.break_by(Fault::None);
            world.until_listeners(&name, 1).await;
        }
        guard.release().await.unwrap();
        proxy.break_by(Fault::None);
        let guard = must("the waiter enters", waiter).await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
    locks.shutdown().await;
    assert!(!world.exists(&name).await);
}

/// Connecting takes less time than a caller waits, and more.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_woken_also_by_a_server_that_is_slow_to_connect_to() {
    let (world, name, holder) = World::with_locks().await;
    for slow_ms in [300, 600, 1500] {
        let (proxy, locks) = world.behind_proxy(LockOptions::default()).await;
        proxy.slow_down(Duration::from_millis(slow_ms));
        let held = taken(&holder.lock(&name)).await;
        let waiter = waiting(&locks.lock(&name));
        world.until_listeners(&name, 1).await;
        held.release().await.unwrap();
        must("the waiter enters", waiter).await.unwrap().unwrap().release().await.unwrap();
        world.until_listeners(&name, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_every_wait_and_leaves_no_subscription() {
    let (world, name, locks) = World::with_locks().await;
    let guard = world.client().lock(&name).acquire().await.unwrap();
    let waiters: Vec<_> = (0..50).map(|_| waiting(&locks.lock(&name))).collect();
    world.until_listeners(&name, 1).await;
    tokio::join!(locks.shutdown(), locks.shutdown());
    for waiter in waiters {
        let ended = must("the wait ends", waiter).await.unwrap();
        assert!(matches!(ended, Err(LockError::ShutDown)), "{ended:?}");
    }
    let refused = locks.lock(&name).try_acquire().await;
    assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
    locks.shutdown().await;
    world.until_listeners(&name, 0).await;
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_wait_than_may() {
    let world = World::new().await;
    let name = world.name();
    let locks = world.locks(LockOptions::default().max_waiters(2));
    let guard = locks.lock(&name).acquire().await.unwrap();
    let mut waiters = JoinSet::new();
    for _ in 0..3 {
        waiters.spawn(locks.lock(&name).acquire());
    }
    let refused = must("one is refused", waiters.join_next()).await.unwrap().unwrap();
    assert!(matches!(refused, Err(LockError::TooManyWaiters(2))), "{refused:?}");
    guard.release().await.unwrap();
    while let Some(entered) = must("the others enter", waiters.join_next()).await {
        entered.unwrap().unwrap().release().await.unwrap();
    }
}

/// A shutdown must not overtake an acquire that was cancelled by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_shutdown_in_the_middle_of_many_acquires_leaves_no_lock() {
    let world = World::new().await;
    for round in 0..20 {
        let locks = world.client();
        let name = format!("{}:{round}", world.name());
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
    let (world, name, locks) = World::with_locks().await;
    // Connected, and the script known: one poll sends all there is to send.
    let another = locks.lock(format!("{name}:another"));
    passes(&another).await;
    let mut entering = Box::pin(locks.lock(&name).try_acquire());
    assert!((&mut entering).now_or_never().is_none());
    eventually("it is granted, and nobody knows", async || world.exists(&name).await).await;
    let ending = locks.clone();
    let shutdown = tokio::spawn(async move { ending.shutdown().await });
    eventually("the shutdown has begun", async || {
        matches!(another.try_acquire().await, Err(LockError::ShutDown))
    })
    .await;
    assert!(world.exists(&name).await);
    drop(entering);
    must("the shutdown ends", shutdown).await.unwrap();
    assert!(!world.exists(&name).await);
}
