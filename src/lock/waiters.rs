//! The waiters of a client, and what wakes them.
//!
//! One connection per client listens to the channels of all locks that have waiters. The waiters of
//! one lock form a queue; only the first of a queue talks to Redis, so one release makes one try,
//! however many wait. Whether releases are heard is part of the state: a waiter tries again *after*
//! its subscription was confirmed (no message tells of a release between its miss and the
//! subscription), and whenever the connection is lost.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSub, PubSubSink, PubSubStream};
use tokio::sync::{Notify, OwnedMutexGuard, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::owner::Owner;
use crate::store::timeout::within;
use crate::store::{Redis, StoreError};

/// The longest sleep of the first waiter. The subscription, the pings and the end of the lease wake it
/// earlier; this is for what they do not cover.
const MAX_SLEEP: Duration = Duration::from_secs(10);
/// The same while releases are not heard.
const MAX_DEAF_SLEEP: Duration = Duration::from_secs(1);
/// A connection that brings nothing is asked whether it lives.
const PING_EVERY: Duration = Duration::from_secs(3);
/// A server that does not confirm in this time is taken for gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// After a lost connection: doubled as long as it does not help.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Channels in one command.
const MAX_BATCH: usize = 1000;

/// All queues of a client. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Waiters {
    state: Arc<WaiterState>,
    tracker: TaskTracker,
}

#[derive(Debug)]
struct WaiterState {
    queues: Mutex<Queues>,
    /// Some channel has got its first waiter or lost its last.
    changed: Notify,
    max_waiters: usize,
}

#[derive(Debug, Default)]
struct Queues {
    by_channel: HashMap<String, Entry>,
    /// Channels that the listener has to look at.
    changed: HashSet<String>,
    waiters: usize,
}

#[derive(Debug, Default)]
struct Entry {
    channel: Arc<Channel>,
    /// By owner. Owners that are not shared have one queue together, under the empty name.
    queues: HashMap<String, WaitQueue>,
}

#[derive(Debug, Default)]
struct WaitQueue {
    waiters: usize,
    first: Arc<tokio::sync::Mutex<()>>,
}

/// What the first waiters for one lock listen to.
#[derive(Debug)]
struct Channel {
    /// One release wakes one.
    released: Notify,
    /// Whether the subscription is confirmed. Each change of it, and each time it is only
    /// touched, is a reason for all to try again.
    heard: watch::Sender<bool>,
}

impl Default for Channel {
    fn default() -> Self {
        Self { released: Notify::new(), heard: watch::Sender::new(false) }
    }
}

impl Waiters {
    pub(super) fn start(redis: Redis, max_waiters: usize, stop: CancellationToken) -> Self {
        let (queues, changed) = (Mutex::default(), Notify::new());
        let state = Arc::new(WaiterState { queues, changed, max_waiters });
        let tracker = TaskTracker::new();
        let listener = Arc::clone(&state);
        tracker.spawn(async move {
            tokio::select! {
                () = listener.listen(&redis) => {}
                () = stop.cancelled() => {}
            }
        });
        tracker.close();
        Self { state, tracker }
    }

    /// A place at the end of the queue of `owner` (`None`: of all owners that are not shared).
    /// `None`: too many wait already.
    pub(super) fn enqueue(&self, channel: &str, owner: Option<&Owner>) -> Option<Queued> {
        let owner = owner.map_or("", Owner::field).to_owned();
        let mut queues = self.state.queues();
        if queues.waiters >= self.state.max_waiters {
            return None;
        }
        queues.waiters += 1;
        let name = channel.to_owned();
        let entry = queues.by_channel.entry(name.clone()).or_default();
        let is_new = entry.queues.is_empty();
        let channel = Arc::clone(&entry.channel);
        let queue = entry.queues.entry(owner.clone()).or_default();
        queue.waiters += 1;
        let first = Arc::clone(&queue.first);
        if is_new {
            queues.changed.insert(name.clone());
            self.state.changed.notify_one();
        }
        drop(queues);
        Some(Queued { state: Arc::clone(&self.state), name, owner, channel, first })
    }

    /// Has the first waiter of each queue try again.
    pub(super) fn retry_all(&self, channel: &str) {
        if let Some(entry) = self.state.queues().by_channel.get(channel) {
            entry.channel.heard.send_modify(|_| ());
        }
    }

    /// Whether somebody waits for a message on this channel.
    pub(super) fn are_at(&self, channel: &str) -> bool {
        self.state.queues().by_channel.contains_key(channel)
    }

    /// Until the listener has ended; the client's `stop` must have been given.
    pub(super) async fn shutdown(&self) {
        self.tracker.wait().await;
    }
}

