//! What can go wrong between a client and Redis.

use std::sync::Arc;

use group_commit::BatchError;
use redis::{ErrorKind, ServerErrorKind};

/// Shared, because one failure of a pipeline is told to all callers whose commands were in it.
type Cause = Arc<dyn std::error::Error + Send + Sync>;

pub(super) type BoxedCause = Box<dyn std::error::Error + Send + Sync>;

/// Redis did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RedisError {
    /// Nothing was done: there was no connection, or the server turned the request away.
    #[error("Redis is unavailable: {0}")]
    Unavailable(Cause),
    /// The request was sent and no answer came: Redis may or may not have done it.
    #[error("Redis did not answer, the outcome is unknown: {0}")]
    Unknown(Cause),
    /// Redis answered something that it never should: a defect of the caller or of the data.
    #[error("Redis answered unexpectedly: {0}")]
    Defect(Cause),
}

impl RedisError {
    /// A defect, in words.
    pub fn defect(what: impl Into<String>) -> Self {
        Self::Defect(cause(what.into()))
    }

    /// Nothing was done, because of `why`.
    pub fn unavailable(why: impl Into<BoxedCause>) -> Self {
        Self::Unavailable(cause(why))
    }

    /// The request was sent, and `why` its outcome is not known.
    pub fn unknown(why: impl Into<BoxedCause>) -> Self {
        Self::Unknown(cause(why))
    }

    /// The error of a request that was not sent because another one before it failed with `error`.
    pub fn unsent_after(error: &Self) -> Self {
        Self::Unavailable(Arc::clone(error.cause()))
    }

    /// The error of a request that went by a [`Batcher`](group_commit::Batcher).
    pub fn from_batch(error: BatchError<Self>) -> Self {
        match error {
            BatchError::Full => Self::unavailable("too many requests wait for it already"),
            BatchError::NoSlot => {
                Self::unavailable("its turn among the batches did not come in time")
            }
            BatchError::NotStarted(before) => Self::unsent_after(&before),
            BatchError::Failed(error) => error,
            BatchError::Interrupted => Self::unknown("the batch was interrupted"),
        }
    }

    /// What lies behind the error.
    pub const fn cause(&self) -> &Cause {
        let (Self::Unavailable(cause) | Self::Unknown(cause) | Self::Defect(cause)) = self;
        cause
    }

    /// Whether the same request may succeed a little later.
    pub const fn retry_may_help(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Unknown(_))
    }

    /// Whether Redis may have done what was asked.
    pub const fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

fn cause(why: impl Into<BoxedCause>) -> Cause {
    Arc::from(why.into())
}

impl From<redis::RedisError> for RedisError {
    fn from(error: redis::RedisError) -> Self {
        if error.is_connection_refusal() {
            return Self::unavailable(error);
        }
        match error.kind() {
            ErrorKind::Server(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ReadOnly
                // Of a slot that no node was found to serve: it is being moved.
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask,
            ) => Self::unavailable(error),
            // The library's own words do not name the code.
            ErrorKind::Server(ServerErrorKind::NoPerm) => Self::defect(format!(
                "NOPERM {}; let the user of the Redis URL do this (ACL SETUSER), or give \
                 another one",
                error.detail().unwrap_or("this user has no permission for that")
            )),
            ErrorKind::Io => Self::unknown(error),
            // Refused, not done: out of memory, a full disk under the append-only file, a script
            // that runs for ever, replicas that are missing, a password that changed.
            _ if matches!(
                error.code(),
                Some("OOM" | "MISCONF" | "BUSY" | "NOREPLICAS" | "NOAUTH" | "WRONGPASS")
            ) =>
            {
                Self::unavailable(error)
            }
            _ if error.is_io_error() || error.is_unrecoverable_error() => Self::unknown(error),
            _ => Self::Defect(cause(error)),
        }
    }
}
