//! An overload: how much is still sold, how long the buyers wait who are served, and how soon it is
//! over when the crowd is gone.
//!
//! First the peak: as much as is sold in the same time when each of 256 buyers comes again as soon
//! as the last one is served. Then one load of three phases, in which buyers arrive at random times
//! whatever the server does: half the peak, several times the peak, and half the peak again.
//!
//! Buyers share connections, and a buyer that finds none free within 5 ms leaves (`not_sent`). The
//! clients obey `Retry-After`: a connection that was refused is not free until then. So the server is
//! asked less often than buyers arrive.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::figures::{quotient, rate};
use super::rounds::{CONNECTIONS, Measurement};
use super::sales::discrepancy;
use super::testbed::{Load, Testbed, path};
use load::outcome::{NOT_SENT, ORDERED};
use load::steady::{Arrival, MAX_PER_S, Pairing, Phase, PhaseReport, SteadyReport, Window};
use seckill::purchase::Strategy;

/// Connections of the three phases. A buyer that finds all of them busy leaves: a connection that was
/// told to come later is busy until then.
pub(super) const OVERLOAD_CONNECTIONS: usize = 8_192;
/// How long a buyer waits for the answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a buyer waits for a free connection. With a longer wait the latency would be that of the
/// generator, and not of the server.
const CONNECTION_WITHIN: Duration = Duration::from_millis(5);
/// The names of the phases.
pub(super) const PHASES: [&str; 3] = ["half load", "overload", "half load again"];
/// How long a window of the report is.
const WINDOW_MS: f64 = 100.0;
/// So many good windows in a row are a recovery: one that is good by chance is none, and a hiccup
/// seconds later is none of the overload's.
const GOOD_WINDOWS: usize = 10;
/// What is slow in a window, as a multiple of the half load's 99th percentile.
const SLOWER_BY: f64 = 2.0;
/// Arrivals at random are now and then a few more than their mean.
const SPARE: f64 = 1.1;

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Overload {
    /// Confirmed orders a second, closed load.
    pub(super) peak_per_s: f64,
    pub(super) connections: usize,
    pub(super) phases: Vec<PhaseFigures>,
    /// Confirmed orders a second during the overload, as a share of the peak.
    pub(super) goodput_share: Option<f64>,
    /// The 99th percentile of the orders, from due, during the overload, as a multiple of that
    /// at half load.
    pub(super) p99_ratio: Option<f64>,
    /// From the end of the overload until ten windows of 100 ms in a row had nothing but orders,
    /// and a 99th percentile of at most twice that at half load; `null` when that never came.
    pub(super) recovery_ms: Option<f64>,
    /// From the end of the overload until the last window in which anybody heard, or found,
    /// something else than an order: what comes after it of the recovery is slowness, which a
    /// machine that stalls for a moment shows, too.
    pub(super) refused_until_ms: f64,
}

/// One phase.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PhaseFigures {
    pub(super) name: &'static str,
    pub(super) duration_ms: f64,
    /// Arrivals a second that were asked for.
    pub(super) planned_per_s: f64,
    /// Arrivals a second that there were.
    pub(super) offered_per_s: f64,
    pub(super) due: u64,
    /// Arrivals that found no free connection as long as they were willing to wait.
    pub(super) not_sent: u64,
    /// 201s a second that came within the phase.
    pub(super) accepted_per_s: f64,
    /// All arrivals of the phase by what became of them.
    pub(super) outcomes: BTreeMap<String, u64>,
    /// Of the orders, from the moment their buyer arrived, the wait for a free connection
    /// included.
    pub(super) accepted_p50_from_due_ms: Option<f64>,
    pub(super) accepted_p99_from_due_ms: Option<f64>,
    /// Of the orders, from the sending of the request: the server's own time.
    pub(super) accepted_p99_from_sending_ms: Option<f64>,
    /// The most memory the node had, in megabytes.
    pub(super) resident_mb: Option<f64>,
}

impl Overload {
    /// What was sold during the overload, a second.
    pub(super) fn goodput_per_s(&self) -> Option<f64> {
        self.phases.get(1).map(|phase| phase.accepted_per_s)
    }

    /// In a line.
    pub(super) fn in_words(&self) -> String {
        let recovery = self.recovery_ms.map_or_else(
            || "no recovery".to_owned(),
            |recovery_ms| format!("recovered after {recovery_ms:.0} ms"),
        );
        let goodput = self.goodput_per_s().map_or_else(|| "-".to_owned(), rate);
        let (peak, refused_until_ms) = (rate(self.peak_per_s), self.refused_until_ms);
        format!(
            "{goodput} orders/s of a peak of {peak}, {recovery}, the last refusal after \
             {refused_until_ms:.0} ms"
        )
    }
}

