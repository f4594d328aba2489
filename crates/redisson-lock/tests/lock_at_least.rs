//! Locks that stay held, by nobody, for a while after they were given back early.

use std::time::Duration;

use faults::Fault;
use redisson_lock::{Lease, Lock, LockError, LockOptions};
use testkit::wait::{eventually, must};

use crate::world::{LONG, World, channel, heard, hearing, passes, taken, waiting};

const HALF: Duration = Duration::from_secs(300);
/// Over before anything is sent.
const NOTHING: Duration = Duration::from_nanos(1);
/// So short that a test waits for its end.
const SHORT: Duration = Duration::from_millis(300);

/// By nobody, for the half at most, after this owner.
async fn is_kept(world: &World, lock: &Lock, field: &str) {
    let left = world.pttl(lock.name()).await;
    assert!((1..=300_000).contains(&left), "{left}");
    let state = lock.state().await.unwrap().unwrap();
    assert!(state.is_kept() && state.holds == 1, "{state:?}");
    assert_eq!(state.owner, field.replace(':', ":-"));
}

#[tokio::test]
async fn a_lock_that_is_given_back_early_is_kept_and_held_by_nobody() {
    let (world, name, locks) = World::with_locks().await;
    let plain = locks.lock(&name);
    let owned = plain.clone().owned_by(&locks.owner()).fenced();
    for (lock, dropped) in [
        (plain.clone(), false),
        (owned.clone(), true),
        (plain.clone().fair(), false),
        (owned.fair(), true),
    ] {
        let guard = taken(&lock).await;
        let field = guard.owner().field().to_owned();
        guard.keep_at_least(HALF).unwrap();
        // A second one changes nothing.
        guard.keep_at_least(LONG).unwrap();
        if dropped {
            drop(guard);
            let given_back = async || world.holds(&name, &field).await.is_none();
            eventually("it is given back", given_back).await;
        } else {
            guard.release().await.unwrap();
        }
        is_kept(&world, &lock, &field).await;
        // Its own owner included, and others who take the lock in another way.
        for lock in [&lock, &plain] {
            assert!(lock.try_acquire().await.unwrap().is_none());
        }
        assert!(locks.held_locks(&name, 1).await.unwrap().found.contains_key(&name));
        assert!(lock.force_release().await.unwrap());
        passes(&lock).await;
        assert!(!world.exists(&name).await);
    }
}

#[tokio::test]
async fn a_lock_is_kept_for_its_lease_at_most_and_by_the_last_hold_of_its_owner_alone() {
    let world = World::new().await;
    let (name, locks) = (world.name(), world.lock_client(Lease::Fixed(LONG)));
    let lock = locks.lock(&name).owned_by(&locks.owner());
    let millisecond = Duration::from_millis(1);
    for (outer_keeps, inner_keeps, kept) in [
        (Duration::ZERO, Duration::ZERO, false),
        (NOTHING, Duration::ZERO, false),
        (Duration::ZERO, HALF, false),
        (LONG - millisecond, Duration::ZERO, true),
        (LONG, Duration::ZERO, true),
    ] {
        let (outer, inner) = (taken(&lock).await, taken(&lock).await);
        outer.keep_at_least(outer_keeps).unwrap();
        inner.keep_at_least(inner_keeps).unwrap();
        inner.release().await.unwrap();
        assert_eq!(world.holds(&name, outer.owner().field()).await.as_deref(), Some("1"));
        outer.release().await.unwrap();
        assert_eq!(world.exists(&name).await, kept, "{outer_keeps:?} {inner_keeps:?}");
        lock.force_release().await.unwrap();
    }
    let guard = taken(&lock).await;
    let error = guard.keep_at_least(LONG + millisecond).unwrap_err();
    assert!(matches!(error, LockError::TooLongToKeep { lease: LONG, .. }), "{error}");
    guard.release().await.unwrap();
    assert!(!world.exists(&name).await, "what was refused has no effect");
}

/// A release that is sent again finds no hold, and does not lengthen the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_sent_again_keeps_no_longer() {
    let (world, name, others) = World::with_locks().await;
    let options = LockOptions::default().lease(Lease::Renewed(LONG));
    for fault in [Fault::LoseAnswer, Fault::LoseRequest] {
        let (proxy, locks) = world.behind_proxy(options).await;
        let lock = locks.lock(&name);
        // Both scripts are known afterwards: a call is one request.
        passes(&lock).await;
        let guard = taken(&lock).await;
        let field = guard.owner().field().to_owned();
        guard.keep_at_least(HALF).unwrap();
        proxy.break_by(fault);
        assert!(guard.release().await.unwrap_err().outcome_unknown());
        locks.shutdown().await;
        is_kept(&world, &others.lock(&name), &field).await;
        others.lock(&name).force_release().await.unwrap();
    }
}

/// They slept for the whole of the lease, and are told that it is shorter now; Redisson's in the same way.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_learns_of_the_time_and_enters_after_it() {
    let (world, name, locks) = World::with_locks().await;
    for fair in [false, true] {
        let lock = if fair { locks.lock(&name).fair() } else { locks.lock(&name) };
        let held = taken(&lock).await;
        let waiting = waiting(&lock);
        let mut channel = channel(&name);
        if fair {
            channel = format!("{channel}:{}", world.until_queued(&name, 1).await[0]);
        }
        eventually("it listens", async || world.subscribers(&channel).await == 1).await;
        let mut hearing = hearing(&world.redis, &channel).await;
        let since = std::time::Instant::now();
        held.keep_at_least(SHORT).unwrap();
        held.release().await.unwrap();
        assert_eq!(heard(&mut hearing).await, "0");
        let entered = must("it enters", waiting).await.unwrap().unwrap();
        assert!(since.elapsed() >= SHORT, "it entered after {:?}", since.elapsed());
        entered.release().await.unwrap();
    }
}

#[tokio::test]
async fn the_command_line_keeps_a_lock_and_ends_at_once() {
    let (world, program, name) = World::with_program().await;
    let run = async |more: &[&str], command: &[&str]| {
        let all = [&["lock", "run", &name, "--wait", "0s"], more, &["--"], command];
        program.run(&all.concat()).await
    };
    for (more, script, status, kept) in [
        (&[][..], "sleep 0.01", 0, false),
        (&["--at-least", "0s"], "sleep 0.01", 0, false),
        (&["--at-least", "1ms"], "sleep 0.01", 0, false),
        // The lease itself is the most; the status is the command's own.
        (&["--at-least", "30s"], "exit 0", 0, true),
        (&["--at-least=7s", "--no-renew"], "exit 3", 3, true),
    ] {
        assert_eq!(run(more, &["sh", "-c", script]).await.status, status);
        assert_eq!(world.exists(&name).await, kept, "{more:?}");
        if kept {
            assert!((1..=30_000).contains(&world.pttl(&name).await));
            run(&[], &["true"]).await.refused(75, "somebody else holds the lock");
            let said = program.says(&["lock", "inspect", &name]).await;
            assert!(said.contains("held by nobody, and kept for"), "{said}");
            program.says(&["lock", "force-release", &name, "--yes"]).await;
        }
    }
    run(&["--at-least", "5s"], &["/no/such/file"]).await.refused(127, "/no/such/file");
    assert!(!world.exists(&name).await);
}
