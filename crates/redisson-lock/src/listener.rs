//! The listeners, which hear of releases: one connection for each server whose channels have waiters.
//!
//! A waiter tries again *after* its subscription was confirmed (no message tells of a release between
//! its miss and the subscription), and whenever the connection is lost. In a cluster a slot that moves
//! takes its subscriptions along: that counts as the loss of the connection.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::channels::Channels;
use redis_link::timeout::within;
use redis_link::{LinkError, Redis, Shard, Subscriber, SubscriberSink, SubscriberStream};

/// A connection that brings nothing is asked whether it lives.
const PING_EVERY: Duration = Duration::from_secs(3);
/// A server that does not confirm in this time is taken for gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// After a lost connection: doubled as long as it does not help.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// How long connecting may take, in pauses: 400 ms, and up to 8 s where the server turns out to need that.
const CONNECT_PAUSES: u32 = 8;
/// Channels in one command.
const MAX_BATCH: usize = 1000;

/// Starts the listeners of a client. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Listeners {
    redis: Redis,
    channels: Arc<Channels>,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Listeners {
    pub(super) fn new(redis: Redis, channels: Arc<Channels>, stop: CancellationToken) -> Self {
        let tracker = TaskTracker::new();
        tracker.close();
        Self { redis, channels, stop, tracker }
    }

    /// The server that tells what is published on a channel, as far as is known.
    pub(super) fn shard_of(&self, channel: &str) -> Shard {
        self.redis.shard_of(channel)
    }

    /// Starts to listen at a server. The listener ends when its connection is lost and nothing is left to
    /// listen to there, or with the client.
    pub(super) fn listen(&self, shard: Shard) {
        let listeners = self.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = listeners.until_unneeded(&shard) => {}
                () = listeners.stop.cancelled() => {}
            }
        });
    }

    /// Until all have ended; the client's `stop` must have been given.
    pub(super) async fn ended(&self) {
        self.tracker.wait().await;
    }

    async fn until_unneeded(&self, shard: &Shard) {
        let mut pause = FIRST_PAUSE;
        loop {
            let (problem, lived) =
                match self.redis.subscriber_within(shard, pause * CONNECT_PAUSES).await {
                    Ok(connection) => {
                        let begun = Instant::now();
                        (self.serve(shard, connection).await, begun.elapsed())
                    }
                    Err(error) => (error, Duration::ZERO),
                };
            // Before the pause: the waiters heard nothing for an unknown while.
            if self.channels.forget(shard) || lived > MAX_PAUSE {
                pause = FIRST_PAUSE;
                tracing::debug!(%problem, "the connection that hears of releases was lost");
            } else {
                pause = (pause * 2).min(MAX_PAUSE);
                tracing::warn!(%problem, "releases cannot be heard, waiters try now and then");
            }
            sleep(pause).await;
            self.redis.subscription_lost(shard).await;
            let shard_of = |channel: &str| self.shard_of(channel);
            let (unheard, stays) = self.channels.relocate(shard, shard_of);
            unheard.into_iter().for_each(|shard| self.listen(shard));
            if !stays {
                return;
            }
        }
    }

    /// Listens on one connection until it is lost.
    async fn serve(&self, shard: &Shard, connection: Subscriber) -> LinkError {
        let (sink, stream) = connection.split();
        self.channels.subscribe_all(shard);
        tokio::select! {
            problem = self.follow(shard, sink) => problem,
            () = self.hear(stream) => {
                LinkError::from(redis::RedisError::from(std::io::Error::from(
                    std::io::ErrorKind::ConnectionReset,
                )))
            }
        }
    }

    async fn hear(&self, mut stream: SubscriberStream) {
        while let Some(message) = stream.next().await {
            self.channels.released(message.get_channel_name());
        }
    }

    /// Keeps a subscription for each queue, and the connection known to live.
    async fn follow(&self, shard: &Shard, mut sink: SubscriberSink) -> LinkError {
        let changed = self.channels.changed(shard);
        let mut subscribed = HashSet::new();
        loop {
            let changes = self.channels.changes(shard, &subscribed);
            for names in changes.wanted.chunks(MAX_BATCH) {
                if let Err(problem) = confirmed(sink.subscribe(names)).await {
                    return problem;
                }
                subscribed.extend(names.iter().cloned());
                self.channels.confirm(shard, names);
            }
            for names in changes.unwanted.chunks(MAX_BATCH) {
                if let Err(problem) = confirmed(sink.unsubscribe(names)).await {
                    return problem;
                }
                names.iter().for_each(|name| _ = subscribed.remove(name));
            }
            if timeout(PING_EVERY, changed.notified()).await.is_err()
                && let Err(problem) = confirmed(sink.ping()).await
            {
                return problem;
            }
        }
    }
}

async fn confirmed(command: impl Future<Output = redis::RedisResult<()>>) -> Result<(), LinkError> {
    match within(ANSWER_TIMEOUT, command).await {
        Ok(answer) => Ok(answer?),
        Err(silence) => Err(LinkError::unknown(silence)),
    }
}
