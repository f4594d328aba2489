//! Counting, in the thread that makes the load: as cheap as it can be had.
//!
//! Histograms and not samples, so that memory does not grow with what is counted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::codes::{CodeIndex, Codes, NO_ANSWER_INDEX, NOT_SENT_INDEX, ORDERED_INDEX};
use super::sum::{Counted, CountedCode, CountedPhase, CountedWindow};
use crate::latency::MAX_LATENCY_US;

/// How long a window is.
pub(super) const WINDOW: Duration = Duration::from_millis(100);

/// Significant decimal digits of the latencies of one window. Fewer than for a whole phase:
/// of each window they are kept until the end.
const WINDOW_DIGITS: u8 = 2;

/// When a request was due, and sent if it was, since the start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    pub(super) due: Duration,
    pub(super) sent: Option<Duration>,
}

/// What one thread has counted.
pub(super) struct Tally {
    spans: Vec<Range<Duration>>,
    phases: Vec<PhaseTally>,
    windows: Vec<WindowTally>,
    /// The orders of the last window. Answers come in the order of their time, so the ones
    /// before have got all theirs.
    orders: Histogram<u32>,
    last_outcome: Duration,
}

#[derive(Default)]
struct PhaseTally {
    due: u64,
    /// At the place of the code's number.
    by_code: Vec<CountedCode>,
}

#[derive(Default)]
struct WindowTally {
    due: u64,
    /// At the place of the code's number.
    outcomes: Vec<u64>,
    /// Latency in microseconds and how many orders had it.
    orders: Vec<(u64, u32)>,
}

impl Tally {
    pub(super) fn new(spans: Vec<Range<Duration>>) -> Self {
        // Refused only when the bounds are out of order or the digits above 5.
        #[expect(clippy::expect_used, reason = "constant arguments, executed by every test")]
        let orders = Histogram::new_with_bounds(1, MAX_LATENCY_US, WINDOW_DIGITS)
            .expect("constant bounds are in order");
        Self {
            phases: spans.iter().map(|_| PhaseTally::default()).collect(),
            spans,
            windows: Vec::new(),
            orders,
            last_outcome: Duration::ZERO,
        }
    }

    /// A request is due.
    pub(super) fn due(&mut self, at: Duration) {
        let phase = self.phase_begun_by(at);
        self.phases[phase].due += 1;
        self.window(at).due += 1;
    }

