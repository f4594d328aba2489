//! Locks that stay held, by nobody, for a while after they were given back early.

use std::time::Duration;

use faults::Fault;
use futures_util::StreamExt;
use redisson_lock::{Lease, LockError, LockOptions};
use testkit::wait::{eventually, must};

use crate::world::{LONG, World, channel, passes, waiting};

const HALF: Duration = Duration::from_secs(30);
/// Over before anything is sent.
const NOTHING: Duration = Duration::from_nanos(1);
/// So short that a test waits for its end.
const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_lock_that_is_given_back_early_is_kept_and_held_by_nobody() {
    let world = World::new().await;
    let locks = world.client();
    for (fair, fenced, dropped) in
        [(false, false, false), (false, true, true), (true, false, false), (true, true, true)]
    {
        let name = format!("{}:{fair}{fenced}", world.name());
        let owner = locks.owner();
        let lock = || {
            let lock = locks.lock(&name);
            let lock = if fair { lock.fair() } else { lock };
            if fenced { lock.fenced().owned_by(&owner) } else { lock }
        };
        let guard = lock().try_acquire().await.unwrap().unwrap();
        let field = guard.owner().field().to_owned();
        guard.keep_at_least(HALF).unwrap();
        // A second one changes nothing.
        guard.keep_at_least(LONG).unwrap();
        if dropped {
            drop(guard);
            eventually("it is given back", async || world.holds(&name, &field).await.is_none())
                .await;
        } else {
            guard.release().await.unwrap();
        }
        let left = world.pttl(&name).await;
        assert!((1..=30_000).contains(&left), "{left}");
        let state = lock().state().await.unwrap().unwrap();
        assert!(state.is_kept() && state.holds == 1, "{state:?}");
        assert_eq!(state.owner, field.replace(':', ":-"));
        // Its own owner included, and others who take the lock in another way.
        assert!(lock().try_acquire().await.unwrap().is_none());
        assert!(locks.lock(&name).try_acquire().await.unwrap().is_none());
        assert!(locks.held_locks(&name, 1).await.unwrap().found.contains_key(&name));
        assert!(lock().force_release().await.unwrap());
        lock().try_acquire().await.unwrap().unwrap().release().await.unwrap();
        assert!(!world.exists(&name).await);
    }
}

#[tokio::test]
async fn a_lock_is_kept_for_its_lease_at_most_and_not_at_all_when_the_time_is_over() {
    let world = World::new().await;
    let (name, locks) = (world.name(), world.lock_client(Lease::Fixed(LONG)));
    let millisecond = Duration::from_millis(1);
    for (time, kept) in
        [(Duration::ZERO, false), (NOTHING, false), (LONG - millisecond, true), (LONG, true)]
    {
        let guard = locks.lock(&name).try_acquire().await.unwrap().unwrap();
        guard.keep_at_least(time).unwrap();
        guard.release().await.unwrap();
        assert_eq!(world.exists(&name).await, kept, "{time:?}");
        locks.lock(&name).force_release().await.unwrap();
    }
    let guard = locks.lock(&name).try_acquire().await.unwrap().unwrap();
    let error = guard.keep_at_least(LONG + millisecond).unwrap_err();
    assert!(matches!(error, LockError::TooLongToKeep { lease: LONG, .. }), "{error}");
    guard.release().await.unwrap();
    assert!(!world.exists(&name).await, "what was refused has no effect");
}

#[tokio::test]
async fn only_the_last_hold_of_an_owner_leaves_it_kept() {
    let (world, name, locks) = World::with_locks().await;
    let lock = locks.lock(&name).owned_by(&locks.owner());
    for inner_keeps in [true, false] {
        let outer = lock.try_acquire().await.unwrap().unwrap();
        let inner = lock.try_acquire().await.unwrap().unwrap();
        if inner_keeps { &inner } else { &outer }.keep_at_least(HALF).unwrap();
        inner.release().await.unwrap();
        assert_eq!(world.holds(&name, outer.owner().field()).await.as_deref(), Some("1"));
        outer.release().await.unwrap();
        assert_eq!(world.exists(&name).await, !inner_keeps);
        lock.force_release().await.unwrap();
    }
}

