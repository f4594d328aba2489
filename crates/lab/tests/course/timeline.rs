//! A timeline as `seckill lab replay` prints it, without how long it took.

use seckill::http::Language;
use seckill_lab::told::InWords;
use seckill_lab::{Cell, MatrixPlace};

pub fn printed<P: MatrixPlace>(cell: &Cell<P>, language: Language) -> Vec<String> {
    let (name, story) = (cell.of.heading(), cell.of.story(language));
    let mut lines = vec![format!("{name}{}{story}", language.choose(": ", "："))];
    let events = cell.timeline.iter().map(|line| line.in_words(language));
    lines.extend(events.map(|line| format!("    {line}").trim_end().to_owned()));
    lines.push(format!("  {} {}", cell.of.promise(), cell.outcome_in(language)));
    lines.extend(cell.witness_in(language).map(|witness| format!("    {witness}")));
    lines
}
