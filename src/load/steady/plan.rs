//! What a steady load is to do, as it is told to the process in which it is made.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A steady load. Without `Debug`: a token is as good as its user.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteadyPlan {
    /// The servers. The connections are dealt to them in turn.
    pub nodes: Vec<SocketAddr>,
    /// Paths to `POST` to, each with its query if it has one.
    pub paths: Vec<Arc<str>>,
    /// Sent as `authorization: Bearer <token>`.
    pub tokens: Vec<Arc<str>>,
    /// Which token goes with which path.
    pub pairing: Pairing,
    /// When requests are due.
    pub arrival: Arrival,
    /// Connections over all nodes, opened before the clock starts.
    pub connections: usize,
    /// How long to wait for an answer, in milliseconds from the moment its request was due;
    /// default 10,000.
    #[serde(default = "default_answer_timeout_ms")]
    pub answer_timeout_ms: u64,
    /// Decides when the requests of an open load are due.
    pub seed: u64,
}

fn default_answer_timeout_ms() -> u64 {
    10_000
}

impl SteadyPlan {
    /// How long requests become due, in milliseconds: the `total` of its progress.
    #[must_use]
    pub fn total_ms(&self) -> u64 {
        match &self.arrival {
            Arrival::Closed { duration_ms } => *duration_ms,
            Arrival::Open { phases } => {
                phases.iter().fold(0, |sum, phase| sum.saturating_add(phase.duration_ms))
            }
        }
    }
}

/// Which of *U* tokens goes with which of *P* paths in request *k*, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// Path *k* / *U*, token *k* mod *U*: all users on the first path, then on the next.
    /// Ends after *P* × *U* requests; no pair comes twice.
    PathAfterPath,
    /// Path *k* mod *P*, token *k* / *P*: all paths at once. Ends after *P* × *U* requests;
    /// no pair comes twice.
    PathsInTurn,
    /// Path *k* mod *P*, token *k* mod *U*, without end: for what is refused anyway.
    Again,
}

/// When requests are due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrival {
    /// On every connection, as soon as the request before it has its outcome.
    Closed {
        /// How long new requests are sent, in milliseconds.
        duration_ms: u64,
    },
    /// At random times, whatever the server does.
    Open {
        /// One after the other without a pause.
        phases: Vec<Phase>,
    },
}

/// A time during which requests arrive at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Arrivals a second, in the mean.
    pub per_s: f64,
    /// How long it lasts, in milliseconds.
    pub duration_ms: u64,
}
