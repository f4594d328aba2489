//! Locks over connections that the program has made itself.

use std::time::Duration;

use redis::Client;
use redis_link::{AnyConnection, LinkError, PooledBy, Redis, SharedBy};
use redisson_lock::{Lease, LockClient, LockOptions};
use testkit::redis_nodes::Node;
use testkit::wait::{eventually, must};

const HOUR: Duration = Duration::from_secs(3600);

fn locks(connection: impl AnyConnection) -> LockClient {
    LockClient::new(Redis::over(connection), LockOptions::default().lease(Lease::Renewed(HOUR)))
}

/// Through every script: plain, fair, fenced, acknowledged, waited for, renewed, broken open.
async fn does_all_that_a_lock_does(node: &Node, ours: &LockClient, hears: bool) {
    let theirs = LockClient::new(Redis::new(&node.url()).unwrap(), LockOptions::default());
    let short = Duration::from_millis(600);
    for lock in [
        ours.lock("l"),
        ours.lock("l").fair().fenced(),
        ours.lock("l").acknowledged_by(0, short / 2).lease(Lease::Renewed(short)),
    ] {
        let guard = lock.acquire().await.unwrap();
        assert!(theirs.lock("l").try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
    }
    let held = theirs.lock("l").acquire().await.unwrap();
    let waiting = tokio::spawn(ours.lock("l").acquire());
    if hears {
        eventually("it listens", async || {
            node.command::<Vec<String>>(&["PUBSUB", "CHANNELS"]).await.len() == 1
        })
        .await;
    }
    held.release().await.unwrap();
    let guard = must("it enters", waiting).await.unwrap().unwrap();
    assert_eq!(ours.held_locks("*", 10).await.unwrap().found.len(), 1);
    assert!(theirs.lock("l").force_release().await.unwrap());
    drop(guard);
    ours.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_the_program_carries_locks_and_hears_of_releases_where_a_client_is_given() {
    let node = Node::start(&[]).await;
    let client = Client::open(node.url()).unwrap();
    for hears in [true, false] {
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        let hearing = hears.then(|| client.clone());
        let ours = locks(SharedBy::new(connection, hearing));
        does_all_that_a_lock_does(&node, &ours, hears).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_the_program_carries_locks() {
    let node = Node::start(&[]).await;
    let manager = deadpool_redis::Manager::new(node.url()).unwrap();
    let pool = deadpool_redis::Pool::builder(manager).max_size(2).build().unwrap();
    let client = Client::open(node.url()).unwrap();
    does_all_that_a_lock_does(&node, &locks(PooledBy::new(pool.clone(), Some(client))), true).await;
    assert!(pool.status().size > 0 && pool.status().size <= 2);
}

#[tokio::test]
async fn what_was_certainly_not_sent_is_told_apart_from_what_may_have_been() {
    let mut node = Node::start(&[]).await;
    let client = Client::open(node.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let shared = Redis::over(SharedBy::new(connection, None));
    let manager = deadpool_redis::Manager::new(node.url()).unwrap();
    let pooled = Redis::over(PooledBy::new(
        deadpool_redis::Pool::builder(manager).max_size(1).build().unwrap(),
        None,
    ));
    shared.ping().await.unwrap();
    pooled.ping().await.unwrap();
    node.kill();
    let error = shared.ping().await.unwrap_err();
    assert!(matches!(error, LinkError::Unknown(_)), "nobody knows what became of it: {error}");
    let error = pooled.ping().await.unwrap_err();
    assert!(matches!(error, LinkError::Unavailable(_)), "there was no connection: {error}");
}

#[tokio::test]
async fn a_pool_with_a_wrong_password_is_told_at_once_and_not_tried_again() {
    let node = Node::start(&["--requirepass", "right"]).await;
    let url = node.url().replace("://", "://:wrong@");
    let manager = deadpool_redis::Manager::new(url).unwrap();
    let pool = deadpool_redis::Pool::builder(manager).max_size(1).build().unwrap();
    let error = Redis::over(PooledBy::new(pool, None)).ping().await.unwrap_err();
    assert!(matches!(error, LinkError::Misconfigured(_)), "{error}");
}
