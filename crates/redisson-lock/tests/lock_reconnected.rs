//! A connection that has ended: the server may have forgotten all locks. And a runtime that has ended.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use redis_link::Redis;
use redisson_lock::{Guard, Lease, LockClient, LockError, LockOptions};
use testkit::redis_nodes::{Cluster, Node};
use testkit::wait::{eventually, must};
use tokio::runtime::Runtime;

use crate::world::{World, passes};

/// Nothing that a test sees comes of a usual renewal, or of the end of a lease.
const HOUR: Duration = Duration::from_secs(3600);

fn client(url: &str) -> LockClient {
    let options = LockOptions::default().lease(Lease::Renewed(HOUR));
    LockClient::new(Redis::new(url).unwrap(), options)
}

async fn taken(locks: &LockClient, count: usize) -> Vec<Guard> {
    let one = async |number| locks.lock(format!("l{number}")).try_acquire().await.unwrap().unwrap();
    stream::iter(0..count).map(one).buffered(64).collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_holders_are_told_when_redis_restarts_empty_and_work_as_long_as_it_has_not() {
    let mut node = Node::start(&[]).await;
    let locks = client(&node.url());
    let mut guards = taken(&locks, 10_000).await;
    let fixed = locks.lock("fixed").lease(Lease::Fixed(HOUR)).try_acquire().await.unwrap().unwrap();
    for name in ["l0", "l9999", "fixed"] {
        node.command::<i64>(&["PEXPIRE", name, "1000000"]).await;
    }
    node.command::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    for name in ["l0", "l9999"] {
        eventually("it is renewed", async || {
            node.command::<i64>(&["PTTL", name]).await > 3_000_000
        })
        .await;
    }
    assert!(node.command::<i64>(&["PTTL", "fixed"]).await <= 1_000_000, "it is never renewed");
    assert!(!guards.iter().any(Guard::is_lost) && !fixed.is_lost());

    node.restart_empty().await;
    guards.push(fixed);
    must("all are told", join_all(guards.iter().map(Guard::lost))).await;
    assert!(guards.iter().all(Guard::is_lost));
    // It knows no script, either.
    passes(&locks.lock("other")).await;
    for guard in guards.into_iter().take(3) {
        assert!(matches!(guard.release().await, Err(LockError::NotHeld(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_holders_of_a_node_of_a_cluster_are_told_too() {
    let mut cluster = Cluster::start(3).await;
    let locks = client(&cluster.url());
    let guards = taken(&locks, 30).await;
    let index = cluster.index_of("l0").await;
    cluster.nodes[index].command::<()>(&["FLUSHALL"]).await;
    cluster.nodes[index].command::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    must("the one is told", guards[0].lost()).await;
    for (number, guard) in guards.iter().enumerate() {
        let there = cluster.index_of(&format!("l{number}")).await == index;
        eventually("it is told, or not", async || guard.is_lost() == there).await;
    }
    drop(guards);
    cluster.nodes.clear();
}

#[test]
fn a_client_whose_runtime_has_ended_says_so_and_grants_nothing() {
    let (first, second) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let world = first.block_on(World::new());
    let name = world.name();
    let (locks, guard) = first.block_on(async {
        let locks = client(&world.redis_url);
        let guard = locks.lock(world.name() + ":held").acquire().await.unwrap();
        (locks, guard)
    });
    let lost = guard.lost();
    drop(first);
    second.block_on(async {
        must("its holder is told", lost).await;
        assert!(guard.is_lost());
        let lock = locks.lock(&name);
        for lock in [lock.clone(), lock.fair(), locks.lock(&name).acknowledged_by(0, HOUR / 2)] {
            for error in [lock.try_acquire().await.unwrap_err(), lock.acquire().await.unwrap_err()]
            {
                assert!(matches!(error, LockError::RuntimeEnded), "{error}");
                assert!(!error.outcome_unknown());
            }
        }
        // It can still be given back.
        guard.release().await.unwrap();
        let anew = client(&world.redis_url);
        let free = anew.lock(world.name() + ":held").try_acquire().await.unwrap();
        free.unwrap().release().await.unwrap();
    });
}

/// Time leaps whenever a task waits for Redis, and is no reason to give the answer up.
#[tokio::test]
async fn locks_are_taken_while_the_clock_of_a_test_stands_still() {
    let world = World::new().await;
    let locks = client(&world.redis_url);
    tokio::time::pause();
    for _ in 0..100 {
        locks.lock(world.name()).acquire().await.unwrap().release().await.unwrap();
    }
    locks.shutdown().await;
}
