//! The lines between the program and its supervisor: one JSON value a line.
//!
//! The program's first line is a [`Plan`](super::Plan), every further one an
//! [`SupervisorRequest`]; the supervisor answers each with one [`SupervisorReply`]. The end of the
//! supervisor's stdin is the order to stop: it also comes when the program dies.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Server, StoresError};

/// What the program may ask of a running supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SupervisorRequest {
    /// Start this server again, on the same socket and data, whether it was
    /// killed, is paused or still runs.
    Restart(Server),
}

/// The supervisor's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(super) enum SupervisorReply {
    /// To a plan: the servers run and this supervisor owns them.
    Ready(Running),
    /// To a plan: another supervisor owns the servers; this one has exited.
    Attached(Running),
    /// To a restart.
    Restarted {
        /// The new process.
        pid: u32,
    },
    /// To anything: it did not work.
    Failed {
        /// What went wrong, as the program's side reports it.
        error: StoresError,
    },
}

/// Running servers; also the content of `servers.json` in a kept home.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Running {
    pub(super) database_url: Option<String>,
    pub(super) redis_url: Option<String>,
    pub(super) postgres_pid: Option<u32>,
    pub(super) redis_pid: Option<u32>,
    /// Data and logs: the kept home, or the throw-away directory.
    pub(super) directory: PathBuf,
    /// Where the sockets are.
    pub(super) sockets: PathBuf,
}
