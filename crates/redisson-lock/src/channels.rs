//! The channels on which a client's waiters wait: the queues at each, and which of them are heard.
//!
//! The waiters of one lock form a queue; only the first of a queue talks to Redis, so one release
//! makes one try, however many wait. Whether releases are heard is part of the state.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, watch};

use redis_link::Shard;

/// All channels of a client.
#[derive(Debug)]
pub(super) struct Channels {
    queues: Mutex<Queues>,
    max_waiters: usize,
}

#[derive(Debug, Default)]
struct Queues {
    by_channel: HashMap<String, Entry>,
    /// One for each server that has channels with waiters, or had some of late.
    subscriptions: HashMap<Shard, Subscriptions>,
    waiters: usize,
}

#[derive(Debug)]
struct Entry {
    channel: Arc<Channel>,
    /// Where it is listened to.
    shard: Shard,
    /// By owner. Owners that are not shared have one queue together, under the empty name.
    queues: HashMap<String, WaitQueue>,
}

#[derive(Debug, Default)]
struct WaitQueue {
    waiters: usize,
    first: Arc<tokio::sync::Mutex<()>>,
}

/// What the listener of one server has to look at.
#[derive(Debug, Default)]
struct Subscriptions {
    /// Channels that have got their first waiter here, or lost their last.
    changed: HashSet<String>,
    notify: Arc<Notify>,
}

/// What the first waiters for one lock listen to.
#[derive(Debug)]
pub(super) struct Channel {
    /// One release wakes one.
    pub(super) released: Notify,
    /// Whether the subscription is confirmed. Each change of it, and each time it is only
    /// touched, is a reason for all to try again.
    pub(super) heard: watch::Sender<bool>,
}

/// A waiter's place, as [`Channels::enter`] gives it.
pub(super) struct QueuePlace {
    pub(super) channel: Arc<Channel>,
    /// The waiter that has it locked is the first of the queue.
    pub(super) first: Arc<tokio::sync::Mutex<()>>,
    /// Nobody listens at this server yet.
    pub(super) unheard: Option<Shard>,
}

/// What the listener of a server has to subscribe to and to give up.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) wanted: Vec<String>,
    pub(super) unwanted: Vec<String>,
}

impl Queues {
    /// Has the listener of `shard` look at a channel. Whether there has to be one first.
    fn change(&mut self, shard: &Shard, channel: &str) -> bool {
        let is_new = !self.subscriptions.contains_key(shard);
        let subscriptions = self.subscriptions.entry(shard.clone()).or_default();
        subscriptions.changed.insert(channel.to_owned());
        subscriptions.notify.notify_one();
        is_new
    }

    fn of<'a>(&'a self, shard: &'a Shard) -> impl Iterator<Item = (&'a String, &'a Entry)> {
        self.by_channel.iter().filter(move |(_, entry)| entry.shard == *shard)
    }
}

