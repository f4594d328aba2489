//! What can go wrong with a lock. That somebody else holds it is not an error.

use std::time::Duration;

use redis_link::LinkError;

/// What a Redis user must be allowed to do for plain locks.
const PERMISSIONS: &str = "+ping +evalsha +script|load +exists +del +type +strlen +pttl +pexpire +get +set +time \
                           +hget +hset +hdel +hexists +hincrby +hlen +hgetall +publish +subscribe +unsubscribe";

/// A lock operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The name is empty or longer than 512 bytes.
    #[error("a lock name has 1 to 512 bytes, this one has {0}")]
    InvalidName(usize),
    /// The lease is shorter than a millisecond or longer than a day, or
    /// [`acknowledged_by`](super::Lock::acknowledged_by) was to wait for as long as the lease or longer.
    #[error("a lease lasts from 1 ms to 24 h, and longer than replicas are waited for")]
    InvalidLease,
    /// A lock was to be [kept](super::Guard::keep_at_least) for longer than its lease. Give the lock a longer lease.
    #[error(
        "a lock is kept for no longer than its lease, {lease:?}, which is all that is left where a program \
         dies: {time:?} needs a lease as long"
    )]
    TooLongToKeep {
        /// How long it was to be kept.
        time: Duration,
        /// Its lease.
        lease: Duration,
    },
    /// The key exists and is not a lock of this kind. It was not changed.
    #[error("the Redis key {name:?} is not a lock of this kind{}", it_looks_like(*.found))]
    NotALock {
        /// The key.
        name: String,
        /// What it looks like, where that could be found out.
        found: Option<&'static str>,
    },
    /// A release found that the owner holds nothing: the lease ran out, or somebody
    /// deleted the lock, before the release.
    #[error("the lock {0:?} was not held any more when it was released")]
    NotHeld(String),
    /// The grant did not reach as many replicas as were asked for; it is given back.
    #[error("{acknowledged} of the {wanted} replicas demanded acknowledged the lock in time")]
    #[non_exhaustive]
    NotReplicated {
        /// How many were demanded.
        wanted: usize,
        /// How many have it.
        acknowledged: usize,
    },
    /// As many wait on this client as may: [`LockOptions::max_waiters`](super::LockOptions::max_waiters). It was not
    /// tried, and nothing is held. Wait with fewer at once, or raise the limit.
    #[error("{0} are waiting for locks already, as many as `LockOptions::max_waiters` allows")]
    TooManyWaiters(usize),
    /// The Redis user may not do what a lock needs; the front page has the rule for `ACL SETUSER`.
    #[error(
        "this Redis user may not take locks, it needs the permissions `{PERMISSIONS}` (for fair locks, \
         replicas and clusters more) and its keys and channels: {}",
        .0.cause()
    )]
    NotPermitted(#[source] LinkError),
    /// A multi-lock of no locks, or a RedLock of no nodes.
    #[error("there is nothing to lock: the list is empty")]
    NothingToLock,
    /// A multi-lock has this name on this client twice, or (then without a name) a RedLock
    /// the same client twice. The one would wait for the other, for ever.
    #[error("{}", twice(.0.as_deref()))]
    Twice(Option<String>),
    /// A multi-lock or a RedLock with a fair lock in it. They try without standing in a queue, which
    /// a fair lock refuses as long as somebody stands in its own: they might never enter. Use plain locks there.
    #[error("a fair lock cannot be one of several that are taken together: take a plain one there")]
    FairTogether,
    /// The answer that granted the lock came when the lease was over, or it took so long to get several locks that
    /// the first leases were over. What was got is given back. A longer lease helps, or fewer locks. A wait tries again
    /// by itself, except that of a multi-lock whose grants came in time each, and not together.
    #[error("the lease was over when the lock was granted: take a longer one, or fewer locks")]
    TooLate,
    /// A RedLock was not granted by a majority because nodes failed. What the others granted
    /// is given back; at a release, it was given back where it could be.
    #[error("{done} of {nodes} nodes did it, {quorum} must: {}", listed("node", failures))]
    #[non_exhaustive]
    NoQuorum {
        /// How many nodes there are.
        nodes: usize,
        /// How many must agree.
        quorum: usize,
        /// How many did.
        done: usize,
        /// Which nodes failed (counted from 0, as given to `RedLock::new`), and why.
        failures: Vec<(usize, LockError)>,
    },
    /// Some of the locks of a multi-lock failed (counted from 0, as given to
    /// `MultiLock::new`). The others are given back.
    #[error("of the locks held together, some failed: {}", listed("lock", .0))]
    Together(Vec<(usize, LockError)>),
    /// The runtime has ended on which this client was made: nobody would renew a lease, or give anything back. Make
    /// a client in each runtime, as in each `#[tokio::test]`.
    #[error("the runtime in which this lock client was made has ended: make one in each runtime")]
    RuntimeEnded,
    /// The client was [shut down](super::LockClient::shutdown). Nothing was granted; a new client is needed.
    #[error("the lock client was shut down: make a new one")]
    ShutDown,
    /// Redis was not available, or did not answer. In the latter case the lock may have
    /// been granted; the clean-up worker gives it back.
    #[error(transparent)]
    Redis(LinkError),
}

impl LockError {
    /// Whether the same request may succeed a little later; a wait tries again by itself. `false` also for
    /// `NotReplicated` and `TooManyWaiters`, where the caller judges whether a later try is worth it.
    #[must_use]
    pub fn retry_may_help(&self) -> bool {
        match self {
            Self::Redis(error) => error.retry_may_help(),
            Self::TooLate => true,
            Self::NoQuorum { nodes, quorum, failures, .. } => {
                let hopeless = failures.iter().filter(|(_, error)| !error.retry_may_help());
                nodes.saturating_sub(hopeless.count()) >= *quorum
            }
            Self::Together(failures) => failures.iter().all(|(_, error)| error.retry_may_help()),
            _ => false,
        }
    }

    /// Whether Redis cannot be used as it is configured: the URL, a password or the number of a database is wrong. No
    /// retry helps.
    #[must_use]
    pub fn is_misconfigured(&self) -> bool {
        matches!(self, Self::Redis(LinkError::Misconfigured(_)))
    }

    /// Whether what was asked for may have happened. After an entry the caller must not do the work: what may have been
    /// granted is given back in the background.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::Redis(error) => error.outcome_unknown(),
            Self::NoQuorum { failures, .. } | Self::Together(failures) => {
                failures.iter().any(|(_, error)| error.outcome_unknown())
            }
            _ => false,
        }
    }

    pub(super) fn not_a_lock(name: &str) -> Self {
        Self::NotALock { name: name.to_owned(), found: None }
    }

    pub(super) fn from_redis(error: LinkError, name: &str) -> Self {
        let LinkError::Defect(cause) = &error else { return Self::Redis(error) };
        match cause.to_string() {
            cause if cause.contains("WRONGTYPE") => Self::not_a_lock(name),
            cause if cause.contains("NOPERM") => Self::NotPermitted(error),
            _ => Self::Redis(error),
        }
    }
}

fn it_looks_like(found: Option<&str>) -> String {
    found.map(|found| format!(": it looks like {found}")).unwrap_or_default()
}

fn twice(name: Option<&str>) -> String {
    match name {
        Some(name) => format!("the lock {name:?} is in the list twice, on the same client"),
        None => "the same client is in the list of nodes twice".to_owned(),
    }
}

fn listed(what: &str, failures: &[(usize, LockError)]) -> String {
    let line = |(number, error): &(usize, LockError)| format!("{what} {number}: {error}");
    failures.iter().map(line).collect::<Vec<_>>().join("; ")
}
