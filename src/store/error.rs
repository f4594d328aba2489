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
/// The same of a worker.
const CONNECTION_FAILED: &str = "failure on connection";

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

    /// What PostgreSQL answered, if it did, and in which words.
    pub fn answer(&self) -> Option<(DatabaseAnswer, &str)> {
        let (Self::Unavailable { cause, .. }
        | Self::Unknown { cause, .. }
        | Self::Defect { cause, .. }) = self;
        let answer = cause.downcast_ref().and_then(sqlx::Error::as_database_error)?;
        Some((DatabaseAnswer::of(answer), answer.message()))
    }

    fn is(&self, answer: DatabaseAnswer) -> bool {
        self.answer().is_some_and(|(said, _)| said == answer)
    }

    /// Whether a live server took the request back: another session held what it needed for too long.
    pub fn is_turned_away(&self) -> bool {
        use DatabaseAnswer::{RowHeld, StalePlan, TakenBack};
        matches!(self.answer(), Some((RowHeld | TakenBack | StalePlan, _)))
    }

    /// Whether another session held a row for too long, and nothing was done.
    pub fn is_row_held(&self) -> bool {
        self.is(DatabaseAnswer::RowHeld)
    }

    /// Whether the session takes no writes.
    pub(super) fn is_read_only(&self) -> bool {
        let is_told = matches!(self, Self::Unavailable { cause, .. } if cause.is::<ReadOnly>());
        is_told || self.is(DatabaseAnswer::ReadOnly)
    }

    /// Whether nothing came back at all, before the time was over.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self, Self::Unavailable { cause, .. } | Self::Unknown { cause, .. }
            if cause.is::<TimedOut>())
    }

    /// Whether the session knows the statement as it was before a migration. Nothing was done, and a new
    /// session does it.
    pub fn is_stale_plan(&self) -> bool {
        self.is(DatabaseAnswer::StalePlan)
    }

    /// Whether a live server refused this request alone, and serves the next one in the same session. New sessions for each
    /// purchase that waited in vain, or for each read of a voucher whose worker is away, would take the processors from
    /// the other requests.
    pub(super) fn is_about_this_request(&self) -> bool {
        (self.is_turned_away() && !self.is_stale_plan()) || self.is_about_one_worker()
    }

    /// Whether a live coordinator of Citus says that one of its workers is away.
    pub fn is_about_one_worker(&self) -> bool {
        self.outcome_unknown() && self.is(DatabaseAnswer::WorkerGone)
    }
}

/// What an error that PostgreSQL answers means here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseAnswer {
    /// Another session held a row, or a table, for too long.
    RowHeld,
    /// The server cancelled the request, or took it back: certainly not done.
    TakenBack,
    /// The session knows the statement, or the function, as it was before a migration.
    StalePlan,
    /// A standby, also after a failover, or a session that takes no writes.
    ReadOnly,
    /// It lets nobody in with this address: a wrong password, no such role or database.
    EntryRefused,
    /// It starts up, or has too little of something.
    NotNow,
    /// It, or the session, was shut down: perhaps after a commit.
    ServerGone,
    /// The same of one of Citus' workers, as a live coordinator tells it.
    WorkerGone,
    /// The role may not do it.
    Forbidden,
    /// Something of this name was there already, made by somebody else.
    NameTaken,
    /// A defect.
    Other,
}

impl DatabaseAnswer {
    /// By the SQLSTATE, and where that says too little, by where in the server it comes from, or by its words.
    fn of(answer: &dyn DatabaseError) -> Self {
        let (code, message) = (answer.code().unwrap_or_default(), answer.message());
        let details = answer.try_downcast_ref::<PgDatabaseError>();
        let routine = details.and_then(PgDatabaseError::routine);
        // A server that itself goes away ends the session with `FATAL`, or with `SHUT_DOWN`.
        let is_alive = details.is_some_and(|details| details.severity() == PgSeverity::Error)
            && !message.starts_with(SHUT_DOWN);
        let gone = if is_alive { Self::WorkerGone } else { Self::ServerGone };
        match &*code {
            "55P03" => Self::RowHeld,
            "57014" | "40001" | "40P01" => Self::TakenBack,
            "0A000" if routine == Some(PASSED_ON) => Self::TakenBack,
            "0A000" if routine == Some(STALE_PLAN) => Self::StalePlan,
            "XX000" if message.starts_with(STALE_FUNCTION) => Self::StalePlan,
            "25006" => Self::ReadOnly,
            "3D000" => Self::EntryRefused,
            "57P03" => Self::NotNow,
            "42501" => Self::Forbidden,
            "42P07" | "42710" | "42723" => Self::NameTaken,
            code if code.starts_with("28") => Self::EntryRefused,
            code if code.starts_with("53") => Self::NotNow,
            // A connection pooler has no server, or lost it: PgCat says so by 58000, Supavisor by XX000. A server names the
            // place in its code with each error.
            code if routine.is_none() && (code.starts_with("58") || code.starts_with("XX")) => {
                Self::ServerGone
            }
            code if code.starts_with("57P")
                || code.starts_with("08")
                // Citus, when its worker or the coordinator itself died: its code is that of a defect.
                || code == "XX000" && (message.starts_with(CONNECTION_FAILED) || message.starts_with(SHUT_DOWN)) =>
            {
                gone
            }
            _ => Self::Other,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        use DatabaseAnswer::{
            EntryRefused, Forbidden, NameTaken, NotNow, Other, ReadOnly, RowHeld, ServerGone,
            StalePlan, TakenBack, WorkerGone,
        };
        let service = Service::Postgres;
        match &error {
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Tls(_) => {
                Self::Unavailable { service, cause: cause(error) }
            }
            // `Protocol` also where a server was cut off in the middle of a message.
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
                Self::Unknown { service, cause: cause(error) }
            }
            sqlx::Error::Database(answer) => match DatabaseAnswer::of(answer.as_ref()) {
                RowHeld | TakenBack | StalePlan | ReadOnly | EntryRefused | NotNow => {
                    Self::Unavailable { service, cause: cause(error) }
                }
                ServerGone | WorkerGone => Self::Unknown { service, cause: cause(error) },
                Forbidden | NameTaken | Other => Self::Defect { service, cause: cause(error) },
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
