//! The lock: who may enter, who may leave, and what stands in Redis meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use redisson_lock::{Lease, LockClient, LockError, LockOptions};
use tokio::task::JoinSet;

use crate::world::World;
use testkit::wait::{eventually, must};

pub const LONG: Duration = Duration::from_secs(60);

impl World {
    pub fn lock_name(&self) -> String {
        self.name()
    }

    pub fn lock_client(&self, lease: Lease) -> LockClient {
        self.locks(LockOptions::default().lease(lease))
    }

    pub async fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        self.redis.query(&command).await.unwrap()
    }

    pub async fn exists(&self, key: &str) -> bool {
        self.ask::<i64>(&["EXISTS", key]).await == 1
    }

    pub async fn holds(&self, lock: &str, owner: &str) -> Option<String> {
        self.ask(&["HGET", lock, owner]).await
    }

    pub async fn pttl(&self, key: &str) -> i64 {
        self.ask(&["PTTL", key]).await
    }
}

#[tokio::test]
async fn a_lock_stands_in_redis_as_redissons_does() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    let guard = locks.lock(&name).try_acquire().await.unwrap().unwrap();
    assert_eq!(world.ask::<String>(&["TYPE", &name]).await, "hash");
    let fields: Vec<(String, String)> = world.ask(&["HGETALL", &name]).await;
    let [(field, holds)] = fields.as_slice() else { panic!("{fields:?}") };
    assert_eq!((field.as_str(), holds.as_str()), (guard.owner().field(), "1"));
    let (client, number) = field.split_once(':').unwrap();
    assert_eq!(client.parse::<uuid::Uuid>().unwrap().hyphenated().to_string(), client);
    assert!(number.parse::<u64>().is_ok(), "{field}");
    let left = world.pttl(&name).await;
    assert!((1..=60_000).contains(&left), "{left}");
    guard.release().await.unwrap();
    assert!(!world.exists(&name).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_most_one_of_many_is_inside() {
    let world = Arc::new(World::new().await);
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let locks = world.lock_client(Lease::Renewed(LONG));
        for _ in 0..8 {
            let (locks, name, inside) = (locks.clone(), world.lock_name(), Arc::clone(&inside));
            tasks.spawn(async move {
                let mut entered = 0;
                while entered < 5 {
                    let Some(guard) = locks.lock(&name).try_acquire().await.unwrap() else {
                        tokio::task::yield_now().await;
                        continue;
                    };
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                    guard.release().await.unwrap();
                    entered += 1;
                }
            });
        }
    }
    must("everybody was inside five times", tasks.join_all()).await;
    assert!(!world.exists(&world.lock_name()).await);
}

#[tokio::test]
async fn only_who_has_the_owner_enters_again() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    let outer = locks.lock(&name).try_acquire().await.unwrap().unwrap();
    let owner = outer.owner().clone();
    // The same task, the same client: neither is an owner.
    assert!(locks.lock(&name).try_acquire().await.unwrap().is_none());
    assert!(locks.lock(&name).owned_by(&locks.owner()).try_acquire().await.unwrap().is_none());
    let others = world.lock_client(Lease::Renewed(LONG));
    assert!(others.lock(&name).try_acquire().await.unwrap().is_none());
    // Another task with the owner may.
    let (again, same, there) = (locks.clone(), owner.clone(), name.clone());
    let entering =
        async move { again.lock(&there).owned_by(&same).try_acquire().await.unwrap().unwrap() };
    tokio::spawn(entering).await.unwrap().release().await.unwrap();
    let inner = locks.lock(&name).owned_by(&owner).try_acquire().await.unwrap().unwrap();
    assert_eq!(inner.owner(), &owner);
    assert_eq!(world.holds(&name, owner.field()).await.as_deref(), Some("2"));
    outer.release().await.unwrap();
    assert_eq!(world.holds(&name, owner.field()).await.as_deref(), Some("1"));
    assert!(locks.lock(&name).try_acquire().await.unwrap().is_none());
    inner.release().await.unwrap();
    assert!(!world.exists(&name).await);
}

