//! What can go wrong with a lock. That somebody else holds it is not an error.

use crate::store::StoreError;

/// A lock operation failed.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The name is empty or longer than 512 bytes.
    #[error("a lock name has 1 to 512 bytes, this one has {0}")]
    InvalidName(usize),
    /// The lease is shorter than a millisecond or longer than a day.
    #[error("a lease lasts from 1 ms to 24 h")]
    InvalidLease,
    /// The key exists and is not a lock.
    #[error("the Redis key {0:?} holds something that is not a lock")]
    NotALock(String),
    /// A release found that the owner holds nothing: the lease ran out, or somebody
    /// deleted the lock, before the release.
    #[error("the lock {0:?} was not held any more when it was released")]
    NotHeld(String),
    /// The grant did not reach as many replicas as were asked for; it is given back.
    #[error("{acknowledged} of the {wanted} replicas demanded acknowledged the lock in time")]
    NotReplicated {
        /// How many were demanded.
        wanted: usize,
        /// How many have it.
        acknowledged: usize,
    },
    /// As many wait on this client as may.
    #[error("{0} are waiting for locks already, as many as this client allows")]
    TooManyWaiters(usize),
    /// The Redis user may not do what a lock needs.
    #[error(
        "this Redis user may not take locks, it needs the permissions \
         `+@hash +@keyspace +@scripting +@pubsub +get +set +time +wait` and its keys and channels: {0}"
    )]
    NotPermitted(String),
    /// The client was shut down.
    #[error("the lock client was shut down")]
    ShutDown,
    /// Redis was not available, or did not answer. In the latter case the lock may have
    /// been granted; the clean-up worker gives it back.
    #[error(transparent)]
    Store(StoreError),
}

impl LockError {
    /// Whether the same request may succeed a little later.
    pub const fn retry_may_help(&self) -> bool {
        match self {
            Self::Store(error) => error.retry_may_help(),
            _ => false,
        }
    }

    /// Whether what was asked for may have happened.
    pub const fn outcome_unknown(&self) -> bool {
        match self {
            Self::Store(error) => error.outcome_unknown(),
            _ => false,
        }
    }

    pub(super) fn from_store(error: StoreError, name: &str) -> Self {
        let StoreError::Defect { cause, .. } = &error else { return Self::Store(error) };
        let cause = cause.to_string();
        if cause.contains("WRONGTYPE") {
            Self::NotALock(name.to_owned())
        } else if cause.contains("NOPERM") {
            Self::NotPermitted(cause)
        } else {
            Self::Store(error)
        }
    }
}
