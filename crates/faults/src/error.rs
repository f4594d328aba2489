//! What can go wrong with a server that is there to go wrong.

use std::io;

/// A server or a proxy of the lab could not be had, or did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// The server is not installed; the sentence says how to get it. No verdict follows from
    /// this: the caller leaves out what needs the server, and says so.
    #[error("{0}")]
    Missing(String),
    /// The same of a server that a script of ours installs.
    #[error("{server} is not installed: run scripts/setup.sh lab, or {install}")]
    NotInstalled {
        /// What it is.
        server: &'static str,
        /// The command that installs it.
        install: &'static str,
    },
    /// The server ended while it started.
    #[error("{server} did not start; its log ends:\n{log}")]
    NotStarted {
        /// What it is.
        server: &'static str,
        /// Its last words.
        log: String,
    },
    /// Somebody else has the port.
    #[error("{server} did not start: its port {port} is taken")]
    PortTaken {
        /// What it is.
        server: &'static str,
        /// On 127.0.0.1.
        port: u16,
    },
    /// What was waited for did not happen.
    #[error("waited in vain until {0}")]
    InVain(String),
    /// Only a server that runs can be paused and resumed.
    #[error("{0} is down")]
    Down(&'static str),
    /// A proxy goes before a plain TCP port or a UNIX socket.
    #[error("no proxy can be put before {0}")]
    NotPlain(String),
    /// Redis refused a command, or did not answer it. What became of one that was sent and not
    /// answered is unknown.
    #[error("redis: {0}")]
    Redis(#[from] redis::RedisError),
    /// The operating system refused.
    #[error("cannot {doing}: {cause}")]
    System {
        /// What was tried.
        doing: String,
        /// Why not.
        #[source]
        cause: io::Error,
    },
}

impl FaultError {
    /// Whether the server is not installed.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::NotInstalled { .. })
    }

    /// Whether the same may work later with nothing changed by hand.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        match self {
            Self::PortTaken { .. } | Self::InVain(_) => true,
            Self::Redis(error) => error.is_connection_dropped() || error.is_timeout(),
            _ => false,
        }
    }

    /// For `map_err`.
    pub(super) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |cause| Self::System { doing, cause }
    }
}
