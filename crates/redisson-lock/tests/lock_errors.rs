//! What an error tells, when, and what lies behind it.

use std::error::Error;
use std::time::Duration;

use redis_link::{LinkError, Redis};
use redisson_lock::{LockClient, LockError, LockOptions};

use crate::world::World;
use testkit::redis_nodes::Node;
use testkit::wait::must;

#[tokio::test]
async fn the_source_of_an_error_is_its_cause_and_its_text_ends_with_that_of_the_source() {
    let nowhere = testkit::closed_port::ClosedPort::take();
    let redis = Redis::new(&format!("redis://127.0.0.1:{}/", nowhere.number)).unwrap();
    let locks = LockClient::new(redis, LockOptions::default());
    let away = locks.lock("l").try_acquire().await.unwrap_err();
    assert!(matches!(away, LockError::Redis(LinkError::Unavailable(_))), "{away}");
    let source = away.source().expect("nothing lies behind the error");
    assert!(away.to_string().ends_with(&source.to_string()), "{away} | {source}");
    assert!(source.is::<std::io::Error>(), "{source:?}");
    // What the server refuses has an error of the redis crate behind it.
    let world = World::new().await;
    let refused = world.redis.query::<()>(&redis::cmd("NOSUCHCOMMAND")).await.unwrap_err();
    let source = refused.source().and_then(|source| source.downcast_ref::<redis::RedisError>());
    assert_eq!(source.and_then(|source| source.code()), Some("ERR"), "{refused:?}");
}

/// With a patience of an hour for outages.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_waiting_mends_is_told_at_once() {
    let node = Node::start(&[]).await;
    node.url_of_user(&["~*", "&*", "+@all"]).await;
    node.command::<()>(&["CONFIG", "SET", "requirepass", "secret"]).await;
    let url = |login: &str| node.url().replace("://", &format!("://{login}"));
    let options = LockOptions::default().outage_patience(Duration::from_secs(3600));
    for url in [url("u:wrong@"), url("nobody:p@"), url(""), url(":secret@") + "/99"] {
        let lock = LockClient::new(Redis::new(&url).unwrap(), options).lock("l");
        for lock in [lock.clone(), lock.acknowledged_by(0, Duration::from_millis(1))] {
            let error = must("it is told", lock.acquire()).await.unwrap_err();
            assert!(error.is_misconfigured() && !error.outcome_unknown(), "{url}: {error}");
        }
    }
}
