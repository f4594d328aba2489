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
