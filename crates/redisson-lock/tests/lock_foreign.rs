//! Locks over connections that the program has made itself.

use std::time::Duration;

use redis::Client;
use redis_link::{PooledBy, Redis, SharedBy, deadpool_redis};
use redisson_lock::{Lease, LockClient, LockOptions};

use crate::world::{LONG, waiting};
use testkit::redis_nodes::Node;
use testkit::wait::{eventually, must};

/// Through every script: plain, fair, fenced, acknowledged, waited for, renewed, broken open.
#[tokio::test(flavor = "multi_thread")]
async fn connections_of_the_program_carry_locks_and_hear_of_releases_where_a_client_is_given() {
    let node = Node::start(&[]).await;
    let client = Client::open(node.url()).unwrap();
    let shared = client.get_multiplexed_async_connection().await.unwrap();
    let manager = deadpool_redis::Manager::new(node.url()).unwrap();
    let pool = deadpool_redis::Pool::builder(manager).max_size(2).build().unwrap();
    let theirs = LockClient::new(Redis::new(&node.url()).unwrap(), LockOptions::default());
    let (theirs, short) = (theirs.lock("l"), Duration::from_millis(600));
    for (redis, hears) in [
        (Redis::over(SharedBy::new(shared.clone(), Some(client.clone()))), true),
        (Redis::over(SharedBy::new(shared, None)), false),
        (Redis::over(PooledBy::new(pool.clone(), Some(client))), true),
    ] {
        let locks = LockClient::new(redis, LockOptions::default().lease(Lease::Renewed(LONG)));
        let ours = locks.lock("l");
        for lock in [
            ours.clone(),
            ours.clone().fair().fenced(),
            ours.clone().acknowledged_by(0, short / 2).lease(Lease::Renewed(short)),
        ] {
            let guard = lock.acquire().await.unwrap();
            assert!(theirs.try_acquire().await.unwrap().is_none());
            guard.release().await.unwrap();
        }
        let held = theirs.acquire().await.unwrap();
        let waiter = waiting(&ours);
        if hears {
            eventually("it listens", async || {
                node.command::<Vec<String>>(&["PUBSUB", "CHANNELS"]).await.len() == 1
            })
            .await;
        }
        held.release().await.unwrap();
        let guard = must("it enters", waiter).await.unwrap().unwrap();
        assert_eq!(locks.held_locks("*", 10).await.unwrap().found.len(), 1);
        assert!(theirs.force_release().await.unwrap());
        drop(guard);
        locks.shutdown().await;
    }
    assert!(pool.status().size > 0 && pool.status().size <= 2);
}
