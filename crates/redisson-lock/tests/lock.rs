//! The lock: who may enter, who may leave, and what stands in Redis meanwhile.

use std::time::Duration;

use redisson_lock::{Lease, LockError};

use crate::world::{World, channel, heard, hearing, passes, taken};
use testkit::wait::{eventually, must};

#[tokio::test]
async fn a_lock_stands_in_redis_as_redissons_does() {
    let (world, name, locks) = World::with_locks().await;
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

#[tokio::test]
async fn only_who_has_the_owner_enters_again() {
    let (world, name, locks) = World::with_locks().await;
    let outer = locks.lock(&name).try_acquire().await.unwrap().unwrap();
    let owner = outer.owner().clone();
    // The same task, the same client: neither is an owner.
    assert!(locks.lock(&name).try_acquire().await.unwrap().is_none());
    assert!(locks.lock(&name).owned_by(&locks.owner()).try_acquire().await.unwrap().is_none());
    let others = world.client();
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
async fn a_short_lease_within_a_long_one_never_shortens_it() {
    let (world, name, locks) = World::with_locks().await;
    let owner = locks.owner();
    let outer = locks.lock(&name).owned_by(&owner).try_acquire().await.unwrap().unwrap();
    let short = Lease::Renewed(Duration::from_millis(900));
    let inner = taken(&locks.lock(&name).owned_by(&owner).lease(short)).await;
    assert!(world.pttl(&name).await > 20_000, "by entering");
    inner.release().await.unwrap();
    assert!(world.pttl(&name).await > 20_000, "by leaving");
    let fixed = Lease::Fixed(Duration::from_millis(200));
    let inner = taken(&locks.lock(&name).owned_by(&owner).lease(fixed)).await;
    must("the inner lease ends", inner.lost()).await;
    assert_eq!(world.holds(&name, owner.field()).await.as_deref(), Some("2"));
    inner.release().await.unwrap();
    outer.release().await.unwrap();
    assert!(!world.exists(&name).await);
}

#[tokio::test]
async fn the_last_release_and_no_other_frees_the_lock_and_wakes_the_waiters() {
    let (world, plain, locks) = World::with_locks().await;
    let braced = format!("{{{plain}}}:x");
    let channels = [channel(&plain), format!("redisson_lock__channel:{braced}")];
    for (name, channel) in [&plain, &braced].into_iter().zip(channels) {
        let mut hearing = hearing(&world.redis, &channel).await;
        let owner = locks.owner();
        let lock = locks.lock(name).owned_by(&owner);
        let (outer, inner) = (taken(&lock).await, taken(&lock).await);
        world.ask::<()>(&["PEXPIRE", name, "20000"]).await;
        inner.release().await.unwrap();
        assert!(world.pttl(name).await > 20_000, "a partial release refreshes the lease");
        assert_eq!(world.holds(name, owner.field()).await.as_deref(), Some("1"));
        world.ask::<()>(&["PUBLISH", &channel, "between the two"]).await;
        outer.release().await.unwrap();
        for expected in ["between the two", "0"] {
            assert_eq!(heard(&mut hearing).await, expected);
        }
    }
}

#[tokio::test]
async fn names_and_leases_have_bounds() {
    let (world, name, locks) = World::with_locks().await;
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
    let guard = taken(&locks.lock(&name).owned_by(&locks.owner()).lease(lease)).await;
    assert!(world.pttl(&name).await > 80_000_000);
    guard.release().await.unwrap();
    let long = format!("{name}{}", "x".repeat(512 - name.len()));
    passes(&locks.lock(&long)).await;
}

#[tokio::test]
async fn a_dropped_guard_and_a_panic_release() {
    let (world, name, locks) = World::with_locks().await;
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
    let locks = world.client();
    let names: Vec<String> = (0..300).map(|n| format!("{}:{n}", world.name())).collect();
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
