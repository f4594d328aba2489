//! Writes that replicas have to acknowledge.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use faults::Fault;
use futures_util::FutureExt;
use redis_link::{LinkError, Redis};

use crate::increment_call;
use testkit::redis_nodes::{Cluster, Node};
use testkit::wait::{PATIENCE, eventually};

/// Short, for those that will run out.
const SHORT: Duration = Duration::from_millis(100);

async fn increment(redis: &Redis, timeout: Duration) -> Result<(i64, usize), LinkError> {
    redis.call_acknowledged(&increment_call("number"), 1, timeout, || ()).await
}

/// How many clients wait for the replicas.
async fn waiting(master: &Node) -> String {
    master.field(&["INFO", "clients"], "blocked_clients").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_replica_counts_and_one_that_is_cut_off_does_not() {
    for fault in [Fault::Down, Fault::Deaf] {
        let (master, replica, proxy) = Node::pair_over_proxy().await;
        let redis = Redis::new(&master.url()).unwrap();
        assert_eq!(increment(&redis, PATIENCE).await.unwrap(), (1, 1));
        assert_eq!(replica.command::<i64>(&["GET", "number"]).await, 1);

        proxy.break_by(fault);
        assert_eq!(increment(&redis, SHORT).await.unwrap(), (2, 0), "{fault:?}");
        assert_eq!(replica.command::<i64>(&["GET", "number"]).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_waits_for_the_replicas_and_no_time_is_not_for_ever() {
    let master = Node::start(&[]).await;
    let redis = Redis::new(&master.url()).unwrap();
    redis.ping().await.unwrap();
    let call = increment(&redis, PATIENCE * 10);
    tokio::pin!(call);
    tokio::select! {
        answer = &mut call => panic!("there is no replica, and yet {answer:?}"),
        () = eventually("WAIT waits", async || waiting(&master).await == "1") => {}
    }
    redis.ping().await.unwrap();
    assert!(call.now_or_never().is_none());
    assert_eq!(increment(&redis, Duration::ZERO).await.unwrap(), (2, 0));
}

/// Dropped at any point, it leaves no connection behind on which an answer is outstanding.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_dropped_half_way_leaves_nothing_wrong() {
    let (master, _replica, proxy) = Node::pair_over_proxy().await;
    let redis = Redis::new(&master.url()).unwrap();
    for _ in 0..4 {
        assert_eq!(increment(&redis, PATIENCE).await.unwrap().1, 1);
    }
    proxy.break_by(Fault::Deaf);
    for round in 0..4 {
        let told = AtomicBool::new(false);
        let sending = || told.store(true, Ordering::SeqCst);
        let number = increment_call("number");
        let call = redis.call_acknowledged::<i64>(&number, 1, PATIENCE, sending);
        tokio::select! {
            answer = call => panic!("{round}: the replica is deaf, and yet {answer:?}"),
            () = eventually("WAIT waits", async || waiting(&master).await == "1") => {}
        }
        assert!(told.load(Ordering::SeqCst));
        assert_eq!(redis.pool_status().map(|status| status.size), Some(0), "it is not used again");
        // The server notices that nobody waits any more: the connection is closed.
        eventually("nobody waits", async || waiting(&master).await == "0").await;
    }
    assert_eq!(increment(&redis, SHORT).await.unwrap(), (9, 0), "each was done once");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_and_not_answered_is_unknown_and_what_was_not_sent_is_not() {
    let (mut master, _replica, _proxy) = Node::pair_over_proxy().await;
    let redis = Redis::new(&master.url()).unwrap();
    let sent = AtomicUsize::new(0);
    let attempt = async || {
        let sending = || _ = sent.fetch_add(1, Ordering::SeqCst);
        let call = increment_call("number");
        redis.call_acknowledged::<i64>(&call, 1, PATIENCE, sending).await
    };
    attempt().await.unwrap();
    master.command::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    attempt().await.unwrap(); // the idle connection was found broken before anything was sent
    assert_eq!(sent.load(Ordering::SeqCst), 2);
    master.command::<()>(&["SET", "number", "text"]).await;
    assert!(matches!(attempt().await, Err(LinkError::Defect(_))));
    assert_eq!(sent.load(Ordering::SeqCst), 3);

    master.command::<()>(&["DEL", "number"]).await;
    let number = increment_call("number");
    let call = redis.call_acknowledged::<i64>(&number, 5, PATIENCE, || ());
    let (answer, ()) = tokio::join!(call, async {
        eventually("WAIT waits", async || waiting(&master).await == "1").await;
        master.command::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    });
    assert!(answer.as_ref().is_err_and(LinkError::outcome_unknown), "{answer:?}");

    master.kill();
    let error = attempt().await.unwrap_err();
    assert!(error.retry_may_help() && !error.outcome_unknown(), "{error}");
    assert_eq!(sent.load(Ordering::SeqCst), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_the_replicas_of_the_keys_own_master_are_asked() {
    let cluster = Cluster::start(3).await;
    let redis = Redis::new(&cluster.url()).unwrap();
    let home = cluster.index_of("number").await;
    let replica = cluster.add_replica(home).await;
    assert_eq!(increment(&redis, PATIENCE).await.unwrap(), (1, 1));
    replica.pause();
    assert_eq!(increment(&redis, SHORT).await.unwrap(), (2, 0));
    replica.resume();
    // "foo" and "bar" are in the last and the first third of the slots.
    let elsewhere = if cluster.index_of("foo").await == home { "bar" } else { "foo" };
    let call = increment_call(elsewhere);
    let answer = redis.call_acknowledged::<i64>(&call, 1, SHORT, || ()).await;
    assert_eq!(answer.unwrap(), (1, 0), "that master has no replica");
}
