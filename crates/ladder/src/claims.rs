//! What can be promised, and what is done to a rung to see whether it keeps the promise.

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

/// Promises: each with its name; what is written above it is what it promises.
macro_rules! promises {
    ($(#[$doc:meta])* Invariant { $($(#[doc = $line:literal])+ $promise:ident = $name:literal),+ $(,)? }) => {
        named! {
            $(#[$doc])*
            Invariant { $($(#[doc = $line])+ $promise = $name),+ }
        }

        impl Invariant {
            /// What is promised, in a sentence.
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$promise => concat!($($line),+).trim_ascii_start()),+ }
            }
        }
    };
}

promises! {
    /// A promise to the buyers or to the resources.
    Invariant {
        /// Live orders of a voucher (not cancelled, not refunded) never exceed its initial stock.
        NoOversell = "no_oversell",
        /// One user holds at most one live order of a voucher.
        OnePerUser = "one_per_user",
        /// While stock remains, a first-time buyer is not told "sold out"; live orders + stock =
        /// initial stock.
        NoUndersell = "no_undersell",
        /// A first-time buyer is not sent away because one server of the lock (or the one Redis that
        /// decides in its place) is down.
        NoOutage = "no_outage",
        /// An acknowledged order is in the database.
        NoLostOrder = "no_lost_order",
        /// A dead holder locks a user out for no longer than one lease.
        NoLockout = "no_lockout",
        /// Code that holds the lock may call code that takes it.
        NoSelfDeadlock = "no_self_deadlock",
        /// A buyer that was told yes has an order; one that was told "accepted" hears a final answer
        /// within a bounded time after everything works again.
        NoBrokenPromise = "no_broken_promise",
        /// A voucher whose order was not paid in time is on sale again, also after a crash.
        NoStuckStock = "no_stuck_stock",
        /// A payment that was confirmed belongs to an order that is paid, or is being given back.
        NoLostPayment = "no_lost_payment",
        /// A request that is sent again hears the answer of the first.
        SameAnswer = "same_answer",
    }
}

/// Scenarios: each with its name, the promise at stake, and its story.
macro_rules! scenarios {
    ($($scenario:ident = $name:literal, $invariant:ident, $story:literal;)+) => {
        named! {
            /// Something that happens to a rung, step by step, the same every time.
            Scenario { $(#[doc = $story] $scenario = $name),+ }
        }

        impl Scenario {
            /// What is at stake.
            pub const fn invariant(self) -> Invariant {
                match self { $(Self::$scenario => Invariant::$invariant),+ }
            }

            /// What happens, in a sentence.
            pub const fn story(self) -> &'static str {
                match self { $(Self::$scenario => $story),+ }
            }
        }
    };
}

scenarios! {
    LastOne = "last_one", NoOversell, "two buyers both see the last voucher";
    Herd = "herd", NoUndersell, "many buyers all read the same stock before any of them writes";
    OtherSegment = "other_segment", NoUndersell, "a buyer's segment of the stock is empty, and another one is not";
    DoubleClick = "double_click", OnePerUser, "one user, two requests at once, one process";
    TwoNodes = "two_nodes", OnePerUser, "one user, one request to each of two processes";
    EarlyRelease = "early_release", OnePerUser, "the second request enters between release and commit";
    HolderDies = "holder_dies", NoLockout, "the holder is killed while it holds";
    DiesBetween = "dies_between", NoLockout, "the holder is killed between the two commands of its acquire";
    SlowHolder = "slow_holder", OnePerUser, "the work outlives the lease; does the late release let a third in?";
    OutlivedLease = "outlived_lease", OnePerUser, "the work outlives the lease; does a second get in?";
    StalledRelease = "stalled_release", OnePerUser, "the holder pauses in its release, between compare and delete";
    Nested = "nested", NoSelfDeadlock, "the holder calls code that takes the same lock";
    LostWakeup = "lost_wakeup", NoLockout, "the release falls between a waiter's miss and its subscription";
    ResentRelease = "resent_release", OnePerUser, "the reply to a release is lost and it is sent again, with two holds";
    NodeDown = "node_down", NoOutage, "one of the lock's servers is down: can anyone still buy?";
    Failover = "failover", OnePerUser, "the Redis master dies before its replica has the lock";
    Amnesia = "amnesia", OnePerUser, "a lock node restarts empty";
    ClockJump = "clock_jump", OnePerUser, "a lock node's clock leaps past the lease";
    PausedHolder = "paused_holder", OnePerUser, "the holder is stopped past its lease, after the last check, before the write";
    UpdateIgnored = "update_ignored", NoOversell, "Redis is restored from an older snapshot, and the last one sold to another";
    RedisRestored = "redis_restored", OnePerUser, "Redis is restored from an older snapshot, and a buyer comes again";
    DiesBeforeAck = "dies_before_ack", OnePerUser, "a consumer dies between its commit and its acknowledgement";
    ConnectionLost = "connection_lost", OnePerUser, "the answer to a consumer's commit is lost";
    OneConsumerName = "one_consumer_name", OnePerUser, "a consumer reads what another process has in hand";
    QueueFull = "queue_full", NoUndersell, "more buy than the queue has room for";
    FullQueueDies = "full_queue_dies", NoBrokenPromise, "the process dies before it has written what it sold";
    DiesBeforeWrite = "dies_before_write", NoBrokenPromise, "a consumer dies with an entry in hand, before it writes";
    DiesWithLast = "dies_with_last", NoUndersell, "a consumer dies with the last voucher in hand, and another buyer comes";
    GivenUp = "given_up", NoUndersell, "two consumers die with the last voucher in hand, and its entry is given up";
    PoisonEntry = "poison_entry", NoBrokenPromise, "an entry that can never be written comes first";
    GroupFromNow = "group_from_now", NoBrokenPromise, "a buyer comes before the group of consumers is made";
    StreamTrimmed = "stream_trimmed", NoBrokenPromise, "more buy than the stream keeps";
    StockReloaded = "stock_reloaded", NoBrokenPromise, "the stock is loaded anew into Redis, with orders not written yet";
    SoldAfterReload = "sold_after_reload", NoOversell, "the stock is loaded anew into Redis, with orders not written yet: is more sold than there was?";
    RedisDies = "redis_dies", NoBrokenPromise, "a power cut: what Redis acknowledged after its last fsync is gone";
    ReplicaLags = "replica_lags", NoBrokenPromise, "the Redis master dies before its replica has the entry";
    PublishedTwice = "published_twice", NoBrokenPromise, "the relay dies between publishing and marking";
    SoldAgain = "sold_again", NoOversell, "a payment and the end of its time meet, and another buyer takes what was given back";
    HalfExpired = "half_expired", NoUndersell, "killed between the two steps that end an order: only one of them is done";
    ForgottenTimer = "forgotten_timer", NoStuckStock, "the process that sold is killed before the time to pay is over";
    PayAndExpire = "pay_and_expire", NoLostPayment, "a payment comes in the moment in which the time to pay is over";
    LatePayment = "late_payment", NoLostPayment, "the orders are cancelled already when their payments come";
    StaleRefill = "stale_refill", NoUndersell, "a reader fills the cache between an operator's delete and write";
    LateRefill = "late_refill", NoUndersell, "a reader read the stock before an operator added some, and fills the cache after it";
    LostDelete = "lost_delete", NoUndersell, "the process that adds stock dies before it deletes again what is cached";
    AnswerLost = "answer_lost", SameAnswer, "the answer to a purchase is lost, and its client sends it again";
}
