//! Fair locks, and all locks at a glance, through a cluster of three masters.

use std::time::Duration;

use futures_util::future::join_all;
use redis_link::Redis;

use super::locks;
use testkit::redis_nodes::Cluster;
use testkit::wait::{eventually, must};

/// Names in slots of different nodes, with braces and without.
const NAMES: [&str; 6] =
    ["lock:order:1", "lock:order:2", "lock:order:3", "a:{b}:c", "a:{x}", "lock:{y}"];

#[tokio::test(flavor = "multi_thread")]
async fn a_fair_lock_goes_from_one_to_the_next_on_every_node() {
    let cluster = Cluster::start(3).await;
    let owners = join_all(NAMES.map(|name| cluster.index_of(name))).await;
    assert!((0..3).all(|index| owners.contains(&index)), "{owners:?}");
    let (ours, theirs) =
        (locks(&Redis::new(&cluster.url()).unwrap()), locks(&Redis::new(&cluster.url()).unwrap()));
    let mut held = Vec::new();
    for name in NAMES {
        let lock = ours.lock(name).fair().fenced();
        let guard = lock.acquire().await.unwrap();
        let mut waiters = Vec::new();
        for (number, client) in [&theirs, &ours].into_iter().enumerate() {
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
    // All in less time than one who hears nothing sleeps before it looks again, which is ten seconds.
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
    must("all have been inside", one_after_the_other).await;
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
