//! Beside a program that speaks to Redis as Redisson does: raw commands, its scripts.

use std::time::Duration;

use redisson_lock::{Lease, LockError};

use crate::lock::LONG;
use crate::world::World;
use testkit::wait::{eventually, must};

/// Some thread of some Java program.
const FOREIGN: &str = "285475da-9152-4c83-822a-67ee2f116a79:52";

impl World {
    /// What Redisson sends for `tryLock`: nothing when granted, else the milliseconds left.
    async fn foreign_acquire(&self, name: &str, lease_ms: &str) -> Option<i64> {
        const SCRIPT: &str = "\
            if ((redis.call('exists', KEYS[1]) == 0) \
                or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then \
              redis.call('hincrby', KEYS[1], ARGV[2], 1); \
              redis.call('pexpire', KEYS[1], ARGV[1]); \
              return nil; \
            end; \
            return redis.call('pttl', KEYS[1]);";
        self.ask(&["EVAL", SCRIPT, "1", name, lease_ms, FOREIGN]).await
    }

    /// What it sends for `unlock`: nothing when it was not the holder, 1 when it was the
    /// last hold, 0 when not.
    async fn foreign_release(&self, name: &str) -> Option<i64> {
        const SCRIPT: &str = "\
            if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end; \
            local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); \
            if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; \
            else redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1; \
            end;";
        let channel = self.channel(name);
        self.ask(&["EVAL", SCRIPT, "2", name, &channel, "0", "30000", FOREIGN]).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_holder_keeps_us_out_and_its_release_wakes_us() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    assert_eq!(world.foreign_acquire(&name, "60000").await, None);
    assert_eq!(world.foreign_acquire(&name, "60000").await, None);
    let lock = locks.lock(&name);
    assert!(lock.try_acquire().await.unwrap().is_none());
    let state = lock.state().await.unwrap().unwrap();
    assert_eq!((state.owner.as_str(), state.holds), (FOREIGN, 2));
    let waiter = tokio::spawn(lock.acquire());
    eventually("we listen", async || world.listeners(&name).await == 1).await;
    assert_eq!(world.foreign_release(&name).await, Some(0));
    assert_eq!(world.holds(&name, FOREIGN).await.as_deref(), Some("1"));
    assert_eq!(world.foreign_release(&name).await, Some(1));
    // Nothing else would wake us before a minute is over.
    let guard = must("we enter", waiter).await.unwrap().unwrap();
    assert!(world.foreign_acquire(&name, "60000").await.is_some_and(|left| left > 0));
    assert_eq!(world.foreign_release(&name).await, None, "it is not the holder");
    guard.release().await.unwrap();
    assert_eq!(world.foreign_acquire(&name, "60000").await, None);
    assert_eq!(world.foreign_release(&name).await, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn our_release_is_told_on_its_channel_and_a_partial_one_is_not() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    let shard = world.redis.shard_of(&world.channel(&name));
    let (mut sink, mut heard) = world.redis.subscriber(&shard).await.unwrap().split();
    sink.subscribe(&[world.channel(&name)]).await.unwrap();
    let owner = locks.owner();
    let lock = locks.lock(&name).owned_by(&owner);
    let outer = lock.acquire().await.unwrap();
    let inner = lock.acquire().await.unwrap();
    assert_eq!(world.holds(&name, owner.field()).await.as_deref(), Some("2"));
    world.ask::<()>(&["PEXPIRE", &name, "20000"]).await;
    inner.release().await.unwrap();
    assert!(world.pttl(&name).await > 20_000, "a partial release refreshes the lease");
    assert_eq!(world.holds(&name, owner.field()).await.as_deref(), Some("1"));
    let marker: i64 = world.ask(&["PUBLISH", &world.channel(&name), "marker"]).await;
    assert_eq!(marker, 1);
    outer.release().await.unwrap();
    for expected in ["marker", "0"] {
        let message = must("a message", heard.next()).await.unwrap();
        assert_eq!(message.get_payload::<String>().unwrap(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_never_lengthens_a_foreign_lease() {
    let world = World::new().await;
    let lease = Duration::from_millis(900);
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(lease)));
    let guard = locks.lock(&name).acquire().await.unwrap();
    // Somebody deletes it, and a foreign program takes it for a short while.
    world.ask::<()>(&["DEL", &name]).await;
    assert_eq!(world.foreign_acquire(&name, "700").await, None);
    must("the loss is announced", guard.lost()).await;
    assert!(guard.is_lost());
    eventually("the foreign lease ended", async || !world.exists(&name).await).await;
    assert!(matches!(guard.release().await, Err(LockError::NotHeld(_))));
}

#[tokio::test]
async fn what_is_not_a_lock_is_not_touched() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    world.ask::<()>(&["SET", &name, "a string"]).await;
    let lock = locks.lock(&name);
    assert!(matches!(lock.try_acquire().await, Err(LockError::NotALock { .. })));
    assert!(matches!(lock.acquire().await, Err(LockError::NotALock { .. })));
    assert!(matches!(lock.state().await, Err(LockError::NotALock { .. })));
    assert!(matches!(lock.force_release().await, Err(LockError::NotALock { .. })));
    assert_eq!(world.ask::<String>(&["GET", &name]).await, "a string");
}

#[tokio::test(flavor = "multi_thread")]
async fn force_release_frees_the_lock_wakes_the_next_and_tells_the_holder() {
    let world = World::new().await;
    let lease = Lease::Renewed(Duration::from_millis(1500));
    let (name, locks) = (world.lock_name(), world.lock_client(lease));
    let lock = locks.lock(&name);
    assert!(!lock.force_release().await.unwrap());
    let held = lock.acquire().await.unwrap();
    assert!(lock.is_locked().await.unwrap());
    assert_eq!(lock.holds(held.owner()).await.unwrap(), 1);
    assert!(
        lock.remaining().await.unwrap().is_some_and(|left| left <= Duration::from_millis(1500))
    );
    let waiter = tokio::spawn(lock.acquire());
    eventually("the waiter listens", async || world.listeners(&name).await == 1).await;
    assert!(lock.force_release().await.unwrap());
    let next = must("the waiter enters", waiter).await.unwrap().unwrap();
    must("the holder is told", held.lost()).await;
    next.release().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
}

/// Redisson counts its fencing tokens with `INCR` on this key.
#[tokio::test(flavor = "multi_thread")]
async fn fencing_tokens_grow_also_across_programs_and_lost_counters() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    let counter = format!("redisson_lock_token:{{{name}}}");
    let lock = locks.lock(&name).fenced();
    let mut last = 0;
    let mut grows = |token: u64| {
        assert!(token > last, "{token} after {last}");
        last = token;
    };
    for _ in 0..3 {
        let guard = lock.acquire().await.unwrap();
        grows(guard.fence().unwrap());
        // Who enters again is the same holder, with the same token.
        let again = lock.clone().owned_by(guard.owner()).acquire().await.unwrap();
        assert_eq!(again.fence(), guard.fence());
        again.release().await.unwrap();
        guard.release().await.unwrap();
        let foreign: i64 = world.ask(&["INCR", &counter]).await;
        grows(foreign.cast_unsigned());
    }
    assert_eq!(world.pttl(&counter).await, -1, "Redisson's INCR would begin again at 1");
    world.ask::<()>(&["DEL", &counter]).await;
    let guard = lock.acquire().await.unwrap();
    grows(guard.fence().unwrap());
    guard.release().await.unwrap();
    // A counter ahead of every clock still counts, and one with an end (of an older version) loses it.
    let ahead = 8_000_000_000_000_000_u64;
    world.ask::<()>(&["SET", &counter, &ahead.to_string(), "EX", "604800"]).await;
    let guard = lock.acquire().await.unwrap();
    assert_eq!(guard.fence(), Some(ahead + 1));
    assert_eq!(world.pttl(&counter).await, -1);
    guard.release().await.unwrap();
    world.ask::<()>(&["SET", &counter, "not a number"]).await;
    assert!(matches!(lock.acquire().await, Err(LockError::NotALock { .. })));
    assert!(!world.exists(&name).await);
    let unfenced = locks.lock(&name).acquire().await.unwrap();
    assert_eq!(unfenced.fence(), None);
    unfenced.release().await.unwrap();
}
