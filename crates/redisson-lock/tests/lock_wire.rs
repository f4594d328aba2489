//! Beside a program that speaks to Redis as Redisson does: raw commands, its scripts.

use redisson_lock::LockError;

use crate::world::{World, channel, waiting};
use testkit::wait::must;

/// Some thread of some Java program.
const FOREIGN: &str = "285475da-9152-4c83-822a-67ee2f116a79:52";

impl World {
    /// What Redisson sends for `tryLock`: nothing when granted, else the milliseconds left.
    async fn foreign_acquire(&self, name: &str) -> Option<i64> {
        const SCRIPT: &str = "\
            if ((redis.call('exists', KEYS[1]) == 0) \
                or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then \
              redis.call('hincrby', KEYS[1], ARGV[2], 1); \
              redis.call('pexpire', KEYS[1], ARGV[1]); \
              return nil; \
            end; \
            return redis.call('pttl', KEYS[1]);";
        self.ask(&["EVAL", SCRIPT, "1", name, "60000", FOREIGN]).await
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
        let channel = channel(name);
        self.ask(&["EVAL", SCRIPT, "2", name, &channel, "0", "30000", FOREIGN]).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_holder_keeps_us_out_and_its_release_wakes_us() {
    let (world, name, locks) = World::with_locks().await;
    assert_eq!(world.foreign_acquire(&name).await, None);
    assert_eq!(world.foreign_acquire(&name).await, None);
    let lock = locks.lock(&name);
    assert!(lock.try_acquire().await.unwrap().is_none());
    let state = lock.state().await.unwrap().unwrap();
    assert_eq!((state.owner.as_str(), state.holds), (FOREIGN, 2));
    let waiter = waiting(&lock);
    world.until_listeners(&name, 1).await;
    assert_eq!(world.foreign_release(&name).await, Some(0));
    assert_eq!(world.holds(&name, FOREIGN).await.as_deref(), Some("1"));
    assert_eq!(world.foreign_release(&name).await, Some(1));
    // Nothing else would wake us before a minute is over.
    let guard = must("we enter", waiter).await.unwrap().unwrap();
    assert!(world.foreign_acquire(&name).await.is_some_and(|left| left > 0));
    assert_eq!(world.foreign_release(&name).await, None, "it is not the holder");
    guard.release().await.unwrap();
    assert_eq!(world.foreign_acquire(&name).await, None);
    assert_eq!(world.foreign_release(&name).await, Some(1));
}

/// Redisson counts its fencing tokens with `INCR` on this key.
#[tokio::test(flavor = "multi_thread")]
async fn fencing_tokens_grow_also_across_programs_and_lost_counters() {
    let (world, name, locks) = World::with_locks().await;
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
