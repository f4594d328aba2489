//! The waiters of a client: their queues, and their sleep.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::channels::{Channel, Channels};
use super::listener::Listeners;
use super::owner::Owner;
use redis_link::Redis;

/// The longest sleep of the first waiter. A message, a lost connection and the end of the lease wake it
/// earlier; this is for what these do not cover.
const MAX_SLEEP: Duration = Duration::from_secs(10);
/// The same while releases are not heard.
const MAX_DEAF_SLEEP: Duration = Duration::from_secs(1);

/// All queues of a client. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Waiters {
    channels: Arc<Channels>,
    listeners: Listeners,
}

impl Waiters {
    pub(super) fn new(redis: Redis, max_waiters: usize, stop: CancellationToken) -> Self {
        let channels = Arc::new(Channels::new(max_waiters));
        let listeners = Listeners::new(redis, Arc::clone(&channels), stop);
        Self { channels, listeners }
    }

    /// A place at the end of the queue of `owner` (`None`: of all owners that are not shared).
    /// `None`: too many wait already.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(super) fn enqueue(&self, channel: &str, owner: Option<&Owner>) -> Option<Queued> {
        let (name, owner) = (channel.to_owned(), owner.map_or("", Owner::field).to_owned());
        let place = self.channels.enter(channel, &owner, || self.listeners.shard_of(channel))?;
        if let Some(shard) = place.unheard {
            self.listeners.listen(shard);
        }
        let (channel, first) = (place.channel, place.first);
        Some(Queued { channels: Arc::clone(&self.channels), name, owner, channel, first })
    }

    /// Has the first waiter of each queue try again.
    pub(super) fn retry_all(&self, channel: &str) {
        self.channels.retry_all(channel);
    }

    /// Whether somebody waits for a message on this channel.
    pub(super) fn are_at(&self, channel: &str) -> bool {
        self.channels.has_waiters(channel)
    }

    /// Until nobody listens any more; the client's `stop` must have been given.
    pub(super) async fn shutdown(&self) {
        self.listeners.ended().await;
    }
}

/// A place in a queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(super) struct Queued {
    channels: Arc<Channels>,
    name: String,
    owner: String,
    channel: Arc<Channel>,
    first: Arc<tokio::sync::Mutex<()>>,
}

impl Queued {
    /// Waits to be the first in the queue.
    pub(super) async fn first(self) -> First {
        let first = Arc::clone(&self.first).lock_owned().await;
        let heard = self.channel.heard.subscribe();
        First { _first: first, heard, queued: self }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.channels.leave(&self.name, &self.owner);
    }
}

/// The first place in a queue.
#[derive(Debug)]
pub(super) struct First {
    _first: OwnedMutexGuard<()>,
    heard: watch::Receiver<bool>,
    queued: Queued,
}

impl First {
    /// Whether a release from now on is heard.
    pub(super) fn is_listening(&mut self) -> bool {
        *self.heard.borrow_and_update()
    }

    /// Sleeps until there is a reason to try again: a release, a change in what is heard,
    /// or `until`.
    pub(super) async fn sleep(&mut self, listening: bool, until: Option<Instant>) -> Option<Woken> {
        let longest = Instant::now() + if listening { MAX_SLEEP } else { MAX_DEAF_SLEEP };
        tokio::select! {
            biased;
            () = self.queued.channel.released.notified() => {
                Some(Woken { channel: Some(Arc::clone(&self.queued.channel)) })
            }
            _ = self.heard.changed() => None,
            () = sleep_until(until.map_or(longest, |until| until.min(longest))) => None,
        }
    }
}

/// A waiter was woken by a release and has to try. If it is cancelled before it has tried, another
/// waiter is woken.
#[derive(Debug)]
pub(super) struct Woken {
    channel: Option<Arc<Channel>>,
}

impl Woken {
    pub(super) fn used(mut self) {
        self.channel = None;
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.take() {
            channel.released.notify_one();
        }
    }
}
