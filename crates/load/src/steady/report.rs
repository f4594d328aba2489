//! What came of a steady load.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::crowd::ReportLine;
use crate::latency::LatencyMs;

/// One line of the output of the process that makes a steady load. Progress is told in
/// milliseconds of the load's time.
pub type SteadyLine = ReportLine<SteadyReport>;

/// What came of a steady load. Outcomes are named as in [`outcome`](crate::outcome).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteadyReport {
    /// Connections that were opened before the clock started.
    pub connections: usize,
    /// From the start to the last outcome, in milliseconds.
    pub elapsed_ms: f64,
    /// One for every phase of the plan; one for a closed load, and before it one for its lead-in
    /// if it has any.
    pub phases: Vec<PhaseReport>,
    /// Of 100 ms each, from the start to the last outcome.
    pub windows: Vec<Window>,
    /// Whether the plan ran out of pairs of a path and a token. From then on nothing was due,
    /// and the figures are not those of a steady load.
    pub exhausted: bool,
}

/// What came of the requests that were due in one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// How long the phase lasted, in milliseconds, as planned.
    pub duration_ms: f64,
    /// Requests that were due in this phase.
    pub due: u64,
    /// These requests by outcome, whenever it came; all together `due`.
    pub outcomes: BTreeMap<String, u64>,
    /// Answers that came within the phase's time, whenever their requests were due, by
    /// outcome: what rates are made of. Without `no_answer` and `not_sent`, which are none.
    pub answers: BTreeMap<String, u64>,
    /// By outcome, from the moment a request was due to its whole answer, or until it was
    /// given up.
    pub latency_ms: BTreeMap<String, LatencyMs>,
    /// By outcome, from the sending of a request to its whole answer, or until it was given
    /// up. Without `not_sent`.
    pub service_ms: BTreeMap<String, LatencyMs>,
}

/// What happened in 100 ms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Requests that were due in this window.
    pub due: u64,
    /// Outcomes that came in this window, whenever their requests were due.
    pub outcomes: BTreeMap<String, u64>,
    /// The 99th percentile of the latencies, from due, of the orders that came in this
    /// window, in milliseconds, to within 1 %; `null` when there was none.
    pub ordered_p99_ms: Option<f64>,
}
