//! What can go wrong between us and a store.

use std::fmt;
use std::sync::Arc;

use sqlx::error::DatabaseError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::model::{Code, Refusal};
use group_commit::BatchError;
use redis_link::LinkError;
use redis_link::timeout::TimedOut;

/// The internal error by which a server of Citus says that it was killed.
const SHUT_DOWN: &str = "postmaster was shut down";

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Service {
    Postgres,
    Redis,
}

impl fmt::Display for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Postgres => "PostgreSQL",
            Self::Redis => "Redis",
        })
    }
}

/// Shared, because one failure of a batch is told to all of its callers.
type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// A store did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs)] // of the fields: the names say it
pub enum StoreError {
    /// Nothing was done: no connection, or the server turned the request away.
    #[error("{service} is unavailable: {cause}")]
    Unavailable { service: Service, cause: Cause },
    /// The request was sent and no answer came: it may or may not have been done.
    #[error("{service} did not answer, the outcome is unknown: {cause}")]
    Unknown { service: Service, cause: Cause },
    /// The store answered something that it never should: a defect of ours or of the data.
    #[error("{service} answered unexpectedly: {cause}")]
    Defect { service: Service, cause: Cause },
}

/// Why a step of one order, or a change of one voucher, was not done.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs)] // the names say it
pub enum Stop {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Failed(#[from] StoreError),
}

impl From<Code> for Stop {
    fn from(code: Code) -> Self {
        Self::Refused(code.into())
    }
}

/// What a session says that takes no writes, when it is asked.
#[derive(Debug, thiserror::Error)]
#[error("it takes no writes: it is a standby, or was made read-only")]
struct ReadOnly;

/// Where PostgreSQL refuses a named statement of a session after a migration changed what it returns. The
/// code says no more than "not supported", and the words are in the server's language.
const STALE_PLAN: &str = "RevalidateCachedQuery";

/// The internal error, in no language but English, of a call that met the removal of its function.
const STALE_FUNCTION: &str = "cache lookup failed for function";

/// Where Citus passes on what a worker answered. While a shard moves, a worker may know the new place of one table's
/// shard and the old place of another's: it cannot plan a statement over both then, and says "not supported".
const PASSED_ON: &str = "ReportResultError";

type BoxedCause = Box<dyn std::error::Error + Send + Sync>;

fn cause(why: impl Into<BoxedCause>) -> Cause {
    Arc::from(why.into())
}

impl StoreError {
    /// A defect in words.
    pub fn defect(service: Service, what: impl Into<String>) -> Self {
        Self::Defect { service, cause: cause(what.into()) }
    }

    /// Nothing was done, because of `why`.
    pub fn unavailable(service: Service, why: impl Into<BoxedCause>) -> Self {
        Self::Unavailable { service, cause: cause(why) }
    }

    /// The request was sent and it is not known what became of it, because of `why`.
    pub fn unknown(service: Service, why: impl Into<BoxedCause>) -> Self {
        Self::Unknown { service, cause: cause(why) }
    }

    /// PostgreSQL answers, and takes no writes.
    pub(super) fn read_only() -> Self {
        Self::unavailable(Service::Postgres, ReadOnly)
    }

    /// Whether the session takes no writes.
    pub(super) fn is_read_only(&self) -> bool {
        let Self::Unavailable { cause, .. } = self else { return false };
        let refused = |error: &sqlx::Error| {
            let answer = error.as_database_error();
            answer.and_then(DatabaseError::code).as_deref() == Some("25006")
        };
        cause.is::<ReadOnly>() || cause.downcast_ref().is_some_and(refused)
    }

    /// The error of a request that was not sent because an `earlier` one failed.
    pub fn skipped_after(earlier: &Self) -> Self {
        let (Self::Unavailable { service, cause }
        | Self::Unknown { service, cause }
        | Self::Defect { service, cause }) = earlier;
        Self::Unavailable { service: *service, cause: Arc::clone(cause) }
    }

