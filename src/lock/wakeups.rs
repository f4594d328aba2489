//! Who waits for which lock, and what wakes them.
//!
//! One connection per client listens to the channels of all locks that somebody waits for.
//! The waiters of one lock stand in line; only the first of a line talks to Redis, so one
//! release makes one try, however many wait. What is known to be heard is part of the
//! state: a waiter tries again *after* its subscription was confirmed (a release between
//! its miss and the subscription was told to nobody), and whenever the connection is lost.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSub, PubSubSink, PubSubStream};
use tokio::sync::{Notify, OwnedMutexGuard, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Owner;
use crate::store::patience::within;
use crate::store::{Redis, StoreError};

/// The longest sleep of the first in line. The subscription, the pings and the end of the
/// lease come earlier; this is for what none of us thought of.
const MAX_SLEEP: Duration = Duration::from_secs(10);
/// The same while nothing can be heard.
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

/// All lines of a client.
#[derive(Debug)]
pub(super) struct Wakeups {
    shared: Arc<Shared>,
    tracker: TaskTracker,
}

#[derive(Debug)]
struct Shared {
    lines: Mutex<Lines>,
    /// Some channel has got its first waiter or lost its last.
    changed: Notify,
    max_waiters: usize,
}

#[derive(Debug, Default)]
struct Lines {
    by_channel: HashMap<String, Entry>,
    /// Channels that the listener has to look at.
    changed: HashSet<String>,
    waiters: usize,
}

#[derive(Debug, Default)]
struct Entry {
    channel: Arc<Channel>,
    /// By owner; the empty name is of all who have their owner for themselves.
    lines: HashMap<String, Line>,
}

#[derive(Debug, Default)]
struct Line {
    waiters: usize,
    first: Arc<tokio::sync::Mutex<()>>,
}

/// What the first of the lines of one lock listen to.
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

impl Wakeups {
    pub(super) fn start(redis: Redis, max_waiters: usize, stop: CancellationToken) -> Self {
        let (lines, changed) = (Mutex::default(), Notify::new());
        let shared = Arc::new(Shared { lines, changed, max_waiters });
        let tracker = TaskTracker::new();
        let listener = Arc::clone(&shared);
        tracker.spawn(async move {
            tokio::select! {
                () = listener.listen(&redis) => {}
                () = stop.cancelled() => {}
            }
        });
        tracker.close();
        Self { shared, tracker }
    }

    /// A place at the end of the line of `owner` (`None`: of all who are their only one).
    /// `None`: too many wait already.
    pub(super) fn line_up(&self, channel: &str, owner: Option<&Owner>) -> Option<Place> {
        let line_of = owner.map_or("", Owner::field).to_owned();
        let mut lines = self.shared.lines();
        if lines.waiters >= self.shared.max_waiters {
            return None;
        }
        lines.waiters += 1;
        let name = channel.to_owned();
        let entry = lines.by_channel.entry(name.clone()).or_default();
        let is_new = entry.lines.is_empty();
        let channel = Arc::clone(&entry.channel);
        let line = entry.lines.entry(line_of.clone()).or_default();
        line.waiters += 1;
        let first = Arc::clone(&line.first);
        if is_new {
            lines.changed.insert(name.clone());
            self.shared.changed.notify_one();
        }
        drop(lines);
        Some(Place { shared: Arc::clone(&self.shared), name, line_of, channel, first })
    }

    /// Has the first of each line try again.
    pub(super) fn stir(&self, channel: &str) {
        if let Some(entry) = self.shared.lines().by_channel.get(channel) {
            entry.channel.heard.send_modify(|_| ());
        }
    }

    /// Until the listener has ended; the client's `stop` must have been given.
    pub(super) async fn shutdown(&self) {
        self.tracker.wait().await;
    }
}

/// A place in a line. Dropping it leaves.
#[derive(Debug)]
pub(super) struct Place {
    shared: Arc<Shared>,
    name: String,
    line_of: String,
    channel: Arc<Channel>,
    first: Arc<tokio::sync::Mutex<()>>,
}

impl Place {
    /// Waits to be the first in line.
    pub(super) async fn first(self) -> Turn {
        let first = Arc::clone(&self.first).lock_owned().await;
        let heard = self.channel.heard.subscribe();
        Turn { _first: first, heard, place: self }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.shared.lines();
        lines.waiters -= 1;
        let Some(entry) = lines.by_channel.get_mut(&self.name) else { return };
        if let Some(line) = entry.lines.get_mut(&self.line_of) {
            line.waiters -= 1;
            if line.waiters == 0 {
                entry.lines.remove(&self.line_of);
            }
        }
        if entry.lines.is_empty() {
            lines.by_channel.remove(&self.name);
            lines.changed.insert(self.name.clone());
            self.shared.changed.notify_one();
        }
    }
}

/// The first place in a line.
#[derive(Debug)]
pub(super) struct Turn {
    _first: OwnedMutexGuard<()>,
    heard: watch::Receiver<bool>,
    place: Place,
}

impl Turn {
    /// Whether a release from now on is heard.
    pub(super) fn is_listening(&mut self) -> bool {
        *self.heard.borrow_and_update()
    }

    /// Sleeps until there is a reason to try again: a release, a change in what is heard,
    /// or `until`.
    pub(super) async fn wake(&mut self, listening: bool, until: Option<Instant>) -> Option<Woken> {
        let longest = Instant::now() + if listening { MAX_SLEEP } else { MAX_DEAF_SLEEP };
        tokio::select! {
            biased;
            () = self.place.channel.released.notified() => {
                Some(Woken { channel: Some(Arc::clone(&self.place.channel)) })
            }
            _ = self.heard.changed() => None,
            () = sleep_until(until.map_or(longest, |until| until.min(longest))) => None,
        }
    }
}

/// Somebody was woken by a release and owes a try. If it cannot be made, because whoever
/// should was cancelled, somebody else is woken.
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

impl Shared {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// The listener. Without an end.
    async fn listen(&self, redis: &Redis) {
        let mut pause = FIRST_PAUSE;
        loop {
            self.until_somebody_waits().await;
            let begun = Instant::now();
            let problem = match redis.subscriber().await {
                Ok(connection) => self.serve(connection).await,
                Err(error) => error,
            };
            // Before the pause: whoever waited heard nothing for an unknown while.
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

    async fn until_somebody_waits(&self) {
        while self.lines().by_channel.is_empty() {
            self.changed.notified().await;
        }
    }

    /// Listens on one connection until it is lost.
    async fn serve(&self, connection: PubSub) -> StoreError {
        let (sink, stream) = connection.split();
        {
            let mut lines = self.lines();
            lines.changed = lines.by_channel.keys().cloned().collect();
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
            if let Some(entry) = self.lines().by_channel.get(message.get_channel_name()) {
                entry.channel.released.notify_one();
            }
        }
    }

    /// Keeps the subscriptions what the lines need, and the connection known to live.
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
        let mut lines = self.lines();
        let mut changes = Changes::default();
        for name in std::mem::take(&mut lines.changed) {
            match (lines.by_channel.get(&name), subscribed.contains(&name)) {
                (Some(_), false) => changes.wanted.push(name),
                // Left and entered again before anybody looked: still subscribed.
                (Some(entry), true) => _ = entry.channel.heard.send_replace(true),
                (None, true) => changes.unwanted.push(name),
                (None, false) => {}
            }
        }
        changes
    }

    fn confirm(&self, names: &[String]) {
        let lines = self.lines();
        for entry in names.iter().filter_map(|name| lines.by_channel.get(name)) {
            entry.channel.heard.send_replace(true);
        }
    }

    /// Nothing is heard any more. Whether anything was.
    fn forget(&self) -> bool {
        let lines = self.lines();
        let was_heard = |entry: &Entry| {
            entry.channel.heard.send_if_modified(|heard| std::mem::replace(heard, false))
        };
        lines.by_channel.values().filter(|entry| was_heard(entry)).count() > 0
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