    /// A request that was due has its outcome, at `now`, which is never before that of the
    /// last call.
    pub(super) fn outcome(&mut self, timing: Timing, now: Duration, code: CodeIndex) {
        self.last_outcome = now;
        let latency = now.saturating_sub(timing.due);
        let phase_due = self.phase_begun_by(timing.due);
        let counted = at(&mut self.phases[phase_due].by_code, code);
        counted.outcomes += 1;
        counted.latencies.get_or_insert_default().record(latency);
        if let Some(sent) = timing.sent {
            counted.services.get_or_insert_default().record(now.saturating_sub(sent));
        }

        let phase_now = self.phase_begun_by(now);
        if self.spans[phase_now].contains(&now)
            && ![NO_ANSWER_INDEX, NOT_SENT_INDEX].contains(&code)
        {
            at(&mut self.phases[phase_now].by_code, code).answers += 1;
        }

        *at(&mut self.window(now).outcomes, code) += 1;
        if code == ORDERED_INDEX {
            self.orders.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// The last phase that has begun by `time`.
    fn phase_begun_by(&self, time: Duration) -> usize {
        // A steady load has few phases.
        self.spans.iter().rposition(|span| span.start <= time).unwrap_or_default()
    }

    fn window(&mut self, time: Duration) -> &mut WindowTally {
        let index = (time.as_nanos() / WINDOW.as_nanos()) as usize;
        if index >= self.windows.len() {
            self.close_window();
            self.windows.resize_with(index + 1, WindowTally::default);
        }
        &mut self.windows[index]
    }

    fn close_window(&mut self) {
        if let Some(last) = self.windows.last_mut()
            && !self.orders.is_empty()
        {
            let recorded = self.orders.iter_recorded();
            last.orders = recorded.map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
            self.orders.reset();
        }
    }

    /// The end: numbers become names, which other threads' numbers can be added to.
    pub(super) fn finish(mut self, codes: &Codes) -> Counted {
        self.close_window();
        let names = codes.names();
        let phases = self.phases.into_iter().map(|phase| CountedPhase {
            due: phase.due,
            by_code: by_name(names, phase.by_code, |counted| {
                counted.outcomes + counted.answers > 0
            }),
        });
        let windows = self.windows.into_iter().map(|window| CountedWindow {
            due: window.due,
            outcomes: by_name(names, window.outcomes, |&count| count > 0),
            orders: window.orders,
        });
        Counted {
            phases: phases.collect(),
            windows: windows.collect(),
            last_outcome: self.last_outcome,
        }
    }
}

/// The place of `code`, made when there is none yet.
fn at<T: Default>(places: &mut Vec<T>, code: CodeIndex) -> &mut T {
    if code >= places.len() {
        places.resize_with(code + 1, T::default);
    }
    &mut places[code]
}

fn by_name<T>(
    names: &[Cow<'static, str>],
    places: Vec<T>,
    is_any: impl Fn(&T) -> bool,
) -> BTreeMap<String, T> {
    let named = names.iter().map(|name| name.to_string()).zip(places);
    named.filter(|(_, counted)| is_any(counted)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOLD_OUT: CodeIndex = 3;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Requests as (due, sent, outcome's time, code), in the order of their outcomes.
    fn counted(requests: &[(u64, Option<u64>, u64, CodeIndex)]) -> Counted {
        let mut tally = Tally::new(vec![ms(0)..ms(150), ms(150)..ms(250)]);
        let mut codes = Codes::default();
        assert_eq!(codes.of(409, true, Some(b"{\"code\":\"sold_out\"}")), SOLD_OUT);
        for &(due, sent, at, code) in requests {
            tally.due(ms(due));
            tally.outcome(Timing { due: ms(due), sent: sent.map(ms) }, ms(at), code);
        }
        tally.finish(&codes)
    }

    fn requests() -> Counted {
        counted(&[
            (0, Some(0), 10, ORDERED_INDEX),
            (10, Some(100), 120, ORDERED_INDEX),
            (140, Some(141), 160, SOLD_OUT),
            (160, Some(161), 300, NO_ANSWER_INDEX),
            (200, Some(201), 301, SOLD_OUT),
            (240, None, 340, NOT_SENT_INDEX),
        ])
    }

    #[test]
    fn outcomes_belong_to_the_phase_of_the_request_and_answers_to_the_one_they_came_in() {
        let report = requests().report(&[ms(0)..ms(150), ms(150)..ms(250)], 4, false);
        let [first, second] = &report.phases[..] else { panic!("{report:?}") };
        assert_eq!((first.due, second.due), (3, 3));
        assert_eq!((first.outcomes["ordered"], first.outcomes["sold_out"]), (2, 1));
        assert_eq!(first.answers.values().sum::<u64>(), 2);
        // One answer came too late for any phase, and two requests have none.
        assert_eq!((second.answers.len(), second.answers["sold_out"]), (1, 1));
        assert_eq!(second.outcomes.len(), 3);
        assert_eq!((report.elapsed_ms, report.connections), (340.0, 4));
    }

    #[test]
    fn a_latency_begins_when_the_request_was_due_and_a_service_when_it_was_sent() {
        let report = requests().report(&[ms(0)..ms(150), ms(150)..ms(250)], 4, false);
        let near = |figure: f64, expected: f64| (figure - expected).abs() <= expected / 500.0;
        let first = &report.phases[0];
        assert!(near(first.latency_ms["ordered"].max, 110.0), "{first:?}");
        assert!(near(first.service_ms["ordered"].max, 20.0), "{first:?}");
        let second = &report.phases[1];
        assert!(near(second.latency_ms["not_sent"].max, 100.0), "{second:?}");
        assert_eq!(second.service_ms.get("not_sent"), None);
    }

    #[test]
    fn a_window_has_what_became_due_and_what_ended_in_it() {
        let report = requests().report(&[ms(0)..ms(150), ms(150)..ms(250)], 4, false);
        let due: Vec<_> = report.windows.iter().map(|window| window.due).collect();
        assert_eq!(due, [2, 2, 2, 0]);
        let ended: Vec<u64> = report.windows.iter().map(|w| w.outcomes.values().sum()).collect();
        assert_eq!(ended, [1, 2, 0, 3]);
        let p99 = |window: usize| report.windows[window].ordered_p99_ms.unwrap_or_default();
        assert!((9.9..=10.1).contains(&p99(0)) && (109.0..=111.0).contains(&p99(1)), "{report:?}");
        assert_eq!(report.windows[3].ordered_p99_ms, None);
    }

    #[test]
    fn two_threads_count_as_one() {
        let spans = [ms(0)..ms(150), ms(150)..ms(250)];
        let mut both = counted(&[
            (0, Some(0), 10, ORDERED_INDEX),
            (140, Some(141), 160, SOLD_OUT),
            (200, Some(201), 301, SOLD_OUT),
        ]);
        both.add(counted(&[
            (10, Some(100), 120, ORDERED_INDEX),
            (160, Some(161), 300, NO_ANSWER_INDEX),
            (240, None, 340, NOT_SENT_INDEX),
        ]));
        assert_eq!(both.report(&spans, 4, false), requests().report(&spans, 4, false));
    }

    #[test]
    fn a_load_that_ran_dry_has_lasted_to_its_last_outcome() {
        let spans = [ms(0)..ms(150), ms(150)..ms(60_000)];
        assert_eq!(requests().report(&spans, 1, true).elapsed_ms, 340.0);
        assert_eq!(requests().report(&spans, 1, false).elapsed_ms, 60_000.0);
    }
}