    /// The error of a request that only reads. It changes nothing, so that `Unknown` is `Unavailable`.
    #[must_use]
    pub fn into_read_error(self) -> Self {
        match self {
            Self::Unknown { service, cause } => Self::Unavailable { service, cause },
            error => error,
        }
    }

    /// The error of a request to `service` that went by a [`Batcher`](group_commit::Batcher).
    pub fn from_batch(service: Service, error: BatchError<Self>) -> Self {
        match error {
            BatchError::Full => Self::unavailable(service, "too many requests wait for it already"),
            BatchError::Stopped => Self::unavailable(service, "this process is being stopped"),
            BatchError::NoSlot => {
                Self::unavailable(service, "its turn among the batches did not come in time")
            }
            BatchError::NotStarted(before) => Self::skipped_after(&before),
            BatchError::Failed(error) => error,
            _ => Self::unknown(service, "the batch was interrupted"),
        }
    }

    /// What a request to `service` came to that only reads, and went by a [`Batcher`](group_commit::Batcher).
    pub fn of_read<T>(
        service: Service,
        read: Result<Result<T, Self>, BatchError<Self>>,
    ) -> Result<T, Self> {
        let answer = read.unwrap_or_else(|error| Err(Self::from_batch(service, error)));
        answer.map_err(Self::into_read_error)
    }

    /// Whether the same request may succeed a little later.
    pub const fn retry_may_help(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unknown { .. })
    }

    /// Whether the request may have been done.
    pub const fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// Whether a live server took the request back: another session held what it needed for too long.
    pub fn is_turned_away(&self) -> bool {
        let Self::Unavailable { cause, .. } = self else { return false };
        let Some(sqlx::Error::Database(answer)) = cause.downcast_ref() else { return false };
        matches!(answer.code().as_deref(), Some("57014" | "55P03" | "40001" | "40P01"))
            || is_stale_plan(answer.as_ref())
            || met_a_move(answer.as_ref())
    }

    /// Whether another session held a row for too long, and nothing was done.
    pub(super) fn is_row_held(&self) -> bool {
        let Self::Unavailable { cause, .. } = self else { return false };
        let answer = cause.downcast_ref().and_then(sqlx::Error::as_database_error);
        answer.and_then(DatabaseError::code).as_deref() == Some("55P03")
    }

    /// Whether nothing came back at all, before the time was over.
    pub(super) fn is_silence(&self) -> bool {
        let (Self::Unavailable { cause, .. } | Self::Unknown { cause, .. }) = self else {
            return false;
        };
        cause.is::<TimedOut>()
    }

    /// Whether the role may not do it.
    pub fn is_forbidden(&self) -> bool {
        let Self::Defect { cause, .. } = self else { return false };
        let Some(sqlx::Error::Database(answer)) = cause.downcast_ref() else { return false };
        answer.code().as_deref() == Some("42501")
    }

    /// Why the server lets nobody in with this address, in its words: a wrong password, no such role or database.
    pub fn is_refused_entry(&self) -> Option<String> {
        let Self::Unavailable { cause, .. } = self else { return None };
        let Some(sqlx::Error::Database(answer)) = cause.downcast_ref() else { return None };
        let code = answer.code()?;
        (code.starts_with("28") || code == "3D000").then(|| answer.message().to_owned())
    }

    /// Whether something of this name was there already, made by somebody else.
    pub fn is_taken_name(&self) -> bool {
        let Self::Defect { cause, .. } = self else { return false };
        let Some(sqlx::Error::Database(answer)) = cause.downcast_ref() else { return false };
        matches!(answer.code().as_deref(), Some("42P07" | "42710" | "42723"))
    }

    /// Whether the session knows the statement as it was before a migration. Nothing was done, and a new
    /// session does it.
    pub fn is_stale_plan(&self) -> bool {
        let Self::Unavailable { cause, .. } = self else { return false };
        let Some(sqlx::Error::Database(answer)) = cause.downcast_ref() else { return false };
        is_stale_plan(answer.as_ref())
    }