#[tokio::test]
async fn a_partial_release_keeps_the_lock_and_refreshes_its_lease() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    let owner = locks.owner();
    let _outer = locks.lock(&name).owned_by(&owner).try_acquire().await.unwrap().unwrap();
    let inner = locks.lock(&name).owned_by(&owner).try_acquire().await.unwrap().unwrap();
    world.ask::<()>(&["PEXPIRE", &name, "20000"]).await;
    inner.release().await.unwrap();
    assert!(world.pttl(&name).await > 20_000);
    assert_eq!(world.holds(&name, owner.field()).await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_short_lease_within_a_long_one_never_shortens_it() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    let owner = locks.owner();
    let outer = locks.lock(&name).owned_by(&owner).try_acquire().await.unwrap().unwrap();
    let short = Lease::Renewed(Duration::from_millis(900));
    let inner = locks
        .lock(&name)
        .owned_by(&owner.clone())
        .lease(short)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    assert!(world.pttl(&name).await > 20_000, "by entering");
    inner.release().await.unwrap();
    assert!(world.pttl(&name).await > 20_000, "by leaving");
    let fixed = Lease::Fixed(Duration::from_millis(200));
    let inner = locks
        .lock(&name)
        .owned_by(&owner.clone())
        .lease(fixed)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    must("the inner lease ends", inner.lost()).await;
    assert_eq!(world.holds(&name, owner.field()).await.as_deref(), Some("2"));
    inner.release().await.unwrap();
    outer.release().await.unwrap();
    assert!(!world.exists(&name).await);
}

#[tokio::test]
async fn what_is_not_held_cannot_be_released_and_nobody_elses_lock_is_touched() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    let guard = locks.lock(&name).try_acquire().await.unwrap().unwrap();
    world.ask::<()>(&["DEL", &name]).await;
    assert!(matches!(guard.release().await, Err(LockError::NotHeld(_))));

    let guard = locks.lock(&name).try_acquire().await.unwrap().unwrap();
    world.ask::<()>(&["DEL", &name]).await;
    world.ask::<()>(&["HSET", &name, "somebody:1", "3"]).await;
    world.ask::<()>(&["PEXPIRE", &name, "1000000"]).await;
    assert!(matches!(guard.release().await, Err(LockError::NotHeld(_))));
    let guard = locks.lock(&name).try_acquire().await.unwrap();
    assert!(guard.is_none());
    locks.shutdown().await;
    let fields: Vec<(String, String)> = world.ask(&["HGETALL", &name]).await;
    assert_eq!(fields, [("somebody:1".to_owned(), "3".to_owned())]);
    assert!(world.pttl(&name).await > 900_000);
}

#[tokio::test]
async fn the_last_release_and_no_other_wakes_the_waiters() {
    let world = World::new().await;
    let locks = world.lock_client(Lease::Renewed(LONG));
    let plain = world.lock_name();
    let braced = format!("{{{plain}}}:x");
    let channels =
        [format!("redisson_lock__channel:{{{plain}}}"), format!("redisson_lock__channel:{braced}")];
    for (name, channel) in [&plain, &braced].into_iter().zip(channels) {
        let client = redis::Client::open(world.redis_url.as_str()).unwrap();
        let mut subscription = client.get_async_pubsub().await.unwrap();
        subscription.subscribe(&channel).await.unwrap();
        let owner = locks.owner();
        let outer = locks.lock(name).owned_by(&owner).try_acquire().await.unwrap().unwrap();
        let inner = locks.lock(name).owned_by(&owner).try_acquire().await.unwrap().unwrap();
        inner.release().await.unwrap();
        world.ask::<()>(&["PUBLISH", &channel, "between the two"]).await;
        outer.release().await.unwrap();
        let mut messages = subscription.into_on_message();
        for expected in ["between the two", "0"] {
            let message = must("a message came", messages.next()).await.unwrap();
            assert_eq!(message.get_payload::<String>().unwrap(), expected);
        }
    }
}