impl Channels {
    pub(super) fn new(max_waiters: usize) -> Self {
        Self { queues: Mutex::default(), max_waiters }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// A place at the end of the queue of `owner`; a channel that is new is listened to at `shard`.
    /// `None`: too many wait already.
    pub(super) fn enter(
        &self,
        name: &str,
        owner: &str,
        shard: impl FnOnce() -> Shard,
    ) -> Option<QueuePlace> {
        let mut queues = self.queues();
        if queues.waiters >= self.max_waiters {
            return None;
        }
        queues.waiters += 1;
        let mut new = None;
        let entry = queues.by_channel.entry(name.to_owned()).or_insert_with(|| {
            let (shard, released, heard) = (shard(), Notify::new(), watch::Sender::new(false));
            new = Some(shard.clone());
            Entry { channel: Arc::new(Channel { released, heard }), shard, queues: HashMap::new() }
        });
        let channel = Arc::clone(&entry.channel);
        let queue = entry.queues.entry(owner.to_owned()).or_default();
        queue.waiters += 1;
        let first = Arc::clone(&queue.first);
        let unheard = new.filter(|shard| queues.change(shard, name));
        Some(QueuePlace { channel, first, unheard })
    }

    /// Gives up a place.
    pub(super) fn leave(&self, name: &str, owner: &str) {
        let mut queues = self.queues();
        queues.waiters -= 1;
        let Some(entry) = queues.by_channel.get_mut(name) else {
            unreachable!("a channel is kept until its last waiter leaves");
        };
        let Some(queue) = entry.queues.get_mut(owner) else {
            unreachable!("a queue is kept until its last waiter leaves");
        };
        queue.waiters -= 1;
        if queue.waiters == 0 {
            entry.queues.remove(owner);
        }
        if entry.queues.is_empty()
            && let Some(entry) = queues.by_channel.remove(name)
        {
            queues.change(&entry.shard, name);
        }
    }

    /// Has the first waiter of each queue try again.
    pub(super) fn retry_all(&self, name: &str) {
        if let Some(entry) = self.queues().by_channel.get(name) {
            entry.channel.heard.send_modify(|_| ());
        }
    }

    /// Whether somebody waits for this channel.
    pub(super) fn has_waiters(&self, name: &str) -> bool {
        self.queues().by_channel.contains_key(name)
    }

    /// A release was heard: wakes one waiter.
    pub(super) fn released(&self, name: &str) {
        if let Some(entry) = self.queues().by_channel.get(name) {
            entry.channel.released.notify_one();
        }
    }

    /// Tells when a channel of the shard has got its first waiter or lost its last.
    pub(super) fn changed(&self, shard: &Shard) -> Arc<Notify> {
        let mut queues = self.queues();
        Arc::clone(&queues.subscriptions.entry(shard.clone()).or_default().notify)
    }

    /// A new connection to this server has no subscription yet.
    pub(super) fn subscribe_all(&self, shard: &Shard) {
        let mut queues = self.queues();
        let all = queues.of(shard).map(|(name, _)| name.clone()).collect();
        queues.subscriptions.entry(shard.clone()).or_default().changed = all;
    }

    /// What has changed at this server since the last look.
    pub(super) fn changes(&self, shard: &Shard, subscribed: &HashSet<String>) -> Changes {
        let mut queues = self.queues();
        let mut changes = Changes::default();
        let subscriptions = queues.subscriptions.get_mut(shard);
        let changed = subscriptions.map(|some| std::mem::take(&mut some.changed));
        for name in changed.unwrap_or_default() {
            let entry = queues.by_channel.get(&name).filter(|entry| entry.shard == *shard);
            match (entry, subscribed.contains(&name)) {
                (Some(_), false) => changes.wanted.push(name),
                // Left and entered again since the last look: still subscribed.
                (Some(entry), true) => _ = entry.channel.heard.send_replace(true),
                (None, true) => changes.unwanted.push(name),
                (None, false) => {}
            }
        }
        changes
    }

    /// The subscriptions to these channels are confirmed at this server.
    pub(super) fn confirm(&self, shard: &Shard, names: &[String]) {
        let queues = self.queues();
        let entries = names.iter().filter_map(|name| queues.by_channel.get(name));
        for entry in entries.filter(|entry| entry.shard == *shard) {
            entry.channel.heard.send_replace(true);
        }
    }

    /// Nothing is heard from this server any more. Whether anything was.
    pub(super) fn forget(&self, shard: &Shard) -> bool {
        let queues = self.queues();
        let was_heard = |entry: &Entry| {
            entry.channel.heard.send_if_modified(|heard| std::mem::replace(heard, false))
        };
        queues.of(shard).filter(|(_, entry)| was_heard(entry)).count() > 0
    }

    /// Has each channel of `shard` listened to where `shard_of` says that it is now. Returns the
    /// servers at which nobody listens yet, and whether anything is left to listen to here; if
    /// not, the listener of this server is taken for gone.
    pub(super) fn relocate(
        &self,
        shard: &Shard,
        shard_of: impl Fn(&str) -> Shard,
    ) -> (Vec<Shard>, bool) {
        let mut queues = self.queues();
        let names: Vec<String> = queues.of(shard).map(|(name, _)| name.clone()).collect();
        let (mut unheard, mut stays) = (Vec::new(), false);
        for name in names {
            let now = shard_of(&name);
            if now == *shard {
                stays = true;
                continue;
            }
            if let Some(entry) = queues.by_channel.get_mut(&name) {
                entry.shard = now.clone();
            }
            if queues.change(&now, &name) {
                unheard.push(now);
            }
        }
        if !stays {
            queues.subscriptions.remove(shard);
        }
        (unheard, stays)
    }
}
