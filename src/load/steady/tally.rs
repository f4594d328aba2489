//! Counting, in the thread that makes the load: as cheap as it can be had.
//!
//! Histograms and not samples, so that memory does not grow with what is counted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::answer::{CodeIndex, Codes, NO_ANSWER_INDEX, NOT_SENT_INDEX, ORDERED_INDEX};
use super::sum::{Counted, CountedCode, CountedPhase, CountedWindow};
use crate::load::latency::MAX_LATENCY_US;

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
        // A steady load has few phases, mostly one.
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
