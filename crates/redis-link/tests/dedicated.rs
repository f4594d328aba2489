//! Connections that are not shared: a pool of `deadpool-redis` for each server.

use faults::{Fault, Proxy};
use futures_util::future::join_all;
use redis_link::Redis;

use crate::increment_alone;
use testkit::redis_nodes::Node;

async fn connections_so_far(node: &Node) -> u64 {
    node.field(&["INFO", "stats"], "total_connections_received").await.parse().unwrap()
}

/// Size and free ones.
pub fn pool(redis: &Redis) -> Option<(usize, usize)> {
    redis.pool_status().map(|status| (status.size, status.available))
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_at_once_have_as_many_connections_as_the_pool_is_large() {
    let node = Node::start(&[]).await;
    let redis = Redis::new(&node.url()).unwrap();
    assert_eq!(pool(&redis), None, "nothing is connected before it is needed");
    let before = connections_so_far(&node).await;
    assert_eq!(increment_alone(&redis).await.unwrap(), 1);
    assert_eq!(pool(&redis), Some((1, 1)));
    for answer in join_all((0..300).map(|_| increment_alone(&redis))).await {
        answer.unwrap();
    }
    let status = redis.pool_status().unwrap();
    assert_eq!((status.max_size, status.waiting), (32, 0));
    assert!(status.size <= 32 && status.available == status.size, "{status:?}");
    // The one that asked for the number is counted, too.
    let made = connections_so_far(&node).await - before - 1;
    assert_eq!(made, status.size as u64);
}

/// What recycling sends, `UNWATCH` and `PING`, the user of the manual may.
#[tokio::test]
async fn a_user_who_may_unwatch_has_one_connection_for_calls_one_after_the_other() {
    let node = Node::start(&[]).await;
    let rules = ["~*", "+ping", "+evalsha", "+script|load", "+incr", "+wait", "+unwatch"];
    let redis = Redis::new(&node.url_of_user(&rules).await).unwrap();
    let before = connections_so_far(&node).await;
    for count in 1..=10 {
        assert_eq!(increment_alone(&redis).await.unwrap(), count);
    }
    assert_eq!(connections_so_far(&node).await - before, 2);
    let manual = include_str!("../../../docs/locks.md");
    assert!(manual.contains("`acknowledged_by` needs `+wait +unwatch`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_of_a_server_that_is_gone_or_silent_is_left() {
    let node = Node::start(&[]).await;
    let proxy = Proxy::start(&node.url()).await.unwrap();
    let redis = Redis::new(proxy.url()).unwrap();
    for fault in [Fault::Down, Fault::Deaf] {
        increment_alone(&redis).await.unwrap();
        assert_eq!(pool(&redis), Some((1, 1)));
        proxy.break_by(fault);
        let error = increment_alone(&redis).await.unwrap_err();
        assert!(!error.outcome_unknown(), "{fault:?}: {error}");
        // Who is cut off after it was let in knows of no refusal.
        let names_it = error.to_string().contains(&proxy.port().to_string());
        assert!(names_it || matches!(fault, Fault::Down), "{fault:?}: {error}");
        assert_eq!(pool(&redis), None);
        proxy.break_by(Fault::None);
    }
}
