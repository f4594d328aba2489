//! A connection that hears what is published.
//!
//! In a cluster a message is either plain, which every node tells, or sharded, which only the shard
//! of its channel's slot tells. A subscriber there hears both kinds: Redisson 3.19 and later
//! publishes the sharded one alone, everybody else the plain one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use redis::aio::{PubSub, PubSubSink, PubSubStream};
use redis::{ErrorKind, Msg, PushInfo, PushKind, RedisResult, ServerErrorKind, Value};
use tokio::sync::mpsc::UnboundedReceiver;

use super::link::Link;

/// A connection that receives what is published, from [`Redis::subscriber`](super::Redis::subscriber): both halves of it.
pub struct Subscriber {
    sink: SubscriberSink,
    stream: SubscriberStream,
}

/// The half that subscribes.
pub struct SubscriberSink(Sink);

/// The half that receives. When it is dropped the other half is of no use any more.
pub struct SubscriberStream(Stream);

enum Sink {
    Plain(PubSubSink),
    Sharded(ShardedSink),
}

enum Stream {
    Plain(PubSubStream),
    Sharded { pushes: UnboundedReceiver<PushInfo>, given_up: GivenUp },
}

struct ShardedSink {
    link: Link,
    given_up: GivenUp,
}

/// Channels whose sharded subscription was given up by us, and not yet by the server.
#[derive(Clone, Default)]
struct GivenUp(Arc<Mutex<HashSet<Vec<u8>>>>);

impl GivenUp {
    fn channels(&self) -> MutexGuard<'_, HashSet<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber {
    /// Of plain messages.
    pub(super) fn plain(connection: PubSub) -> Self {
        let (sink, stream) = connection.split();
        let (sink, stream) = (Sink::Plain(sink), Stream::Plain(stream));
        Self { sink: SubscriberSink(sink), stream: SubscriberStream(stream) }
    }

    /// Of both kinds, through a connection that has `pushes` told.
    pub(super) fn sharded(link: Link, pushes: UnboundedReceiver<PushInfo>) -> Self {
        let given_up = GivenUp::default();
        let sink = Sink::Sharded(ShardedSink { link, given_up: given_up.clone() });
        let stream = Stream::Sharded { pushes, given_up };
        Self { sink: SubscriberSink(sink), stream: SubscriberStream(stream) }
    }

    /// The two halves, which work side by side.
    #[must_use]
    pub fn split(self) -> (SubscriberSink, SubscriberStream) {
        (self.sink, self.stream)
    }
}

impl SubscriberSink {
    /// Subscribes to these channels; done when the server has confirmed all.
    ///
    /// # Errors
    /// Those of the server: in a cluster `MOVED` when a channel is not of this shard. Some may be
    /// subscribed to then.
    pub async fn subscribe(&mut self, channels: &[String]) -> RedisResult<()> {
        match &mut self.0 {
            Sink::Plain(sink) => sink.subscribe(channels).await,
            Sink::Sharded(sink) => {
                sink.link.connection.subscribe(channels).await?;
                sink.send_each("SSUBSCRIBE", channels).await.map(drop)
            }
        }
    }

    /// Ends these subscriptions.
    ///
    /// # Errors
    /// As [`SubscriberSink::subscribe`].
    pub async fn unsubscribe(&mut self, channels: &[String]) -> RedisResult<()> {
        match &mut self.0 {
            Sink::Plain(sink) => sink.unsubscribe(channels).await,
            Sink::Sharded(sink) => {
                sink.link.connection.unsubscribe(channels).await?;
                let names = channels.iter().map(|name| name.as_bytes().to_vec());
                sink.given_up.channels().extend(names);
                if !sink.send_each("SUNSUBSCRIBE", channels).await? {
                    // Nobody will say that they are given up.
                    sink.given_up.channels().clear();
                }
                Ok(())
            }
        }
    }

    /// Whether the server is still there.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn ping(&mut self) -> RedisResult<()> {
        match &mut self.0 {
            Sink::Plain(sink) => sink.ping::<Value>().await.map(|_| ()),
            Sink::Sharded(sink) => {
                redis::cmd("PING").query_async::<Value>(&mut sink.link.connection).await.map(|_| ())
            }
        }
    }
}

impl ShardedSink {
    /// One command a channel: the channels of one command have to be of one slot. Whether the server
    /// knows such commands.
    async fn send_each(&mut self, command: &str, channels: &[String]) -> RedisResult<bool> {
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors();
        for channel in channels {
            pipeline.cmd(command).arg(channel);
        }
        let answers: Vec<RedisResult<Value>> =
            pipeline.query_async(&mut self.link.connection).await?;
        let mut is_known = true;
        for error in answers.into_iter().filter_map(Result::err) {
            if !knows_no_shards(&error) {
                return Err(error);
            }
            is_known = false;
        }
        Ok(is_known)
    }
}

/// Before Redis 7 there are only plain messages.
fn knows_no_shards(error: &redis::RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ResponseError)
        && error.detail().is_some_and(|detail| detail.starts_with("unknown command"))
}

impl SubscriberStream {
    /// The next message. `None`: the connection is lost, or a subscription was ended by the server
    /// because its slot has moved. Then nothing more is heard.
    pub async fn next(&mut self) -> Option<Msg> {
        match &mut self.0 {
            Stream::Plain(stream) => stream.next().await,
            Stream::Sharded { pushes, given_up } => loop {
                let push = pushes.recv().await?;
                match push.kind {
                    PushKind::Message | PushKind::SMessage => {
                        if let Some(message) = Msg::from_push_info(push) {
                            return Some(message);
                        }
                    }
                    // The `redis` crate takes one that nobody asked for as the answer to whatever was
                    // asked last: another reason to leave the connection.
                    PushKind::SUnsubscribe if !was_given_up(&push, given_up) => return None,
                    PushKind::Disconnection => return None,
                    _ => {}
                }
            },
        }
    }
}

fn was_given_up(push: &PushInfo, given_up: &GivenUp) -> bool {
    match push.data.first() {
        Some(Value::BulkString(channel)) => given_up.channels().remove(channel),
        _ => false,
    }
}
