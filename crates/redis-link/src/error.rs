//! What can go wrong between a client and Redis.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use redis::{ErrorKind, ServerErrorKind};

/// Shared, because one failure of a pipeline is told to all callers whose commands were in it.
type Cause = Arc<dyn Error + Send + Sync>;

pub(super) type BoxedCause = Box<dyn Error + Send + Sync>;

/// Redis did not do what was asked. Its text ends with that of its cause, so that one line of a log says all;
/// `source()` is the cause itself: often a `redis::RedisError`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LinkError {
    /// Nothing was done: there was no connection, or the server turned the request away. A retry may help.
    Unavailable(Cause),
    /// The request was sent and no answer came: Redis may or may not have done it. Only what may be done twice may be
    /// sent again.
    Unknown(Cause),
    /// Nothing was done, and nothing will be until somebody changes the configuration: a malformed URL, files of no
    /// use, a wrong password, a database that there is not.
    Misconfigured(Cause),
    /// Redis answered something that it never should: a defect of the caller or of the data.
    Defect(Cause),
}

impl fmt::Display for LinkError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::Unavailable(_) => "Redis is unavailable",
            Self::Unknown(_) => "Redis did not answer, the outcome is unknown",
            Self::Misconfigured(_) => "Redis cannot be used as it is configured",
            Self::Defect(_) => "Redis answered unexpectedly",
        };
        write!(formatter, "{what}: {}", self.cause())
    }
}

impl Error for LinkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&**self.cause())
    }
}

/// A server refused the login. The error names it: sentinels, and the master that they name, may have passwords of
/// their own.
#[derive(Debug, thiserror::Error)]
#[error("{server} says {cause}")]
pub(super) struct ServerSaid {
    pub(super) server: String,
    pub(super) cause: redis::RedisError,
}

impl LinkError {
    /// [`LinkError::Defect`], in words.
    pub fn defect(what: impl Into<String>) -> Self {
        Self::Defect(cause(what.into()))
    }

    /// [`LinkError::Misconfigured`], by its cause.
    pub fn misconfigured(what: impl Into<BoxedCause>) -> Self {
        Self::Misconfigured(cause(what))
    }

    /// Nothing was sent: this is why there is no connection.
    pub(super) fn not_connected(why: impl Into<BoxedCause>) -> Self {
        let why = why.into();
        let said = why.downcast_ref().map(|said: &ServerSaid| &said.cause);
        if said.or_else(|| why.downcast_ref()).is_some_and(is_refusal_of_login) {
            Self::misconfigured(why)
        } else {
            Self::unavailable(why)
        }
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

    /// What lies behind the error.
    #[must_use]
    pub const fn cause(&self) -> &Cause {
        let (Self::Unavailable(cause)
        | Self::Unknown(cause)
        | Self::Misconfigured(cause)
        | Self::Defect(cause)) = self;
        cause
    }

    /// Whether a server that answers others has refused this: it has no memory or no disk for it, or too few replicas.
    pub(super) fn is_refusal(&self) -> bool {
        let Self::Unavailable(cause) = self else { return false };
        let refused = |error: &redis::RedisError| {
            matches!(error.code(), Some("OOM" | "MISCONF" | "NOREPLICAS"))
        };
        cause.downcast_ref().is_some_and(refused)
    }

    /// Whether the same request may succeed a little later.
    #[must_use]
    pub const fn retry_may_help(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Unknown(_))
    }

    /// Whether Redis may have done what was asked.
    #[must_use]
    pub const fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

/// Whether the server has answered that it takes no such password, or has no such database.
fn is_refusal_of_login(error: &redis::RedisError) -> bool {
    match error.kind() {
        // What connections that are not of this crate make of it: the code is lost.
        ErrorKind::AuthenticationFailed => true,
        ErrorKind::Server(ServerErrorKind::ResponseError) => {
            let known = ["DB index", "without any password configured"];
            error.detail().is_some_and(|detail| known.iter().any(|words| detail.contains(words)))
        }
        _ => matches!(error.code(), Some("WRONGPASS" | "NOAUTH")),
    }
}

fn cause(why: impl Into<BoxedCause>) -> Cause {
    Arc::from(why.into())
}

impl From<redis::RedisError> for LinkError {
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
            // that runs for ever, replicas that are missing.
            _ if matches!(error.code(), Some("OOM" | "MISCONF" | "BUSY" | "NOREPLICAS")) => {
                Self::unavailable(error)
            }
            _ if is_refusal_of_login(&error) => Self::misconfigured(error),
            _ if error.is_io_error() || error.is_unrecoverable_error() => Self::unknown(error),
            _ => Self::Defect(cause(error)),
        }
    }
}
