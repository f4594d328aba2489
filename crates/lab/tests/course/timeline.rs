//! A timeline as `seckill lab replay` prints it, without how long it took.

use seckill::http::Language;
use seckill_lab::Cell;
use seckill_lab::told::InWords;

pub fn printed(cell: &Cell, language: Language) -> Vec<String> {
    let (name, story) = cell.heading(language);
    let colon = match language {
        Language::English => ": ",
        Language::Chinese => "：",
    };
    let mut lines = vec![format!("{name}{colon}{story}")];
    let events = cell.timeline.iter().map(|line| line.in_words(language));
    lines.extend(events.map(|line| format!("    {line}").trim_end().to_owned()));
    lines.push(format!("  {} {}", cell.invariant, cell.outcome_in(language)));
    lines.extend(cell.witness_in(language).map(|witness| format!("    {witness}")));
    lines
}