    /// Whether a live server refused this request alone, and serves the next one in the same session. New sessions for each
    /// purchase that waited in vain, or for each read of a voucher whose worker is away, would take the processors from
    /// the other requests.
    pub(super) fn is_about_this_request(&self) -> bool {
        (self.is_turned_away() && !self.is_stale_plan()) || self.is_about_one_worker()
    }

    /// Whether a live coordinator of Citus says that one of its workers is away. A server that itself goes
    /// away ends the session with `FATAL`, or with `SHUT_DOWN`.
    pub fn is_about_one_worker(&self) -> bool {
        let Self::Unknown { cause, .. } = self else { return false };
        let Some(sqlx::Error::Database(answer)) = cause.downcast_ref() else { return false };
        let answer = answer.try_downcast_ref::<PgDatabaseError>();
        answer.is_some_and(|answer| {
            answer.severity() == PgSeverity::Error && !answer.message().starts_with(SHUT_DOWN)
        })
    }
}

/// Where in the server's code the answer was written.
fn routine(answer: &dyn DatabaseError) -> Option<&str> {
    answer.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::routine)
}

fn is_stale_plan(answer: &dyn DatabaseError) -> bool {
    match answer.code().as_deref() {
        Some("0A000") => routine(answer) == Some(STALE_PLAN),
        Some("XX000") => answer.message().starts_with(STALE_FUNCTION),
        _ => false,
    }
}

fn met_a_move(answer: &dyn DatabaseError) -> bool {
    answer.code().as_deref() == Some("0A000") && routine(answer) == Some(PASSED_ON)
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let service = Service::Postgres;
        match &error {
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Tls(_) => {
                Self::Unavailable { service, cause: cause(error) }
            }
            // `Protocol` also where a server was cut off in the middle of a message.
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
                Self::Unknown { service, cause: cause(error) }
            }
            sqlx::Error::Database(answer)
                if is_stale_plan(answer.as_ref()) || met_a_move(answer.as_ref()) =>
            {
                Self::Unavailable { service, cause: cause(error) }
            }
            sqlx::Error::Database(answer) => match answer.code().as_deref() {
                // Cancelled or rolled back by the server: certainly not done.
                Some("57014" | "55P03" | "40001" | "40P01") => {
                    Self::Unavailable { service, cause: cause(error) }
                }
                // Out of resources, starting up, a standby after a failover, not let in.
                Some(code)
                    if code.starts_with("53")
                        || code.starts_with("28")
                        || matches!(code, "57P03" | "25006" | "3D000") =>
                {
                    Self::Unavailable { service, cause: cause(error) }
                }
                // The server or the session was shut down: perhaps after a commit.
                Some(code) if code.starts_with("57P") || code.starts_with("08") => {
                    Self::Unknown { service, cause: cause(error) }
                }
                // Citus, when its worker or the coordinator itself died: its code is that of a defect.
                Some("XX000")
                    if answer.message().starts_with("failure on connection")
                        || answer.message().starts_with(SHUT_DOWN) =>
                {
                    Self::Unknown { service, cause: cause(error) }
                }
                _ => Self::Defect { service, cause: cause(error) },
            },
            _ => Self::Defect { service, cause: cause(error) },
        }
    }
}

impl From<LinkError> for StoreError {
    fn from(error: LinkError) -> Self {
        let service = Service::Redis;
        match error {
            LinkError::Unavailable(cause) => Self::Unavailable { service, cause },
            LinkError::Unknown(cause) => Self::Unknown { service, cause },
            // An operator has to mend it: until then buyers are to come again.
            LinkError::Misconfigured(cause) => Self::Unavailable { service, cause },
            // And whatever else there will be.
            error => Self::Defect { service, cause: error.cause().clone() },
        }
    }
}