#[tokio::test]
async fn a_key_that_is_no_lock_is_reported_and_left_alone() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    world.ask::<()>(&["SET", &name, "precious"]).await;
    let refused = locks.lock(&name).try_acquire().await;
    assert!(
        matches!(&refused, Err(LockError::NotALock { name: key, .. }) if *key == name),
        "{refused:?}"
    );
    world.ask::<()>(&["DEL", &name]).await;
    let guard = locks.lock(&name).try_acquire().await.unwrap().unwrap();
    world.ask::<()>(&["SET", &name, "precious"]).await;
    assert!(matches!(guard.release().await, Err(LockError::NotALock { .. })));
    locks.shutdown().await;
    assert_eq!(world.ask::<String>(&["GET", &name]).await, "precious");
    assert_eq!(world.pttl(&name).await, -1);
}

#[tokio::test]
async fn names_and_leases_have_bounds() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    for bad in ["", &"x".repeat(513)] {
        assert!(matches!(locks.lock(bad).try_acquire().await, Err(LockError::InvalidName(_))));
    }
    let day = Duration::from_secs(24 * 60 * 60);
    for bad in [Duration::ZERO, Duration::from_micros(999), day + Duration::from_nanos(1)] {
        for lease in [Lease::Fixed(bad), Lease::Renewed(bad)] {
            let refused =
                locks.lock(&name).owned_by(&locks.owner()).lease(lease).try_acquire().await;
            assert!(matches!(refused, Err(LockError::InvalidLease)), "{lease:?}");
        }
    }
    assert!(!world.exists(&name).await);
    let lease = Lease::Renewed(day);
    let guard = locks
        .lock(&name)
        .owned_by(&locks.owner())
        .lease(lease)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    assert!(world.pttl(&name).await > 80_000_000);
    guard.release().await.unwrap();
    let long = format!("{name}{}", "x".repeat(512 - name.len()));
    locks.lock(&long).try_acquire().await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_dropped_guard_and_a_panic_release() {
    let world = World::new().await;
    let (name, locks) = (world.lock_name(), world.lock_client(Lease::Renewed(LONG)));
    drop(locks.lock(&name).try_acquire().await.unwrap().unwrap());
    eventually("the dropped lock is free", async || !world.exists(&name).await).await;

    let guard = locks.lock(&name).try_acquire().await.unwrap().unwrap();
    let panicking = tokio::spawn(async move {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("as a defect would"));
    });
    assert!(panicking.await.unwrap_err().is_panic());
    eventually("the lock of the panic is free", async || !world.exists(&name).await).await;

    // A dropped inner guard gives back one hold, not all.
    let owner = locks.owner();
    let outer = locks.lock(&name).owned_by(&owner).try_acquire().await.unwrap().unwrap();
    drop(locks.lock(&name).owned_by(&owner).try_acquire().await.unwrap().unwrap());
    locks.shutdown().await;
    assert_eq!(world.holds(&name, owner.field()).await.as_deref(), Some("1"));
    outer.release().await.unwrap();
    assert!(!world.exists(&name).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_is_a_barrier_and_the_end() {
    let world = World::new().await;
    let locks = world.lock_client(Lease::Renewed(LONG));
    let names: Vec<String> = (0..300).map(|n| format!("{}:{n}", world.lock_name())).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(locks.lock(name).try_acquire().await.unwrap().unwrap());
    }
    drop(guards);
    tokio::join!(locks.shutdown(), locks.shutdown());
    for name in &names {
        assert!(!world.exists(name).await, "{name}");
    }
    assert!(matches!(locks.lock(&names[0]).try_acquire().await, Err(LockError::ShutDown)));
    assert!(!world.exists(&names[0]).await);
    locks.shutdown().await;
}
