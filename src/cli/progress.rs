//! How far something is that takes a while.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of `total` attempts, drawn on a terminal only; elsewhere one line says what begins.
pub fn of_attempts(what: &str, total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg}  {wide_bar} {pos}/{len} attempts  {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total).with_style(style).with_message(what.to_owned());
    if bar.is_hidden() {
        eprintln!("{what}: {total} attempts");
    }
    bar
}

/// A bar of `total` steps, drawn on a terminal only; elsewhere [`tell`] writes a line for each.
pub fn of_steps(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len}  {msg:44!}  {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style)
}

/// A line about a step. On a terminal, where the bar tells how far it is, only what matters.
pub fn tell(bar: &ProgressBar, line: &str, matters: bool) {
    if bar.is_hidden() {
        eprintln!("{line}");
    } else if matters {
        bar.println(line);
    }
}
