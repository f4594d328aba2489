//! What all threads of a steady load have counted, put together and reported.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::report::{PhaseReport, SteadyReport, Window};
use crate::latency::{Latencies, LatencyMs};

/// What was counted, by name. Starts empty; each thread's is added.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) phases: Vec<CountedPhase>,
    pub(super) windows: Vec<CountedWindow>,
    pub(super) last_outcome: Duration,
}

/// What was counted of one phase.
#[derive(Default)]
pub(super) struct CountedPhase {
    pub(super) due: u64,
    pub(super) by_code: BTreeMap<String, CountedCode>,
}

/// What was counted of one outcome in one phase. Histograms are large: none is made for what
/// never happened.
#[derive(Default)]
pub(super) struct CountedCode {
    pub(super) outcomes: u64,
    pub(super) answers: u64,
    /// From due to the outcome.
    pub(super) latencies: Option<Box<Latencies>>,
    /// From the sending to the outcome.
    pub(super) services: Option<Box<Latencies>>,
}

/// What was counted in one window.
#[derive(Default)]
pub(super) struct CountedWindow {
    pub(super) due: u64,
    pub(super) outcomes: BTreeMap<String, u64>,
    /// Latencies in microseconds, and how many orders had each.
    pub(super) orders: Vec<(u64, u32)>,
}

impl Counted {
    /// Adds what another thread has counted.
    pub(super) fn add(&mut self, other: Self) {
        self.last_outcome = self.last_outcome.max(other.last_outcome);
        lengthen(&mut self.phases, other.phases.len());
        for (phase, added) in self.phases.iter_mut().zip(other.phases) {
            phase.due += added.due;
            for (code, added) in added.by_code {
                let counted = phase.by_code.entry(code).or_default();
                counted.outcomes += added.outcomes;
                counted.answers += added.answers;
                add_latencies(&mut counted.latencies, added.latencies);
                add_latencies(&mut counted.services, added.services);
            }
        }
        lengthen(&mut self.windows, other.windows.len());
        for (window, added) in self.windows.iter_mut().zip(other.windows) {
            window.due += added.due;
            for (code, outcomes) in added.outcomes {
                *window.outcomes.entry(code).or_default() += outcomes;
            }
            window.orders.extend(added.orders);
        }
    }

    /// The report of a load with phases of these times.
    pub(super) fn report(
        self,
        spans: &[Range<Duration>],
        connections: usize,
        exhausted: bool,
    ) -> SteadyReport {
        let planned = spans.last().map_or(Duration::ZERO, |span| span.end);
        let elapsed = if exhausted { self.last_outcome } else { self.last_outcome.max(planned) };
        SteadyReport {
            connections,
            elapsed_ms: milliseconds(elapsed),
            phases: self.phases.into_iter().zip(spans).map(phase_report).collect(),
            windows: self.windows.into_iter().map(CountedWindow::report).collect(),
            exhausted,
        }
    }
}

fn phase_report((phase, span): (CountedPhase, &Range<Duration>)) -> PhaseReport {
    let mut report = PhaseReport {
        duration_ms: milliseconds(span.end - span.start),
        due: phase.due,
        outcomes: BTreeMap::new(),
        answers: BTreeMap::new(),
        latency_ms: BTreeMap::new(),
        service_ms: BTreeMap::new(),
    };
    for (code, counted) in phase.by_code {
        if let Some(latency) = summary(counted.latencies) {
            report.latency_ms.insert(code.clone(), latency);
        }
        if let Some(service) = summary(counted.services) {
            report.service_ms.insert(code.clone(), service);
        }
        if counted.answers > 0 {
            report.answers.insert(code.clone(), counted.answers);
        }
        if counted.outcomes > 0 {
            report.outcomes.insert(code, counted.outcomes);
        }
    }
    report
}

impl CountedWindow {
    fn report(self) -> Window {
        let ordered_p99_ms = p99_us(self.orders).map(|latency_us| latency_us as f64 / 1_000.0);
        Window { due: self.due, outcomes: self.outcomes, ordered_p99_ms }
    }
}

/// The smallest latency that at least 99 % of the orders do not exceed.
fn p99_us(mut orders: Vec<(u64, u32)>) -> Option<u64> {
    orders.sort_unstable();
    let total: u64 = orders.iter().map(|&(_, count)| u64::from(count)).sum();
    let rank = (total * 99).div_ceil(100);
    let mut passed = 0;
    orders.into_iter().find_map(|(latency_us, count)| {
        passed += u64::from(count);
        (passed >= rank).then_some(latency_us)
    })
}

fn summary(latencies: Option<Box<Latencies>>) -> Option<LatencyMs> {
    latencies.and_then(|latencies| latencies.summary())
}

fn add_latencies(sum: &mut Option<Box<Latencies>>, added: Option<Box<Latencies>>) {
    match (sum, added) {
        (_, None) => {}
        (Some(sum), Some(added)) => sum.add(&added),
        (sum, added) => *sum = added,
    }
}

fn lengthen<T: Default>(places: &mut Vec<T>, len: usize) {
    if places.len() < len {
        places.resize_with(len, T::default);
    }
}

/// To the microsecond.
fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1_000.0
}
