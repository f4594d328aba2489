//! What can be promised, and what is done to a rung to see whether it keeps the promise.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Enums whose values have names that are part of the public interface.
#[macro_export]
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// All there are.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownName;
            fn from_str(name: &str) -> Result<Self, UnknownName> {
                let found = Self::ALL.iter().find(|known| known.as_str() == name);
                found.copied().ok_or_else(|| {
                    UnknownName::new(name, Self::ALL.iter().map(|known| known.as_str()))
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

/// Nothing has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no {name:?}; there is: {known}")]
pub struct UnknownName {
    name: String,
    known: String,
}

impl UnknownName {
    /// `known`: all names that there are.
    pub fn new<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        Self { name: name.to_owned(), known: known.collect::<Vec<_>>().join(", ") }
    }
}

named! {
    /// A promise to the buyers or to the resources.
    Invariant {
        /// Orders of a voucher never exceed its initial stock.
        NoOversell = "no_oversell",
        /// One user holds at most one order of a voucher.
        OnePerUser = "one_per_user",
        /// While stock remains, a first-time buyer is not told "sold out", nor sent away because
        /// one of several servers of a lock is down; orders + stock = initial stock.
        NoUndersell = "no_undersell",
        /// An acknowledged order is in the database.
        NoLostOrder = "no_lost_order",
        /// A dead holder locks a user out for no longer than one lease.
        NoLockout = "no_lockout",
        /// Code that holds the lock may call code that takes it.
        NoDeadlock = "no_deadlock",
        /// A buyer that was told yes has an order; one that was told "accepted" hears a final answer
        /// within a bounded time after everything works again.
        NoBrokenPromise = "no_broken_promise",
    }
}

named! {
    /// Something that happens to a rung, step by step, the same every time.
    Scenario {
        /// Two buyers both see the last voucher.
        LastOne = "last_one",
        /// Many buyers all read the same stock before any of them writes.
        Herd = "herd",
        /// One user, two requests at once, one process.
        DoubleClick = "double_click",
        /// One user, one request to each of two processes.
        TwoNodes = "two_nodes",
        /// The second request enters between release and commit.
        EarlyRelease = "early_release",
        /// The holder is killed while it holds.
        HolderDies = "holder_dies",
        /// The holder is killed between the two commands of its acquire.
        DiesBetween = "dies_between",
        /// The work outlives the lease, and the holder's late release lets a third in.
        SlowHolder = "slow_holder",
        /// The work outlives the lease, and a second enters while it goes on.
        OutlivedLease = "outlived_lease",
        /// The holder pauses in its release, between compare and delete.
        StalledRelease = "stalled_release",
        /// The holder calls code that takes the same lock.
        Nested = "nested",
        /// The release falls between a waiter's miss and its subscription.
        LostWakeup = "lost_wakeup",
        /// The reply to a release is lost, and it is sent again, with two holds.
        ResentRelease = "resent_release",
        /// One of the lock's nodes is down: can anyone still buy?
        NodeDown = "node_down",
        /// The Redis master dies before its replica has the lock; the replica is promoted.
        Failover = "failover",
        /// A lock node restarts empty.
        Amnesia = "amnesia",
        /// A lock node's clock leaps past the lease.
        ClockJump = "clock_jump",
        /// `SIGSTOP` past the lease, after the last check, before the write.
        PausedHolder = "paused_holder",
        /// Two buy the last one, between them Redis comes back from an older snapshot.
        UpdateIgnored = "update_ignored",
        /// One buys twice, between them Redis comes back from an older snapshot.
        RedisRestored = "redis_restored",
        /// A consumer dies between its commit and its acknowledgement.
        DiesBeforeAck = "dies_before_ack",
        /// The answer to a consumer's commit is lost with its connection.
        ConnectionLost = "connection_lost",
        /// A consumer reads what another process' consumer has in hand.
        OneConsumerName = "one_consumer_name",
        /// More buy than a queue has room for, before any of them is written.
        QueueFull = "queue_full",
        /// The process dies before it has written any of what it sold.
        FullQueueDies = "full_queue_dies",
        /// A consumer dies with an entry in hand, before it writes.
        DiesBeforeWrite = "dies_before_write",
        /// A consumer dies with the last voucher in hand, and another buyer comes.
        DiesWithLast = "dies_with_last",
        /// The last voucher's entry is given up, and another buyer came meanwhile.
        GivenUp = "given_up",
        /// An entry that can never be written comes first.
        PoisonEntry = "poison_entry",
        /// Buyers come before the group of consumers is made.
        GroupFromNow = "group_from_now",
        /// More buy than the stream keeps, before any of them is written.
        StreamTrimmed = "stream_trimmed",
        /// A power cut: what Redis acknowledged after its last `fsync` is gone.
        RedisDies = "redis_dies",
        /// The Redis master dies before its replica has the entry; the replica is promoted.
        ReplicaLags = "replica_lags",
        /// The relay is killed between publishing and marking.
        PublishedTwice = "published_twice",
    }
}

impl Scenario {
    /// What is at stake.
    pub const fn invariant(self) -> Invariant {
        match self {
            Self::LastOne | Self::UpdateIgnored => Invariant::NoOversell,
            Self::Herd | Self::NodeDown | Self::QueueFull | Self::DiesWithLast | Self::GivenUp => {
                Invariant::NoUndersell
            }
            Self::HolderDies | Self::DiesBetween | Self::LostWakeup => Invariant::NoLockout,
            Self::Nested => Invariant::NoDeadlock,
            Self::DoubleClick
            | Self::TwoNodes
            | Self::EarlyRelease
            | Self::SlowHolder
            | Self::OutlivedLease
            | Self::StalledRelease
            | Self::ResentRelease
            | Self::Failover
            | Self::Amnesia
            | Self::ClockJump
            | Self::PausedHolder
            | Self::RedisRestored
            | Self::DiesBeforeAck
            | Self::ConnectionLost
            | Self::OneConsumerName => Invariant::OnePerUser,
            Self::FullQueueDies
            | Self::DiesBeforeWrite
            | Self::PoisonEntry
            | Self::GroupFromNow
            | Self::StreamTrimmed
            | Self::RedisDies
            | Self::ReplicaLags
            | Self::PublishedTwice => Invariant::NoBrokenPromise,
        }
    }

    /// What happens, in a sentence.
    pub const fn story(self) -> &'static str {
        match self {
            Self::LastOne => "two buyers both see the last voucher",
            Self::Herd => "many buyers all read the same stock before any of them writes",
            Self::DoubleClick => "one user, two requests at once, one process",
            Self::TwoNodes => "one user, one request to each of two processes",
            Self::EarlyRelease => "the second request enters between release and commit",
            Self::HolderDies => "the holder is killed while it holds",
            Self::DiesBetween => "the holder is killed between the two commands of its acquire",
            Self::SlowHolder => {
                "the work outlives the lease; does the late release let a third in?"
            }
            Self::OutlivedLease => "the work outlives the lease; does a second get in?",
            Self::StalledRelease => "the holder pauses in its release, between compare and delete",
            Self::Nested => "the holder calls code that takes the same lock",
            Self::LostWakeup => "the release falls between a waiter's miss and its subscription",
            Self::ResentRelease => {
                "the reply to a release is lost and it is sent again, with two holds"
            }
            Self::NodeDown => "one of the lock's nodes is down: can anyone still buy?",
            Self::Failover => "the Redis master dies before its replica has the lock",
            Self::Amnesia => "a lock node restarts empty",
            Self::ClockJump => "a lock node's clock leaps past the lease",
            Self::PausedHolder => {
                "the holder is stopped past its lease, after the last check, before the write"
            }
            Self::UpdateIgnored => {
                "Redis is restored from an older snapshot, and the last one sold to another"
            }
            Self::RedisRestored => {
                "Redis is restored from an older snapshot, and a buyer comes again"
            }
            Self::DiesBeforeAck => "a consumer dies between its commit and its acknowledgement",
            Self::ConnectionLost => "the answer to a consumer's commit is lost",
            Self::OneConsumerName => "a consumer reads what another process has in hand",
            Self::QueueFull => "more buy than the queue has room for",
            Self::FullQueueDies => "the process dies before it has written what it sold",
            Self::DiesBeforeWrite => "a consumer dies with an entry in hand, before it writes",
            Self::DiesWithLast => {
                "a consumer dies with the last voucher in hand, and another buyer comes"
            }
            Self::GivenUp => {
                "two consumers die with the last voucher in hand, and its entry is given up"
            }
            Self::PoisonEntry => "an entry that can never be written comes first",
            Self::GroupFromNow => "a buyer comes before the group of consumers is made",
            Self::StreamTrimmed => "more buy than the stream keeps",
            Self::RedisDies => "a power cut: what Redis acknowledged after its last fsync is gone",
            Self::ReplicaLags => "the Redis master dies before its replica has the entry",
            Self::PublishedTwice => "the relay dies between publishing and marking",
        }
    }
}