impl Testbed {
    /// Finds the peak, and asks for several times as much.
    pub(super) async fn overload(
        &mut self,
        measurement: Measurement,
        strategy: Strategy,
    ) -> anyhow::Result<(Overload, Vec<String>)> {
        let nodes = vec![self.overloaded(strategy)?.address];
        let lasting = self.options.lasting;
        // As long as the overload: what can be sold for a second, before the first checkpoint,
        // cannot be sold for long.
        self.options.lasting = self.options.overload;
        let peak = self.orders(measurement, nodes.clone(), CONNECTIONS).await;
        self.options.lasting = lasting;
        let (peak, mut spoiled) = peak?;
        let half_ms = self.options.half_load.as_millis() as u64;
        let durations_ms = [half_ms, self.options.overload.as_millis() as u64, half_ms];
        let phases = phases(peak.value, self.options.overload_by, durations_ms);
        let arrivals: f64 =
            phases.iter().map(|phase| phase.per_s * phase.duration_ms as f64 / 1e3).sum();
        let needed = (arrivals * SPARE) as usize + OVERLOAD_CONNECTIONS;
        let vouchers = self.put_on_sale(measurement, needed.div_ceil(self.tokens.len())).await?;
        let since = self.latest_second().await?;
        let load = Load {
            nodes,
            paths: vouchers.iter().copied().map(path).collect(),
            tokens: self.tokens.clone(),
            pairing: Pairing::PathAfterPath,
            arrival: Arrival::Open { phases: phases.clone() },
            connections: OVERLOAD_CONNECTIONS,
            answer_within: PATIENCE,
            connection_within: Some(CONNECTION_WITHIN),
        };
        let mut resident_bytes = [0_u64; 3];
        let node = self.overloaded(strategy)?;
        let look = |passed_ms| {
            let now = node.resident_bytes();
            let most = &mut resident_bytes[phase_at(passed_ms, &durations_ms)];
            *most = now.unwrap_or_default().max(*most);
        };
        let report = self.send(load, look).await?;
        let stored = self.stored(&vouchers, since).await?;
        if report.exhausted {
            spoiled.push(format!("{}: there were not enough buyers", measurement.label()));
        }
        if let Some(what) = discrepancy(&report.phases, stored) {
            spoiled.push(format!("{}: {what}", measurement.label()));
        }
        Ok((judge(peak.value, &phases, &report, resident_bytes), spoiled))
    }
}

/// Half the peak, `by` times the peak, and half of it again. Never more than the generator can be
/// asked for; the table says how many came.
fn phases(peak_per_s: f64, by: u8, durations_ms: [u64; 3]) -> Vec<Phase> {
    let per_s = [0.5, f64::from(by), 0.5].map(|part| (peak_per_s * part).clamp(1.0, MAX_PER_S));
    let phase = |(per_s, duration_ms)| Phase { per_s, duration_ms };
    per_s.into_iter().zip(durations_ms).map(phase).collect()
}

/// The phase at a time since the start; the last one goes on until everything is answered.
fn phase_at(passed_ms: u64, durations_ms: &[u64; 3]) -> usize {
    let mut end_ms = 0;
    let ends = durations_ms.iter().map(|duration_ms| {
        end_ms += duration_ms;
        end_ms
    });
    ends.into_iter().position(|end_ms| passed_ms < end_ms).unwrap_or(2)
}

fn judge(
    peak_per_s: f64,
    planned: &[Phase],
    report: &SteadyReport,
    resident_bytes: [u64; 3],
) -> Overload {
    let phases: Vec<PhaseFigures> = PHASES
        .into_iter()
        .zip(planned)
        .zip(&report.phases)
        .zip(resident_bytes)
        .map(|(((name, planned), came), bytes)| phase_figures(name, planned, came, bytes))
        .collect();
    let p99 = |phase: usize| phases.get(phase).and_then(|phase| phase.accepted_p99_from_due_ms);
    let (half_p99_ms, overload_p99_ms) = (p99(0), p99(1));
    let until_ms: u64 = planned.iter().take(2).map(|phase| phase.duration_ms).sum();
    let until_ms = until_ms as f64;
    let goodput = phases.get(1).map(|phase| phase.accepted_per_s);
    Overload {
        peak_per_s,
        connections: report.connections,
        goodput_share: quotient(goodput, Some(peak_per_s)),
        p99_ratio: quotient(overload_p99_ms, half_p99_ms),
        recovery_ms: half_p99_ms.and_then(|half_p99_ms| {
            recovery_ms(&report.windows, until_ms, half_p99_ms * SLOWER_BY)
        }),
        refused_until_ms: refused_until_ms(&report.windows, until_ms),
        phases,
    }
}

fn phase_figures(
    name: &'static str,
    planned: &Phase,
    came: &PhaseReport,
    resident_bytes: u64,
) -> PhaseFigures {
    let a_second = |count: u64| count as f64 * 1e3 / came.duration_ms;
    let from_due = came.latency_ms.get(ORDERED);
    PhaseFigures {
        name,
        duration_ms: came.duration_ms,
        planned_per_s: planned.per_s,
        offered_per_s: a_second(came.due),
        due: came.due,
        not_sent: came.outcomes.get(NOT_SENT).copied().unwrap_or_default(),
        accepted_per_s: a_second(came.answers.get(ORDERED).copied().unwrap_or_default()),
        outcomes: came.outcomes.clone(),
        accepted_p50_from_due_ms: from_due.map(|latency| latency.p50),
        accepted_p99_from_due_ms: from_due.map(|latency| latency.p99),
        accepted_p99_from_sending_ms: came.service_ms.get(ORDERED).map(|latency| latency.p99),
        resident_mb: (resident_bytes > 0).then_some(resident_bytes as f64 / 1e6),
    }
}

