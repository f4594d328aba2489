//! What can be promised, and what is done to a rung to see whether it keeps the promise.

use seckill::http::{Language, TextFile};

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

        impl ::std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.pad(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::UnknownName;
            fn from_str(name: &str) -> Result<Self, $crate::UnknownName> {
                let found = Self::ALL.iter().find(|known| known.as_str() == name);
                found.copied().ok_or_else(|| {
                    $crate::UnknownName::new(name, Self::ALL.iter().map(|known| known.as_str()))
                })
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                name.parse().map_err(<D::Error as ::serde::de::Error>::custom)
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
    /// A promise to the buyers or to the resources; `promises.toml` has it in a sentence.
    #[allow(missing_docs)]
    Invariant {
        NoOversell = "no_oversell",
        OnePerUser = "one_per_user",
        NoUndersell = "no_undersell",
        NoLastingRefusal = "no_lasting_refusal",
        NoOutage = "no_outage",
        NoLostOrder = "no_lost_order",
        NoLockout = "no_lockout",
        NoSelfDeadlock = "no_self_deadlock",
        NoDeadlock = "no_deadlock",
        NoBrokenPromise = "no_broken_promise",
        NoStuckStock = "no_stuck_stock",
        NoLostPayment = "no_lost_payment",
        SameAnswer = "same_answer",
        WithinRate = "within_rate",
        LetInOnce = "let_in_once",
        EarlyGivesNothing = "early_gives_nothing",
        FairOrder = "fair_order",
    }
}

/// Scenarios: each with its name, and the promise at stake.
macro_rules! scenarios {
    ($($scenario:ident = $name:literal, $invariant:ident;)+) => {
        named! {
            /// Something that happens to a rung, step by step, the same every time; `stories.toml` tells it.
            #[allow(missing_docs)]
            Scenario { $($scenario = $name),+ }
        }

        impl Scenario {
            /// What is at stake.
            pub const fn invariant(self) -> Invariant {
                match self { $(Self::$scenario => Invariant::$invariant),+ }
            }
        }
    };
}

scenarios! {
    LastOne = "last_one", NoOversell;
    Herd = "herd", NoUndersell;
    OtherSegment = "other_segment", NoUndersell;
    GivenBackTogether = "given_back_together", NoDeadlock;
    DoubleClick = "double_click", OnePerUser;
    TwoNodes = "two_nodes", OnePerUser;
    EarlyRelease = "early_release", OnePerUser;
    HolderDies = "holder_dies", NoLockout;
    DiesBetween = "dies_between", NoLockout;
    SlowHolder = "slow_holder", OnePerUser;
    OutlivedLease = "outlived_lease", OnePerUser;
    StalledRelease = "stalled_release", OnePerUser;
    Nested = "nested", NoSelfDeadlock;
    LostWakeup = "lost_wakeup", NoLockout;
    ResentRelease = "resent_release", OnePerUser;
    NodeDown = "node_down", NoOutage;
    Failover = "failover", OnePerUser;
    Amnesia = "amnesia", OnePerUser;
    ClockJump = "clock_jump", OnePerUser;
    PausedHolder = "paused_holder", OnePerUser;
    UpdateIgnored = "update_ignored", NoOversell;
    RedisRestored = "redis_restored", OnePerUser;
    DiesBeforeAck = "dies_before_ack", OnePerUser;
    ConnectionLost = "connection_lost", OnePerUser;
    OneConsumerName = "one_consumer_name", OnePerUser;
    QueueFull = "queue_full", NoUndersell;
    FullQueueDies = "full_queue_dies", NoBrokenPromise;
    DiesBeforeWrite = "dies_before_write", NoBrokenPromise;
    DiesWithLast = "dies_with_last", NoUndersell;
    GivenUp = "given_up", NoUndersell;
    PoisonEntry = "poison_entry", NoBrokenPromise;
    PoisonWithLast = "poison_with_last", NoUndersell;
    GroupFromNow = "group_from_now", NoBrokenPromise;
    StreamTrimmed = "stream_trimmed", NoBrokenPromise;
    StockReloaded = "stock_reloaded", NoBrokenPromise;
    SoldAfterReload = "sold_after_reload", NoOversell;
    RedisDies = "redis_dies", NoBrokenPromise;
    ReplicaLags = "replica_lags", NoBrokenPromise;
    PublishedTwice = "published_twice", NoBrokenPromise;
    SoldAgain = "sold_again", NoOversell;
    HalfExpired = "half_expired", NoUndersell;
    ForgottenTimer = "forgotten_timer", NoStuckStock;
    PayAndExpire = "pay_and_expire", NoLostPayment;
    LatePayment = "late_payment", NoLostPayment;
    UnknownOrder = "unknown_order", NoLostPayment;
    JustRestocked = "just_restocked", NoUndersell;
    UntoldCache = "untold_cache", NoUndersell;
    StaleRefill = "stale_refill", NoLastingRefusal;
    LateRefill = "late_refill", NoLastingRefusal;
    LostDelete = "lost_delete", NoLastingRefusal;
    AnswerLost = "answer_lost", SameAnswer;
    DatabaseFailover = "database_failover", NoLostOrder;
    SynchronousFailover = "synchronous_failover", NoLostOrder;
    WindowEdge = "window_edge", WithinRate;
    ClockAhead = "clock_ahead", WithinRate;
    TokenTwice = "token_twice", LetInOnce;
    DiesLetIn = "dies_let_in", NoLockout;
    OtherOrder = "other_order", EarlyGivesNothing;
    PassedInLine = "passed_in_line", FairOrder;
}

static PROMISES: TextFile = TextFile::new(include_str!("promises.toml"));
static STORIES: TextFile = TextFile::new(include_str!("stories.toml"));

impl Invariant {
    /// What is promised, in a sentence.
    pub fn sentence(self, language: Language) -> &'static str {
        PROMISES.of(language)[self.as_str()]
    }
}

impl Scenario {
    /// What happens, in a sentence.
    pub fn story(self, language: Language) -> &'static str {
        STORIES.of(language)[self.as_str()]
    }
}
