//! The Redis handle where Redis is more than one server.

mod acknowledged;
mod cluster;
mod failover;
mod refused;

use std::time::Duration;

use redis_link::{LinkError, Redis, Subscriber, SubscriberSink, SubscriberStream};

use testkit::redis_nodes::Node;
use testkit::wait::{eventually, must};

/// Asks until the handle finds a server that does it; only what may help is tried again.
async fn set(redis: &Redis, key: &str, value: &str) {
    eventually("the handle works", async || {
        let answer: Result<(), LinkError> =
            redis.query(redis::cmd("SET").arg(key).arg(value)).await;
        match answer {
            Ok(()) => true,
            Err(error) if error.retry_may_help() => false,
            Err(error) => panic!("{error}"),
        }
    })
    .await;
}

/// A connection to where the channel is told.
async fn subscriber(redis: &Redis, channel: &str) -> Result<Subscriber, LinkError> {
    redis.subscriber(&redis.shard_of(channel)).await
}

/// A subscriber that has the server's word for it.
pub async fn listening(redis: &Redis, channel: &str) -> (SubscriberSink, SubscriberStream) {
    let (mut sink, stream) = subscriber(redis, channel).await.unwrap().split();
    must("the subscription is confirmed", sink.subscribe(&[channel.to_owned()])).await.unwrap();
    (sink, stream)
}

pub async fn heard(subscriber: &mut (SubscriberSink, SubscriberStream)) -> Option<String> {
    let message = must("something is heard, or the end", subscriber.1.next()).await;
    message.map(|message| message.get_payload().unwrap())
}

/// Of a server that went silent the stream says nothing, for ever; a ping finds it out.
#[tokio::test]
async fn a_subscriber_hears_the_end_of_a_server_and_finds_its_silence_by_a_ping() {
    let mut node = Node::start(&[]).await;
    let redis = Redis::new(&node.url()).unwrap();
    let (mut sink, mut stream) = subscriber(&redis, "channel").await.unwrap().split();
    must("a pong", sink.ping()).await.unwrap();
    let channel = ["channel".to_owned()];
    must("the subscription is confirmed", sink.subscribe(&channel)).await.unwrap();
    must("a pong", sink.ping()).await.unwrap();
    node.command::<()>(&["PUBLISH", "channel", "hello"]).await;
    let message = must("the message", stream.next()).await.unwrap();
    assert_eq!(message.get_payload::<String>().unwrap(), "hello");

    node.pause();
    let pong = sink.ping();
    assert!(tokio::time::timeout(Duration::from_millis(300), pong).await.is_err());
    // Nor is there a new one: the kernel accepts, and nobody greets.
    assert!(matches!(subscriber(&redis, "channel").await, Err(LinkError::Unavailable(_))));
    node.resume();
    must("the late pong", sink.ping()).await.unwrap();

    node.kill();
    assert!(must("the end", stream.next()).await.is_none());
    assert!(must("an error", sink.ping()).await.is_err());
    assert!(subscriber(&redis, "channel").await.is_err_and(|error| error.retry_may_help()));
}
