//! What the caller wants: which servers, where, and how careful with the data.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

/// Where the servers keep their data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// A temporary directory, removed when the servers stop.
    Throwaway,
    /// This directory, made if missing; the next start finds the data again.
    /// While one process keeps servers here, others attach to them.
    Kept(PathBuf),
}

/// An order to [`Servers::start`](super::Servers::start).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Where the data lives.
    pub home: Home,
    /// Start PostgreSQL.
    pub postgres: bool,
    /// Start Redis.
    pub redis: bool,
    /// Every acknowledged commit survives a crash of the machine. Without it PostgreSQL
    /// runs with `fsync` off: an acknowledged commit survives the death of the server, and
    /// comes faster than any real database's, so never measure with `false`.
    pub durable: bool,
}

/// One of the two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Server {
    /// PostgreSQL.
    Postgres,
    /// Redis.
    Redis,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "PostgreSQL",
            Self::Redis => "Redis",
        })
    }
}
