//! Why a load could not be made. What the *server* answers, or fails to answer, is no error: it is an
//! outcome, and it is counted.

use std::io;
use std::net::SocketAddr;

/// Why a load could not be made.
///
/// Every variant but [`LoadError::WorkerDied`], [`LoadError::CrowdEnded`] and [`LoadError::Unread`] comes up before
/// the first request.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan has no request, or no node to send it to.
    #[error("the plan has {requests} requests for {nodes} nodes: there is nothing to send")]
    NothingToSend {
        /// Requests in the plan.
        requests: usize,
        /// Nodes in the plan.
        nodes: usize,
    },
    /// The plan is larger than the generator holds in memory.
    #[error("the plan has {requests} requests, more than the {max} one run may have")]
    TooManyRequests {
        /// Requests in the plan (`usize::MAX` when their number does not even fit).
        requests: usize,
        /// The most one plan may have.
        max: usize,
    },
    /// A request is aimed at a node that the plan does not list.
    #[error("request {request} is aimed at node {node}, but the plan lists only {nodes}")]
    NoSuchNode {
        /// Index of the request.
        request: usize,
        /// Index of the node it is aimed at.
        node: usize,
        /// Nodes in the plan.
        nodes: usize,
    },
    /// A path or a token contains what an HTTP request cannot.
    #[error("request {request} cannot be written as an HTTP request")]
    MalformedRequest {
        /// Index of the request.
        request: usize,
        /// Why HTTP refuses it.
        #[source]
        source: hyper::http::Error,
    },
    /// With so few connections the attempts of one buyer would wait for each other.
    #[error(
        "{wanted} connections are needed to send every buyer's attempts at the same time, \
         but the plan allows {max}"
    )]
    TooFewConnections {
        /// The fewest that keep a buyer's attempts concurrent.
        wanted: usize,
        /// What the plan allows.
        max: usize,
    },
    /// The plan wants more connections than the process may have open files.
    #[error(
        "{wanted} connections are wanted, but this process may open only {limit} files: \
         raise the hard limit (`ulimit -Hn`) or ask for fewer connections"
    )]
    OpenFilesLimit {
        /// Connections wanted, without the reserve for other files.
        wanted: usize,
        /// The limit, raised as far as it may be.
        limit: u64,
    },
    /// The limit on open files could not be read or raised.
    #[error("cannot raise the limit on open files")]
    RaiseOpenFiles(#[source] io::Error),
    /// A connection could not be opened before the clock started.
    #[error("cannot connect to {node}")]
    Connect {
        /// The node.
        node: SocketAddr,
        /// The last of several refusals.
        #[source]
        source: io::Error,
    },
    /// A task of the generator panicked, after the clock started.
    #[error("a connection of the load generator died")]
    WorkerDied(#[source] tokio::task::JoinError),
    /// The process that makes the load was given no plan.
    #[error("standard input is not a crowd's plan")]
    CrowdPlan(#[source] io::Error),
    /// The process that makes the load has no reader any more.
    #[error("nobody reads the load's output")]
    Unread(#[source] io::Error),
    /// The process that makes the load could not be started, or did not take its plan.
    #[error("cannot start the process that makes the load")]
    CrowdStart(#[source] io::Error),
    /// The process that makes the load ended without a report.
    #[error("the process that makes the load gave no report and ended with {status}")]
    CrowdEnded {
        /// How it ended.
        status: std::process::ExitStatus,
        /// Its reason, where it gave one: the last line on its standard error.
        reason: Option<String>,
    },
}

impl LoadError {
    /// Whether the same plan may succeed when it is tried again.
    #[must_use]
    pub fn retry_may_help(&self) -> bool {
        matches!(self, Self::Connect { .. })
    }

    /// Whether requests may have reached the server although no report tells of them.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::WorkerDied(_) | Self::CrowdEnded { .. } | Self::Unread(_))
    }
}
