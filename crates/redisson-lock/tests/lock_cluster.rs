//! Through a cluster of three masters.

use std::time::Duration;

use futures_util::future::join_all;

use crate::world::{LONG, passes, renewing, taken};
use testkit::redis_nodes::{Cluster, migrate};
use testkit::wait::eventually;

/// Names in slots of different nodes, with braces and without.
const NAMES: [&str; 6] =
    ["lock:order:1", "lock:order:2", "lock:order:3", "a:{b}:c", "a:{x}", "lock:{y}"];

#[tokio::test(flavor = "multi_thread")]
async fn locks_exclude_whatever_node_they_are_on() {
    let cluster = Cluster::start(3).await;
    let owners = join_all(NAMES.map(|name| cluster.index_of(name))).await;
    assert!((0..3).all(|index| owners.contains(&index)), "{owners:?}");
    let (ours, theirs) = (renewing(&cluster.url()), renewing(&cluster.url()));
    for name in NAMES {
        let node = cluster.node_of(name).await;
        // With an owner who may enter again the scripts have two keys, fenced a third.
        let owner = ours.owner();
        let lock = ours.lock(name).owned_by(&owner).fenced();
        let (outer, inner) = (taken(&lock).await, taken(&lock).await);
        assert_eq!(node.command::<String>(&["HGET", name, owner.field()]).await, "2");
        assert!(theirs.lock(name).try_acquire().await.unwrap().is_none(), "{name}");
        inner.release().await.unwrap();
        assert!(theirs.lock(name).try_acquire().await.unwrap().is_none(), "{name}");
        outer.release().await.unwrap();
        let kept = taken(&theirs.lock(name).fair()).await;
        kept.keep_at_least(LONG / 2).unwrap();
        kept.release().await.unwrap();
        assert!(lock.state().await.unwrap().unwrap().is_kept(), "{name}");
        assert!(lock.force_release().await.unwrap(), "{name}");
        drop(taken(&theirs.lock(name)).await);
    }
    theirs.shutdown().await;
    for name in NAMES {
        assert!(!ours.lock(name).is_locked().await.unwrap(), "what was dropped is given back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fair_lock_goes_from_one_to_the_next_on_every_node() {
    let cluster = Cluster::start(3).await;
    let (ours, theirs) = (renewing(&cluster.url()), renewing(&cluster.url()));
    let mut held = Vec::new();
    for name in NAMES {
        let lock = ours.lock(name).fair().fenced();
        let guard = lock.acquire().await.unwrap();
        let mut waiters = Vec::new();
        for (number, client) in [&theirs, &ours, &theirs, &ours].into_iter().enumerate() {
            waiters.push(tokio::spawn(client.lock(name).fair().fenced().acquire()));
            eventually("it stands in the queue", async || {
                lock.state().await.unwrap().unwrap().queued == number as u64 + 1
            })
            .await;
        }
        held.push((guard, waiters));
    }
    let all = ours.held_locks("*", 100).await.unwrap();
    let mut names = NAMES.map(str::to_owned);
    names.sort_unstable();
    assert_eq!((all.found.keys().cloned().collect::<Vec<_>>(), all.cut), (names.to_vec(), false));
    let few = ours.held_locks("lock:order:*", 2).await.unwrap();
    assert_eq!((few.found.len(), few.cut), (2, true));
    // One who hears nothing looks again after ten seconds: were they told nothing, all of them would take longer.
    let one_after_the_other = async {
        for (guard, waiters) in held {
            let mut last = guard.fence();
            guard.release().await.unwrap();
            for waiter in waiters {
                let guard = waiter.await.unwrap().unwrap();
                assert!(guard.fence() > last, "in the order in which they came");
                last = guard.fence();
                guard.release().await.unwrap();
            }
        }
    };
    let all_inside = tokio::time::timeout(Duration::from_secs(60), one_after_the_other);
    all_inside.await.expect("all have been inside in time");
    let counters = ours.fencing_counters("*", 100).await.unwrap();
    assert_eq!(counters.found.into_keys().collect::<Vec<_>>(), names);
    for name in NAMES {
        assert!(!ours.lock(name).force_release().await.unwrap(), "{name} is free");
        assert!(ours.forget_fencing_counter(name, Duration::ZERO).await.unwrap(), "{name}");
    }
    assert!(ours.fencing_counters("*", 100).await.unwrap().found.is_empty());
    for client in [ours, theirs] {
        client.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_survive_the_migration_of_their_slot() {
    let cluster = Cluster::start(3).await;
    let (ours, theirs) = (renewing(&cluster.url()), renewing(&cluster.url()));
    // Both in one slot: one is held while it is on its way, the other is taken there.
    let (held, free) = ("{slot}:held", "{slot}:free");
    let from = cluster.index_of(held).await;
    let to = &cluster.nodes[(from + 1) % 3];
    let guard = taken(&ours.lock(held)).await;
    assert!(theirs.lock(held).try_acquire().await.unwrap().is_none());
    let meanwhile = async || {
        assert!(theirs.lock(held).try_acquire().await.unwrap().is_none());
        // What is new is made where the slot goes.
        let guard = taken(&ours.lock(free)).await;
        assert!(theirs.lock(free).try_acquire().await.unwrap().is_none());
        assert_eq!(cluster.nodes[from].command::<i64>(&["DBSIZE"]).await, 1);
        guard.release().await.unwrap();
        // Scripts with several keys have to wait until all of them are at one place.
        let owner = ours.owner();
        match theirs.lock(free).owned_by(&owner).try_acquire().await {
            Ok(guard) => guard.unwrap().release().await.unwrap(),
            Err(error) => assert!(error.retry_may_help() && !error.outcome_unknown(), "{error}"),
        }
    };
    migrate(&cluster, held, to, meanwhile).await;
    assert!(theirs.lock(held).try_acquire().await.unwrap().is_none());
    assert_eq!(to.command::<i64>(&["EXISTS", held]).await, 1);
    guard.release().await.unwrap();
    assert_eq!(to.command::<i64>(&["EXISTS", held]).await, 0);
    for name in [held, free] {
        passes(&theirs.lock(name)).await;
    }
}
