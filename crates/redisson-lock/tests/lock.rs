//! The lock: who may enter, who may leave, and what stands in Redis meanwhile.

use std::time::Duration;

use redisson_lock::{Lease, LockError};

use crate::world::{World, channel, heard, hearing, passes, taken};

#[tokio::test]
async fn a_lock_stands_in_redis_as_redissons_does() {
    let (world, name, locks) = World::with_locks().await;
    let guard = taken(&locks.lock(&name)).await;
    assert_eq!(world.ask::<String>(&["TYPE", &name]).await, "hash");
    let fields: Vec<(String, String)> = world.ask(&["HGETALL", &name]).await;
    let [(field, holds)] = fields.as_slice() else { panic!("{fields:?}") };
    assert_eq!((field.as_str(), holds.as_str()), (guard.owner().field(), "1"));
    let (client, number) = field.split_once(':').unwrap();
    assert_eq!(client.parse::<uuid::Uuid>().unwrap().hyphenated().to_string(), client);
    assert!(number.parse::<u64>().is_ok(), "{field}");
    let left = world.pttl(&name).await;
    assert!((1..=600_000).contains(&left), "{left}");
    guard.release().await.unwrap();
    assert!(!world.exists(&name).await);
}

#[tokio::test]
async fn only_who_has_the_owner_enters_again() {
    let (world, name, locks) = World::with_locks().await;
    let outer = taken(&locks.lock(&name)).await;
    let owner = outer.owner().clone();
    // The same task, the same client: neither is an owner.
    let (lock, another) = (locks.lock(&name), locks.lock(&name).owned_by(&locks.owner()));
    for lock in [lock.clone(), another, world.client().lock(&name)] {
        assert!(lock.try_acquire().await.unwrap().is_none());
    }
    // Another task with the owner may.
    let lock = lock.owned_by(&owner);
    let entering = tokio::spawn(async move { taken(&lock).await });
    let inner = entering.await.unwrap();
    assert_eq!(inner.owner(), &owner);
    for (guard, left) in [(outer, Some("1")), (inner, None)] {
        assert!(locks.lock(&name).try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
        assert_eq!(world.holds(&name, owner.field()).await.as_deref(), left);
    }
}

#[tokio::test]
async fn the_last_release_and_no_other_wakes_the_waiters() {
    let (world, plain, locks) = World::with_locks().await;
    let braced = format!("{{{plain}}}:x");
    let channels = [channel(&plain), format!("redisson_lock__channel:{braced}")];
    for (name, channel) in [&plain, &braced].into_iter().zip(channels) {
        let mut hearing = hearing(&world.redis, &channel).await;
        let lock = locks.lock(name).owned_by(&locks.owner());
        let (outer, inner) = (taken(&lock).await, taken(&lock).await);
        inner.release().await.unwrap();
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
            let refused = locks.lock(&name).lease(lease).try_acquire().await;
            assert!(matches!(refused, Err(LockError::InvalidLease)), "{lease:?}");
        }
    }
    assert!(!world.exists(&name).await);
    let guard = taken(&locks.lock(&name).lease(Lease::Renewed(day))).await;
    assert!(world.pttl(&name).await > 80_000_000);
    guard.release().await.unwrap();
    let long = format!("{name}{}", "x".repeat(512 - name.len()));
    passes(&locks.lock(&long)).await;
}

#[tokio::test]
async fn a_panic_releases() {
    let (world, name, locks) = World::with_locks().await;
    let guard = taken(&locks.lock(&name)).await;
    let panicking = tokio::spawn(async move {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("as a defect would"));
    });
    assert!(panicking.await.unwrap_err().is_panic());
    locks.shutdown().await;
    assert!(!world.exists(&name).await);
}
