//! What lies behind an error is kept.

use std::error::Error;

use redis_link::{LinkError, Redis};
use redisson_lock::{LockClient, LockError, LockOptions};

use crate::world::World;

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
}

#[tokio::test]
async fn the_error_of_the_redis_crate_is_found_behind_what_the_server_refuses() {
    let world = World::new().await;
    let refused = world.redis.query::<()>(&redis::cmd("NOSUCHCOMMAND")).await.unwrap_err();
    let source = refused.source().and_then(|source| source.downcast_ref::<redis::RedisError>());
    assert_eq!(source.and_then(|source| source.code()), Some("ERR"), "{refused:?}");
}
