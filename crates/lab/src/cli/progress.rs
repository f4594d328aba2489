//! How far the lab is: a bar on a terminal, a line a cell elsewhere. On standard error.

use indicatif::{ProgressBar, ProgressStyle};

use crate::report::terminal::Look;
use crate::report::{Environment, NoRush};
use crate::{Cell, Outcome, RushReport};

pub(super) struct LabProgress {
    bar: ProgressBar,
}

impl LabProgress {
    /// Says where it takes place, and that it begins.
    pub(super) fn begin(environment: &Environment, total: usize) -> Self {
        eprintln!("{}", environment.parts().join(", "));
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len}  {msg:40!}  {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Self { bar: ProgressBar::new(total as u64).with_style(style) }
    }

    /// What is played now.
    pub(super) fn plays(&self, rung: &str, what: &str) {
        self.bar.set_message(format!("{rung} {what}"));
    }

    /// What came of a cell. On a terminal only what is not as claimed: the matrix shows the rest.
    pub(super) fn played(&self, cell: &Cell) {
        let outcome = Look::stderr().judged(cell.observed, cell.is_wrong(), &cell.outcome());
        let line = format!("{} {}: {outcome} ({} ms)", cell.rung, cell.scenario, cell.elapsed_ms);
        self.step(&line, cell.is_wrong());
    }

    /// What came of a rush.
    pub(super) fn rushed(&self, rush: &RushReport) {
        let outcome = Look::stderr().judged(Outcome::from(rush), !rush.as_claimed, rush.outcome());
        let line =
            format!("{} rush: {outcome} ({:.0} orders/s)", rush.rung, rush.crowd.orders_per_s);
        self.step(&line, !rush.as_claimed);
    }

    /// Why there is nothing to say of a rush.
    pub(super) fn not_rushed(&self, rush: &NoRush) {
        let word = if rush.skipped { Outcome::Skipped } else { Outcome::Unknown };
        let outcome = Look::stderr().judged(word, !rush.skipped, &word.to_string());
        self.step(&format!("{} rush: {outcome}: {}", rush.rung, rush.reason), !rush.skipped);
    }

    fn step(&self, line: &str, wrong: bool) {
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else if wrong {
            self.bar.println(line);
        }
        self.bar.inc(1);
    }

    /// Leaves the terminal to the report.
    pub(super) fn end(self) {
        self.bar.finish_and_clear();
    }
}

/// How many schedules were played, of those that are known; what explores tells it.
pub(super) async fn with_bar<T>(
    what: &str,
    explore: impl AsyncFnOnce(&dyn Fn(usize, usize)) -> T,
) -> T {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} known  {msg}  {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(1).with_style(style).with_message(what.to_owned());
    let explored = explore(&|played, known| {
        bar.set_length((played + known) as u64);
        bar.set_position(played as u64);
    })
    .await;
    bar.finish_and_clear();
    explored
}
