//! What the connections that a program has made itself say when they fail.

use redis::Client;
use redis_link::{LinkError, PooledBy, Redis, SharedBy};
use testkit::redis_nodes::Node;

/// A pool of one.
fn pooled(url: String) -> Redis {
    let manager = deadpool_redis::Manager::new(url).unwrap();
    let pool = deadpool_redis::Pool::builder(manager).max_size(1).build().unwrap();
    Redis::over(PooledBy::new(pool, None))
}

#[tokio::test]
async fn what_was_certainly_not_sent_is_told_apart_from_what_may_have_been() {
    let mut node = Node::start(&[]).await;
    let client = Client::open(node.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let shared = Redis::over(SharedBy::new(connection, None));
    let pooled = pooled(node.url());
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
    let error = pooled(url).ping().await.unwrap_err();
    assert!(matches!(error, LinkError::Misconfigured(_)), "{error}");
}