/// Whether all arrivals of a window were sold something.
fn sold_to_all(window: &Window) -> bool {
    window.outcomes.iter().all(|(code, count)| code == ORDERED || *count == 0)
}

/// From `until_ms` to the end of the last window that was not so.
fn refused_until_ms(windows: &[Window], until_ms: f64) -> f64 {
    let last = windows.iter().rposition(|window| !sold_to_all(window));
    last.map_or(0.0, |last| ((last + 1) as f64 * WINDOW_MS - until_ms).max(0.0))
}

/// From `until_ms` to the first of ten good windows in a row, or of as many as are left.
fn recovery_ms(windows: &[Window], until_ms: f64, slow_ms: f64) -> Option<f64> {
    let first = (until_ms / WINDOW_MS).ceil() as usize;
    let after = windows.get(first..)?;
    let good = |window: &Window| {
        sold_to_all(window)
            && window.outcomes.contains_key(ORDERED)
            && window.ordered_p99_ms.is_none_or(|p99_ms| p99_ms <= slow_ms)
    };
    // After the last arrival there is nobody left to be served.
    let busy = after.iter().rposition(|window| window.due > 0).map_or(0, |last| last + 1);
    let after = &after[..busy];
    let in_a_row = GOOD_WINDOWS.min(after.len()).max(1);
    let recovered = after.windows(in_a_row).position(|windows| windows.iter().all(good))?;
    Some((first + recovered) as f64 * WINDOW_MS - until_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(code: &str, p99_ms: f64) -> Window {
        Window { due: 10, outcomes: [(code.to_owned(), 10)].into(), ordered_p99_ms: Some(p99_ms) }
    }

    #[test]
    fn no_more_is_asked_of_the_generator_than_it_makes() {
        let per_s = |peak_per_s, by| {
            phases(peak_per_s, by, [10, 30, 10]).iter().map(|phase| phase.per_s).collect::<Vec<_>>()
        };
        assert_eq!(per_s(42_000.0, 5), [21_000.0, 210_000.0, 21_000.0]);
        assert_eq!(per_s(60_000.0, 20), [30_000.0, MAX_PER_S, 30_000.0]);
        // Nothing was sold.
        assert_eq!(per_s(0.0, 5), [1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_recovery_is_ten_good_windows_in_a_row() {
        let mut windows = vec![window(ORDERED, 1.0); 5]; // before the end of the overload
        windows.extend(vec![window("unavailable", 1.0); 2]);
        windows.push(window(ORDERED, 1.0)); // by chance
        windows.push(window(ORDERED, 9.0)); // slow
        windows.extend(vec![window(ORDERED, 2.0); 10]);
        windows.push(window("unavailable", 1.0)); // a hiccup, later
        assert_eq!(recovery_ms(&windows, 500.0, 2.0), Some(400.0));
        assert_eq!(recovery_ms(&windows, 500.0, 1.5), None);
        // In the middle of a window: it counts from the next.
        assert_eq!(recovery_ms(&windows, 450.0, 2.0), Some(450.0));
        assert_eq!(recovery_ms(&windows[..7], 500.0, 2.0), None);
        assert_eq!(recovery_ms(&windows[..5], 500.0, 2.0), None);
        assert_eq!(recovery_ms(&[], 500.0, 2.0), None);
    }

    #[test]
    fn refused_until_is_the_end_of_the_last_window_in_which_somebody_was() {
        let codes = [ORDERED, "unavailable", ORDERED, "not_sent", ORDERED];
        let windows = codes.map(|code| window(code, 1.0));
        assert_eq!(refused_until_ms(&windows, 100.0), 300.0);
        assert_eq!(refused_until_ms(&windows, 450.0), 0.0);
        assert_eq!(refused_until_ms(&windows[..1], 0.0), 0.0);
    }

    #[test]
    fn what_comes_after_the_last_arrival_is_no_recovery_and_hinders_none() {
        let mut windows = vec![window(ORDERED, 1.0); 3];
        let empty = Window { due: 0, outcomes: BTreeMap::new(), ordered_p99_ms: None };
        windows.extend(vec![empty; 4]);
        assert_eq!(recovery_ms(&windows, 0.0, 2.0), Some(0.0));
    }

    #[test]
    fn a_moment_belongs_to_its_phase() {
        let at = |passed_ms| phase_at(passed_ms, &[100, 300, 100]);
        assert_eq!([0, 99, 100, 399, 400, 499, 9_999].map(at), [0, 0, 1, 1, 2, 2, 2]);
    }
}