/// A place in a queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(super) struct Queued {
    state: Arc<WaiterState>,
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
        let mut queues = self.state.queues();
        queues.waiters -= 1;
        let Some(entry) = queues.by_channel.get_mut(&self.name) else { return };
        if let Some(queue) = entry.queues.get_mut(&self.owner) {
            queue.waiters -= 1;
            if queue.waiters == 0 {
                entry.queues.remove(&self.owner);
            }
        }
        if entry.queues.is_empty() {
            queues.by_channel.remove(&self.name);
            queues.changed.insert(self.name.clone());
            self.state.changed.notify_one();
        }
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

impl WaiterState {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// The listener. Without an end.
    async fn listen(&self, redis: &Redis) {
        let mut pause = FIRST_PAUSE;
        loop {
            self.until_there_are_waiters().await;
            let begun = Instant::now();
            let problem = match redis.subscriber().await {
                Ok(connection) => self.serve(connection).await,
                Err(error) => error,
            };
            // Before the pause: the waiters heard nothing for an unknown while.
            if self.forget() || begun.elapsed() > MAX_PAUSE {
                pause = FIRST_PAUSE;
                tracing::debug!(%problem, "the connection that hears of releases was lost");
            } else {
                pause = (pause * 2).min(MAX_PAUSE);
                tracing::warn!(%problem, "releases cannot be heard, waiters try now and then");
            }
            sleep(pause).await;
        }
    }

    async fn until_there_are_waiters(&self) {
        while self.queues().by_channel.is_empty() {
            self.changed.notified().await;
        }
    }

    /// Listens on one connection until it is lost.
    async fn serve(&self, connection: PubSub) -> StoreError {
        let (sink, stream) = connection.split();
        {
            let mut queues = self.queues();
            queues.changed = queues.by_channel.keys().cloned().collect();
        }
        tokio::select! {
            problem = self.follow(sink) => problem,
            () = self.hear(stream) => {
                StoreError::from(redis::RedisError::from(std::io::Error::from(
                    std::io::ErrorKind::ConnectionReset,
                )))
            }
        }
    }

    async fn hear(&self, mut stream: PubSubStream) {
        while let Some(message) = stream.next().await {
            if let Some(entry) = self.queues().by_channel.get(message.get_channel_name()) {
                entry.channel.released.notify_one();
            }
        }
    }

    /// Keeps a subscription for each queue, and the connection known to live.
    async fn follow(&self, mut sink: PubSubSink) -> StoreError {
        let mut subscribed = HashSet::new();
        loop {
            let changes = self.changes(&subscribed);
            for names in changes.wanted.chunks(MAX_BATCH) {
                if let Err(problem) = confirmed(sink.subscribe(names)).await {
                    return problem;
                }
                subscribed.extend(names.iter().cloned());
                self.confirm(names);
            }
            for names in changes.unwanted.chunks(MAX_BATCH) {
                if let Err(problem) = confirmed(sink.unsubscribe(names)).await {
                    return problem;
                }
                names.iter().for_each(|name| _ = subscribed.remove(name));
            }
            if timeout(PING_EVERY, self.changed.notified()).await.is_err()
                && let Err(problem) = confirmed(sink.ping::<redis::Value>()).await
            {
                return problem;
            }
        }
    }

    fn changes(&self, subscribed: &HashSet<String>) -> Changes {
        let mut queues = self.queues();
        let mut changes = Changes::default();
        for name in std::mem::take(&mut queues.changed) {
            match (queues.by_channel.get(&name), subscribed.contains(&name)) {
                (Some(_), false) => changes.wanted.push(name),
                // Left and entered again since the last look: still subscribed.
                (Some(entry), true) => _ = entry.channel.heard.send_replace(true),
                (None, true) => changes.unwanted.push(name),
                (None, false) => {}
            }
        }
        changes
    }

    fn confirm(&self, names: &[String]) {
        let queues = self.queues();
        for entry in names.iter().filter_map(|name| queues.by_channel.get(name)) {
            entry.channel.heard.send_replace(true);
        }
    }

    /// Nothing is heard any more. Whether anything was.
    fn forget(&self) -> bool {
        let queues = self.queues();
        let was_heard = |entry: &Entry| {
            entry.channel.heard.send_if_modified(|heard| std::mem::replace(heard, false))
        };
        queues.by_channel.values().filter(|entry| was_heard(entry)).count() > 0
    }
}

#[derive(Default)]
struct Changes {
    wanted: Vec<String>,
    unwanted: Vec<String>,
}

async fn confirmed<T>(
    command: impl Future<Output = redis::RedisResult<T>>,
) -> Result<(), StoreError> {
    match within(ANSWER_TIMEOUT, command).await {
        Ok(answer) => Ok(answer.map(|_| ())?),
        Err(silence) => Err(StoreError::unknown(crate::store::Service::Redis, silence)),
    }
}