/// A release that is sent again finds no hold, and does not lengthen the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_sent_again_keeps_no_longer() {
    let world = World::new().await;
    for fault in [Fault::LoseAnswer, Fault::LoseRequest] {
        let options = LockOptions::default().lease(Lease::Renewed(LONG));
        let (proxy, locks) = world.behind_proxy(options).await;
        let name = format!("{}:{fault:?}", world.name());
        // Both scripts are known afterwards: a call is one request.
        passes(&locks.lock(&name)).await;
        let guard = locks.lock(&name).try_acquire().await.unwrap().unwrap();
        let field = guard.owner().field().to_owned();
        guard.keep_at_least(HALF).unwrap();
        proxy.break_by(fault);
        assert!(guard.release().await.unwrap_err().outcome_unknown());
        locks.shutdown().await;
        assert_eq!(world.holds(&name, &field).await, None);
        assert_eq!(world.holds(&name, &field.replace(':', ":-")).await.as_deref(), Some("1"));
        assert!((1..=30_000).contains(&world.pttl(&name).await));
    }
}

/// They slept for the whole of the lease, and are told that it is shorter now; Redisson's in the same way.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_learns_of_the_time_and_enters_after_it() {
    let world = World::new().await;
    let locks = world.client();
    for fair in [false, true] {
        let name = format!("{}:{fair}", world.name());
        let lock = || if fair { locks.lock(&name).fair() } else { locks.lock(&name) };
        let held = lock().try_acquire().await.unwrap().unwrap();
        let waiting = waiting(&lock());
        let channels = format!("{}*", channel(&name));
        eventually("it listens", async || {
            let heard: Vec<String> = world.ask(&["PUBSUB", "CHANNELS", &channels]).await;
            !heard.is_empty()
        })
        .await;
        let client = redis::Client::open(&*world.redis_url).unwrap();
        let mut messages = client.get_async_pubsub().await.unwrap();
        messages.psubscribe(&channels).await.unwrap();
        let since = std::time::Instant::now();
        held.keep_at_least(SHORT).unwrap();
        held.release().await.unwrap();
        let told = must("it is told", messages.on_message().next()).await.unwrap();
        assert_eq!(told.get_payload::<String>().unwrap(), "0");
        let entered = must("it enters", waiting).await.unwrap().unwrap();
        assert!(since.elapsed() >= SHORT, "it entered after {:?}", since.elapsed());
        entered.release().await.unwrap();
    }
}

#[tokio::test]
async fn the_command_line_keeps_a_lock_and_ends_at_once() {
    let (world, program, name) = World::with_program().await;
    let run = async |more: &[&str], command: &str| {
        let all = [&["lock", "run", &name, "--wait", "0s"], more, &["--", "sh", "-c", command]];
        program.run(&all.concat()).await
    };
    let free = async || assert!(!world.exists(&name).await);
    for at_least in [&[][..], &["--at-least", "0s"], &["--at-least", "1ms"]] {
        assert_eq!(run(at_least, "sleep 0.01").await.status, 0);
        free().await;
    }
    // The lease itself is the most; the status is the command's own.
    for (more, status) in [(&["--at-least", "30s"][..], 0), (&["--at-least=7s", "--no-renew"], 3)] {
        let command = if status == 0 { "exit 0" } else { "exit 3" };
        assert_eq!(run(more, command).await.status, status);
        assert!((1..=30_000).contains(&world.pttl(&name).await));
        run(&[], "exit 0").await.refused(75, "somebody else holds the lock");
        let said = program.says(&["lock", "inspect", &name]).await;
        assert!(said.contains("held by nobody, and kept for"), "{said}");
        program.says(&["lock", "force-release", &name, "--yes"]).await;
    }
    for more in [&["--at-least", "31s"][..], &["--at-least", "25h", "--lease", "24h"]] {
        run(more, "exit 0").await.refused(2, "is longer than the lease of");
    }
    let words = ["lock", "run", &name, "--at-least", "5s", "--", "/no/such/file"];
    program.run(&words).await.refused(127, "/no/such/file");
    free().await;
}
