//! What can go wrong with private servers, each as one sentence for a person.

use serde::{Deserialize, Serialize};

/// A failure to start, restart or stop the private servers.
///
/// After a failed [`start`](super::Servers::start) of any variant nothing
/// is left running and no throw-away directory remains: no outcome is unknown.
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum StoresError {
    /// PostgreSQL or Redis is not installed; the text names the command that
    /// installs what is missing. The command line exits 2 on it.
    #[error("{0}")]
    MissingBinaries(String),
    /// The user is one that PostgreSQL does not run as. The command line exits 2 on it.
    #[error("{0}")]
    Account(String),
    /// A directory cannot be used: not accessible to the servers' user, written
    /// by another version of PostgreSQL, a socket path too long, a full disk.
    #[error("{0}")]
    Directory(String),
    /// Another process holds the directory and did not become ready, or did not
    /// go away, in time.
    #[error("{0}")]
    Busy(String),
    /// A server did not start or did not stop; the text ends with its last log lines.
    #[error("{0}")]
    Server(String),
    /// The supervisor process could not be started, or vanished.
    #[error("{0}")]
    Supervisor(String),
    /// The servers are another process's: we only attached to them.
    #[error(
        "these servers belong to another running seckill process; only that one may restart them"
    )]
    NotOwner,
}

impl StoresError {
    /// Whether the same call may succeed later with nothing changed by hand.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        matches!(self, Self::Busy(_))
    }

    /// A [`Directory`](Self::Directory) failure of one file system operation.
    pub(super) fn at(doing: &str, path: &std::path::Path, cause: &std::io::Error) -> Self {
        Self::Directory(format!("cannot {doing} {}: {cause}", path.display()))
    }
}
