//! How far something is that takes a while.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Between two pictures of a line that moves.
const TICK: Duration = Duration::from_millis(100);

/// A line that moves while something is waited for, drawn on a terminal only; elsewhere it is printed.
pub fn of_waiting(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::new_spinner().with_style(style).with_message(what.to_owned());
    bar.enable_steady_tick(TICK);
    if bar.is_hidden() {
        eprintln!("{what}");
    }
    bar
}

/// A bar of `total` attempts.
pub fn of_attempts(what: &str, total: u64) -> ProgressBar {
    of(what, total, "attempts")
}

/// A bar of `total` of these `units`, drawn on a terminal only; elsewhere one line says what begins.
pub fn of(what: &str, total: u64, units: &str) -> ProgressBar {
    let template = format!("{{msg}}  {{wide_bar}} {{pos}}/{{len}} {units}  {{elapsed}}");
    let style =
        ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total).with_style(style).with_message(what.to_owned());
    if bar.is_hidden() {
        eprintln!("{what}: {total} {units}");
    }
    bar
}
