//! What can go wrong between us and a store.

use std::fmt;

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// PostgreSQL.
    Postgres,
    /// Redis.
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

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was done: no connection, or the server turned the request away.
    #[error("{service} is unavailable: {cause}")]
    Unavailable {
        /// Which store.
        service: Service,
        /// Why.
        cause: Cause,
    },
    /// The request was sent and no answer came: it may or may not have been done.
    #[error("{service} did not answer, the outcome is unknown: {cause}")]
    Unknown {
        /// Which store.
        service: Service,
        /// Why.
        cause: Cause,
    },
    /// The store answered something that it never should: a defect of ours or of the data.
    #[error("{service} answered unexpectedly: {cause}")]
    Defect {
        /// Which store.
        service: Service,
        /// What.
        cause: Cause,
    },
}

impl StoreError {
    /// A defect in words.
    pub fn defect(service: Service, what: impl Into<String>) -> Self {
        Self::Defect { service, cause: what.into().into() }
    }

    /// It was sent, and nobody knows what became of it.
    pub fn unknown(service: Service, cause: impl Into<Cause>) -> Self {
        Self::Unknown { service, cause: cause.into() }
    }

    /// The same for another of those whom it befell together.
    pub fn alike(&self) -> Self {
        let service = self.service();
        match self {
            Self::Unavailable { cause, .. } => {
                Self::Unavailable { service, cause: cause.to_string().into() }
            }
            Self::Unknown { cause, .. } => {
                Self::Unknown { service, cause: cause.to_string().into() }
            }
            Self::Defect { cause, .. } => Self::Defect { service, cause: cause.to_string().into() },
        }
    }

    /// What it means for a request that was not sent because of it.
    pub fn not_sent(&self) -> Self {
        let (Self::Unavailable { cause, .. }
        | Self::Unknown { cause, .. }
        | Self::Defect { cause, .. }) = self;
        Self::Unavailable { service: self.service(), cause: cause.to_string().into() }
    }

    /// Whether the same request may succeed a little later.
    pub const fn retry_may_help(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unknown { .. })
    }

    /// Whether the request may have been done.
    pub const fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// Which store.
    pub const fn service(&self) -> Service {
        match self {
            Self::Unavailable { service, .. }
            | Self::Unknown { service, .. }
            | Self::Defect { service, .. } => *service,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let service = Service::Postgres;
        match &error {
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Tls(_) => {
                Self::Unavailable { service, cause: error.into() }
            }
            // Also of a server that was cut off in the middle of a word, in the handshake, say.
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
                Self::Unknown { service, cause: error.into() }
            }
            sqlx::Error::Database(answer) => match answer.code().as_deref() {
                // Cancelled or rolled back by the server: certainly not done.
                Some("57014" | "55P03" | "40001" | "40P01") => {
                    Self::Unavailable { service, cause: error.into() }
                }
                // Out of resources, starting up, a standby after a failover, not let in.
                Some(code)
                    if code.starts_with("53")
                        || code.starts_with("28")
                        || matches!(code, "57P03" | "25006" | "3D000") =>
                {
                    Self::Unavailable { service, cause: error.into() }
                }
                // The server or the session was shut down: perhaps after a commit.
                Some(code) if code.starts_with("57P") || code.starts_with("08") => {
                    Self::Unknown { service, cause: error.into() }
                }
                _ => Self::Defect { service, cause: error.into() },
            },
            _ => Self::Defect { service, cause: error.into() },
        }
    }
}

impl From<redis::RedisError> for StoreError {
    fn from(error: redis::RedisError) -> Self {
        use redis::{ErrorKind, ServerErrorKind};
        let service = Service::Redis;
        if error.is_connection_refusal() {
            return Self::Unavailable { service, cause: error.into() };
        }
        match error.kind() {
            ErrorKind::Server(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ReadOnly
                // Of a slot that nobody was found to serve: it is on its way.
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask,
            ) => Self::Unavailable { service, cause: error.into() },
            // The library's own words do not name the code.
            ErrorKind::Server(ServerErrorKind::NoPerm) => Self::defect(
                service,
                format!(
                    "NOPERM {}; let the user of the Redis URL do this (ACL SETUSER), or give \
                     another one",
                    error.detail().unwrap_or("this user has no permission for that")
                ),
            ),
            ErrorKind::Io => Self::Unknown { service, cause: error.into() },
            // Refused, not done: out of memory, a full disk under the append-only file, a script
            // that runs for ever, replicas that are missing, a password that changed.
            _ if matches!(
                error.code(),
                Some("OOM" | "MISCONF" | "BUSY" | "NOREPLICAS" | "NOAUTH" | "WRONGPASS")
            ) =>
            {
                Self::Unavailable { service, cause: error.into() }
            }
            _ if error.is_io_error() || error.is_unrecoverable_error() => {
                Self::Unknown { service, cause: error.into() }
            }
            _ => Self::Defect { service, cause: error.into() },
        }
    }
}
