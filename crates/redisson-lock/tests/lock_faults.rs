//! The lock when leases end, keys vanish, answers get lost and Redis goes away.

use std::time::Duration;

use faults::{Fault, Proxy};
use futures_util::FutureExt;
use redis_link::Redis;
use redisson_lock::{Lease, Lock, LockClient, LockError, LockOptions};

use crate::world::{LONG, World, passes, renewed, taken};
use testkit::redis_nodes::Node;
use testkit::wait::{eventually, must};

/// Over while a test waits.
const LEASE: Duration = Duration::from_millis(300);
/// Long enough that a busy machine renews it in time.
const SHORT: Duration = Duration::from_millis(1200);

/// T5.
#[tokio::test(flavor = "multi_thread")]
async fn work_that_outlasts_the_lease_is_alone_with_a_watchdog_and_not_without() {
    let (world, name, a) = World::with_locks().await;
    let b = world.client();
    let unwatched = taken(&a.lock(&name).lease(Lease::Fixed(LEASE))).await;
    let both = must("B enters while A works", b.lock(&name).acquire()).await.unwrap();
    assert!(unwatched.is_lost());
    both.release().await.unwrap();
    drop(unwatched);

    let watched = taken(&a.lock(&name).lease(Lease::Renewed(SHORT))).await;
    renewed(5, async || world.pttl(&name).await).await;
    assert!(b.lock(&name).try_acquire().await.unwrap().is_none());
    assert!(!watched.is_lost() && watched.lost().now_or_never().is_none());
    let (field, lost) = (watched.owner().field().to_owned(), watched.lost());
    watched.release().await.unwrap();
    // A watchdog that outlived the release would keep this alive.
    world.ask::<()>(&["HSET", &name, &field, "1"]).await;
    world.ask::<()>(&["PEXPIRE", &name, "1200"]).await;
    eventually("the lease ended", async || !world.exists(&name).await).await;
    assert!(lost.now_or_never().is_none(), "a released lock is not a lost one");
    assert!(b.lock(&name).try_acquire().await.unwrap().is_some());
}

/// T2, T3 and T4. That A and B overlap no release can mend: only a renewal, or a fence. B may also be A's own
/// owner, who takes the lock anew: the two guards are two all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_owner_cannot_release_what_the_next_one_holds() {
    let (world, name, b) = World::with_locks().await;
    for (same_owner, drops) in [(false, false), (false, true), (true, false), (true, true)] {
        let a = world.client();
        let owned = a.lock(&name).owned_by(&a.owner());
        let lock = if same_owner { owned.clone() } else { a.lock(&name) };
        let expired = taken(&lock.lease(Lease::Fixed(LEASE))).await;
        must("A is told, and works on", expired.lost()).await;
        eventually("Redis let go", async || !world.exists(&name).await).await;
        let others = if same_owner { owned } else { b.lock(&name) };
        let next = taken(&others).await;
        if drops {
            drop(expired);
        } else {
            assert!(matches!(expired.release().await, Err(LockError::NotHeld(_))));
        }
        a.shutdown().await; // whatever A had to give back is given back
        assert_eq!(world.holds(&name, next.owner().field()).await.as_deref(), Some("1"));
        let c = world.client().lock(&name).try_acquire().await.unwrap();
        assert!(c.is_none(), "C entered while B works");
        assert!(!next.is_lost());
        next.release().await.unwrap();
        assert!(!world.exists(&name).await);
    }
}

/// A lock must not outlive the work that hangs while its watchdog barks on.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_renewed_no_longer_than_it_may_last() {
    let (world, name, other) = World::with_locks().await;
    let options = LockOptions::default().lease(Lease::Renewed(LEASE * 2));
    let locks = world.locks(options.max_hold(Some(Duration::from_millis(500))));
    let hangs = taken(&locks.lock(&name)).await;
    must("the holder is told", hangs.lost()).await;
    let next = must("the next one enters", other.lock(&name).acquire()).await.unwrap();
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_cut_off_from_redis_learns_it_by_the_deadline() {
    let world = World::new().await;
    let options = LockOptions::default().lease(Lease::Renewed(SHORT));
    for fault in [Fault::Down, Fault::Deaf] {
        let (proxy, locks) = world.behind_proxy(options).await;
        let name = format!("{}:{fault:?}", world.name());
        let guard = taken(&locks.lock(&name)).await;
        proxy.break_by(fault);
        must("the loss is announced", guard.lost()).await;
        eventually("Redis let go", async || !world.exists(&name).await).await;
        drop(guard);
    }
}

/// An owner holds the lock once, plain or fair, and makes a call of which something is lost. One hold remains.
async fn costs_no_hold(call: impl AsyncFn(&Lock, &Proxy, Fault)) {
    let (answer, request) = (Fault::LoseAnswer, Fault::LoseRequest);
    for (fault, fair) in [(answer, false), (request, false), (answer, true), (request, true)] {
        let world = World::new().await;
        let options = LockOptions::default().lease(Lease::Renewed(LONG)).fair(fair);
        let (proxy, locks) = world.behind_proxy(options).await;
        let lock = locks.lock(world.name()).owned_by(&locks.owner());
        let outer = taken(&lock).await;
        // Every script is known to the server by now: a call is one request.
        passes(&lock).await;
        call(&lock, &proxy, fault).await;
        locks.shutdown().await;
        let holds = world.holds(lock.name(), outer.owner().field()).await;
        assert_eq!(holds.as_deref(), Some("1"), "{fault:?}, fair: {fair}");
        outer.release().await.unwrap();
        assert!(!world.exists(lock.name()).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_answer_is_lost_costs_one_hold_not_two() {
    costs_no_hold(async |lock, proxy, fault| {
        let inner = taken(lock).await;
        proxy.break_by(fault);
        let released = inner.release().await;
        assert!(released.as_ref().is_err_and(LockError::outcome_unknown), "{released:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_whose_answer_is_lost_is_taken_back_and_one_that_never_came_is_not() {
    costs_no_hold(async |lock, proxy, fault| {
        proxy.break_by(fault);
        let taken = lock.try_acquire().await;
        assert!(taken.as_ref().is_err_and(LockError::outcome_unknown), "{taken:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_learns_that_redis_sleeps_and_nothing_is_left_when_it_wakes() {
    let node = Node::start(&[]).await;
    let options = LockOptions::default().lease(Lease::Renewed(SHORT));
    let locks = LockClient::new(Redis::new(&node.url()).unwrap(), options);
    let guard = taken(&locks.lock("held")).await;
    node.pause();
    // Sent, but not done before Redis wakes: unknown, and taken back then.
    let asleep = locks.lock("asleep").owned_by(&locks.owner()).lease(Lease::Renewed(LONG));
    let unknown = asleep.try_acquire().await;
    assert!(unknown.as_ref().is_err_and(LockError::retry_may_help), "{unknown:?}");
    must("the loss is announced", guard.lost()).await;
    node.resume();
    drop(guard);
    locks.shutdown().await;
    assert_eq!(node.command::<i64>(&["EXISTS", "held", "asleep"]).await, 0);
}
