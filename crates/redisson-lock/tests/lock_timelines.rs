//! The short timelines of `docs/locks.md` that need no failing server: leases that end while
//! the holder works.

use std::time::Duration;

use redisson_lock::{Lease, LockError};

use crate::lock::LONG;
use crate::lock_faults::renewed;
use crate::world::World;
use testkit::wait::must;

const LEASE: Duration = Duration::from_millis(300);

/// T2 and T4. That A and B overlap no release can mend: only a renewal, or a fence.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_owner_cannot_release_what_the_next_one_holds() {
    let world = World::new().await;
    let name = world.lock_name();
    let [a, b, c] = [(); 3].map(|()| world.lock_client(Lease::Renewed(LONG)));
    let expired = a.lock(&name).lease(Lease::Fixed(LEASE)).acquire().await.unwrap();
    // A works on, past its lease.
    let next = must("B enters when the lease has ended", b.lock(&name).acquire()).await.unwrap();
    must("A is told", expired.lost()).await;
    let late = expired.release().await;
    assert!(matches!(late, Err(LockError::NotHeld(_))), "{late:?}");
    assert!(c.lock(&name).try_acquire().await.unwrap().is_none(), "C entered while B works");
    assert_eq!(b.lock(&name).holds(next.owner()).await.unwrap(), 1);
    assert!(!next.is_lost());
    next.release().await.unwrap();
    assert!(!world.exists(&name).await);
}

/// T3, with a guard that is dropped instead of released.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_guard_that_is_dropped_gives_back_nothing_of_the_next_ones() {
    let world = World::new().await;
    let name = world.lock_name();
    let [a, b] = [(); 2].map(|()| world.lock_client(Lease::Renewed(LONG)));
    let expired = a.lock(&name).lease(Lease::Fixed(LEASE)).acquire().await.unwrap();
    let next = must("B enters when the lease has ended", b.lock(&name).acquire()).await.unwrap();
    drop(expired);
    a.shutdown().await; // whatever A had to clean up is done
    assert_eq!(b.lock(&name).holds(next.owner()).await.unwrap(), 1);
    next.release().await.unwrap();
}

/// T5.
#[tokio::test(flavor = "multi_thread")]
async fn work_that_outlasts_the_lease_is_alone_with_a_watchdog_and_not_without() {
    let world = World::new().await;
    let name = world.lock_name();
    let [a, b] = [(); 2].map(|()| world.lock_client(Lease::Renewed(LONG)));
    let unwatched = a.lock(&name).lease(Lease::Fixed(LEASE)).acquire().await.unwrap();
    let both = must("B enters while A works", b.lock(&name).acquire()).await.unwrap();
    assert!(unwatched.is_lost());
    both.release().await.unwrap();
    drop(unwatched);

    // Long enough that a busy machine renews it in time.
    let watched = Lease::Renewed(Duration::from_millis(1200));
    let watched = a.lock(&name).lease(watched).acquire().await.unwrap();
    renewed(&world, &name, 4).await; // work that outlasts the lease
    assert!(b.lock(&name).try_acquire().await.unwrap().is_none());
    assert!(!watched.is_lost());
    watched.release().await.unwrap();
    assert!(b.lock(&name).try_acquire().await.unwrap().is_some());
}

/// A lock must not outlive the work that hangs while its watchdog barks on.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_renewed_no_longer_than_it_may_last() {
    let world = World::new().await;
    let name = world.lock_name();
    let locks = world.locks(
        redisson_lock::LockOptions::default()
            .lease(Lease::Renewed(Duration::from_millis(600)))
            .max_hold(Some(Duration::from_millis(500))),
    );
    let hangs = locks.lock(&name).acquire().await.unwrap();
    must("the holder is told", hangs.lost()).await;
    let other = world.lock_client(Lease::Renewed(LONG));
    let next = must("the next one enters", other.lock(&name).acquire()).await.unwrap();
    next.release().await.unwrap();
}
