//! The lock for threads, on a runtime of its own and on a given one.

use std::time::Duration;

use redis_link::Redis;
use redisson_lock::blocking::BlockingClient;
use redisson_lock::{Lease, LockOptions};
use tokio::runtime::Runtime;

use crate::world::World;

/// A world, and what keeps it.
fn world() -> (World, Runtime) {
    let runtime = Runtime::new().unwrap();
    (runtime.block_on(World::new()), runtime)
}

/// One after the other enters, and the one who waits is woken.
fn passes_a_lock_on(locks: &BlockingClient, name: &str) {
    let lock = locks.lock(name).with(|lock| lock.fenced());
    let first = lock.acquire().unwrap();
    assert!(lock.try_acquire().unwrap().is_none());
    assert!(lock.acquire_within(Duration::from_millis(1)).unwrap().is_none());
    let next = lock.clone();
    let waiter = std::thread::spawn(move || {
        let guard = next.acquire().unwrap();
        let token = guard.fence();
        guard.release().unwrap();
        token
    });
    let token = first.fence();
    assert!(token.is_some() && !first.is_lost());
    first.release().unwrap();
    assert!(waiter.join().unwrap() > token);
    assert!(locks.wait(lock.state()).unwrap().is_none());
}

#[test]
fn threads_pass_a_lock_on() {
    let (world, runtime) = world();
    let options = LockOptions::default();
    let redis = || Redis::new(&world.redis_url).unwrap();
    let own = BlockingClient::new(redis(), options).unwrap();
    passes_a_lock_on(&own, &world.name());
    let given = BlockingClient::on(runtime.handle().clone(), redis(), options);
    let prefixed = given.prefixed("shop1:");
    passes_a_lock_on(&prefixed, &world.name());
    assert_eq!(prefixed.lock("invoice").name(), "shop1:invoice");
    [own, given].iter().for_each(BlockingClient::shutdown);
}

#[test]
fn a_lease_is_renewed_while_no_thread_calls_and_a_dropped_guard_is_given_back() {
    let (world, runtime) = world();
    let options = LockOptions::default().lease(Lease::Renewed(Duration::from_secs(6)));
    let locks = BlockingClient::new(Redis::new(&world.redis_url).unwrap(), options).unwrap();
    let guard = locks.lock(world.name()).acquire().unwrap();
    let mut left = guard.validity();
    // It grows when it is renewed, and never else.
    while guard.validity() <= left {
        assert!(!guard.is_lost(), "nobody renewed it");
        left = guard.validity();
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(guard);
    locks.shutdown();
    assert!(!runtime.block_on(world.exists(&world.name())));
}
