//! Connections that the server closes while nobody uses them: idle ones, and all of them in a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use faults::{Fault, Proxy};
use redis_link::{OutageEvent, Redis};
use testkit::redis_nodes::{Cluster, Node, Sentinels};
use testkit::wait::{PATIENCE, eventually};

use crate::{increment_alone, increment_call};

async fn close_all(node: &Node) {
    node.command::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]).await;
}

/// Waits until the server has nobody but the one who asks.
async fn is_alone(node: &Node) {
    eventually("the server closes what is idle", async || {
        node.command::<String>(&["CLIENT", "LIST"]).await.lines().count() == 1
    })
    .await;
}

async fn increment(redis: &Redis, key: &str) -> i64 {
    redis.query(redis::cmd("INCR").arg(key)).await.unwrap()
}

/// A handle, and how many outages it told of.
fn watched(url: &str) -> (Redis, Arc<AtomicUsize>) {
    let outages = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&outages);
    let listener = Arc::new(move |event: OutageEvent<'_>| {
        if matches!(event, OutageEvent::Began(_)) {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (Redis::new(url).unwrap().on_outage(listener), outages)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_closed_while_idle_or_by_a_restart_is_replaced_before_it_is_used() {
    let mut node = Node::start(&[]).await;
    for url in [node.url(), node.socket_url()] {
        let (redis, outages) = watched(&url);
        increment(&redis, "n").await;
        // One second is the shortest that there is.
        node.command::<()>(&["CONFIG", "SET", "timeout", "1"]).await;
        is_alone(&node).await;
        node.command::<()>(&["CONFIG", "SET", "timeout", "0"]).await;
        eventually("it is noticed", async || redis.generation().is_none()).await;
        increment(&redis, "n").await;
        node.restart().await;
        eventually("it is noticed", async || redis.generation().is_none()).await;
        assert_eq!(increment(&redis, "n").await, 1);
        assert_eq!(outages.load(Ordering::SeqCst), 0, "nobody was turned away");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_have_been_sent_is_never_sent_again() {
    let node = Node::start(&[]).await;
    let proxy = Proxy::start(&node.socket_url()).await.unwrap();
    let (redis, name) = (Redis::new(proxy.url()).unwrap(), "n");
    assert_eq!(increment(&redis, name).await, 1);
    for (fault, done) in [(Fault::LoseAnswer, 2), (Fault::LoseRequest, 2), (Fault::Deaf, 2)] {
        proxy.break_by(fault);
        let answer = redis.query::<i64>(redis::cmd("INCR").arg(name)).await;
        assert!(answer.is_err_and(|error| error.outcome_unknown()), "{fault:?}");
        eventually("it was done once", async || node.command::<i64>(&["GET", name]).await == done)
            .await;
        // The network is well again; a connection that went deaf will never answer.
        proxy.break_by(Fault::None);
        redis.ping().await.unwrap();
    }
}

/// On one thread: the request is made before the task of the connection has seen that it was closed.
#[tokio::test]
async fn a_request_that_met_a_closed_connection_was_not_sent_and_is_sent_again() {
    let (node, cluster) = (Node::start(&[]).await, Cluster::start(3).await);
    let sentinels = Sentinels::start(&node, 1, 1).await;
    let masters = cluster.nodes.iter().collect();
    for (url, nodes) in
        [(node.url(), vec![&node]), (sentinels.url(), vec![&node]), (cluster.url(), masters)]
    {
        let (redis, outages) = watched(&url);
        for count in 1..=5 {
            for key in ["a", "b", "c", "d"] {
                assert_eq!(increment(&redis, &format!("{key} {url}")).await, count);
            }
            for node in &nodes {
                close_all(node).await;
            }
        }
        assert_eq!(outages.load(Ordering::SeqCst), 0, "{url}");
    }
}

#[tokio::test]
async fn dedicated_connections_that_were_closed_are_replaced() {
    let node = Node::start(&[]).await;
    let (redis, _) = watched(&node.url());
    for count in 1..=5 {
        assert_eq!(increment_alone(&redis).await.unwrap(), count);
        assert_eq!(node.command::<String>(&["CLIENT", "LIST"]).await.lines().count(), 2);
        close_all(&node).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_slow_to_connect_to_is_used_when_nobody_waits_so_long() {
    let node = Node::start(&[]).await;
    // Below the time that a caller waits, and beyond it.
    for slow_ms in [300, 600, 1500] {
        let proxy = Proxy::start(&node.url()).await.unwrap();
        proxy.slow_down(Duration::from_millis(slow_ms));
        let redis = Redis::new(proxy.url()).unwrap();
        for _reconnected in [false, true] {
            eventually("it answers", async || redis.ping().await.is_ok()).await;
            proxy.break_by(Fault::Down);
            eventually("it notices", async || redis.ping().await.is_err()).await;
            proxy.break_by(Fault::None);
        }
        // Of a subscriber, too, who says how long it may take.
        let patient = redis.subscriber_within(&redis.shard_of("channel"), PATIENCE).await;
        patient.unwrap().split().0.subscribe(&["channel".to_owned()]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_hangs_keeps_nobody_from_a_server_that_answers_at_once() {
    let node = Node::start(&[]).await;
    let proxy = Proxy::start(&node.url()).await.unwrap();
    let redis = Redis::new(proxy.url()).unwrap();
    proxy.slow_down(Duration::from_secs(3600));
    redis.ping().await.unwrap_err();
    proxy.slow_down(Duration::ZERO);
    assert_eq!(increment(&redis, "n").await, 1);
}

/// Reads are answered all the while, and say nothing about the writes.
#[tokio::test]
async fn a_server_without_memory_is_away_until_a_write_works() {
    let node = Node::start(&[]).await;
    let (redis, outages) = watched(&node.url());
    let call = increment_call("n");
    redis.invoke::<i64>(&call).await.unwrap();
    for round in 1..=2 {
        node.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
        for _ in 0..50 {
            redis.invoke::<i64>(&call).await.unwrap_err();
            redis.query::<i64>(redis::cmd("INCR").arg("m")).await.unwrap_err();
            let both = redis.call_all(&[call.clone(), call.clone()], |_| ()).await.unwrap();
            assert!(both.iter().all(Result::is_err));
            redis.ping().await.unwrap();
        }
        assert_eq!(outages.load(Ordering::SeqCst), round);
        node.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;
        redis.invoke::<i64>(&call).await.unwrap();
    }
}
