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
        match &error {
            StoreError::Defect { cause, .. } if cause.to_string().contains("WRONGTYPE") => {
                Self::NotALock(name.to_owned())
            }
            _ => Self::Store(error),
        }
    }
}
