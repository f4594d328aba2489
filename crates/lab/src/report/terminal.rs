//! The report on a terminal, and the same in plain text where it is piped.
//!
//! Scenarios run down and rungs across: the names of the scenarios are then written out, those
//! of the rungs are numbers anyway, and the whole ladder fits into some hundred columns. Where
//! it does not, it comes in pieces, each with the names again.

use std::iter;

use console::{Style, Term, measure_text_width};
use program::OutputFile;
use report::Table;

use super::sentences::{label, mechanism, short_label};
use super::{LabReport, Outcome};
use crate::{Cell, RushOptions, RushReport};
use ladder::{Rung, Scenario};

/// What the reader's side can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Columns; `None` where lines may be as long as they like, because no person reads them
    /// as they come.
    pub width: Option<usize>,
    /// Whether colours are wanted.
    pub colour: bool,
}

impl Look {
    /// No terminal at all.
    pub const PLAIN: Self = Self { width: None, colour: false };

    /// How standard output is to be written to.
    pub fn stdout() -> Self {
        Self { width: width(&Term::stdout()), colour: console::colors_enabled() }
    }

    /// How standard error is to be written to.
    pub fn stderr() -> Self {
        Self { width: width(&Term::stderr()), colour: console::colors_enabled_stderr() }
    }

    /// How what goes into these `files`, too, is said to a person.
    pub fn beside<'a>(files: impl IntoIterator<Item = &'a OutputFile>) -> Self {
        let taken = files.into_iter().any(OutputFile::is_stdout);
        if taken { Self::stderr() } else { Self::stdout() }
    }

    /// Whether no line of a text is too long.
    pub fn fits(self, text: &str) -> bool {
        let room = self.width.unwrap_or(usize::MAX);
        text.lines().all(|line| measure_text_width(line) <= room)
    }

    fn style(self) -> Style {
        Style::new().force_styling(self.colour)
    }

    /// A heading.
    pub fn heading(self, text: &str) -> String {
        self.style().bold().apply_to(text).to_string()
    }

    /// In the background: most readers skip it.
    pub fn aside(self, text: &str) -> String {
        self.style().dim().apply_to(text).to_string()
    }

    /// The actor.
    pub fn actor(self, text: &str) -> String {
        self.style().cyan().bold().apply_to(text).to_string()
    }

    /// Something in the colour of what it says of the ladder.
    pub fn judged(self, mark: Outcome, wrong: bool, text: &str) -> String {
        let style = match mark {
            _ if wrong => self.style().white().on_red().bold(),
            Outcome::Holds => self.style().green(),
            Outcome::Breaks => self.style().yellow(),
            Outcome::Unknown => self.style().magenta(),
            Outcome::Skipped => self.style().cyan(),
            Outcome::Absent => self.style().dim(),
        };
        style.apply_to(text).to_string()
    }
}

fn width(term: &Term) -> Option<usize> {
    term.is_term().then(|| term.size_checked()).flatten().map(|(_, columns)| columns.into())
}

/// Everything but the verdict.
pub fn render(report: &LabReport, look: Look) -> String {
    let mut parts = vec![matrix(report, look), legend(report, look)];
    if !report.rushes.is_empty() {
        let RushOptions { users, stock, .. } = report.crowd;
        let heading = format!("The rush: {users} buyers for {stock} vouchers, some of them twice");
        let table = rushes(&report.rushes, look).replace('\n', "\n  ");
        parts.push(format!("{}\n  {table}", look.heading(&heading)));
    }
    parts.extend(not_as_claimed(&report.objections(), look));
    let skipped: Vec<String> = report
        .skipped()
        .into_iter()
        .map(|(how, names)| format!("{}: {how}", names.join(", ")))
        .collect();
    parts.extend(list(&look.heading("Skipped"), &skipped, look));
    parts.join("\n\n")
}

/// The verdict, in a line.
pub fn verdict(report: &LabReport, look: Look) -> String {
    let sentence = report.verdict();
    let (word, rest) = sentence.split_once(':').unwrap_or((&sentence, ""));
    let right = report.is_as_claimed();
    let word = look.judged(if right { Outcome::Holds } else { Outcome::Breaks }, !right, word);
    format!("{word}:{rest}")
}

/// What each scenario did to each rung.
pub fn matrix(report: &LabReport, look: Look) -> String {
    let whole = piece(report, &report.rungs, true, look);
    if look.fits(&whole) {
        return whole;
    }
    let (mut pieces, mut rest) = (Vec::new(), &report.rungs[..]);
    while !rest.is_empty() {
        // As many columns as there is room for, and at least one.
        let is_room = |count: &usize| look.fits(&piece(report, &rest[..*count], false, look));
        let count = (1..=rest.len()).take_while(is_room).last().unwrap_or(1);
        pieces.push(piece(report, &rest[..count], false, look));
        rest = &rest[count..];
    }
    pieces.join("\n\n")
}

/// The matrix of some rungs, which have long labels and room between them, or neither.
fn piece(report: &LabReport, rungs: &[&Rung], long: bool, look: Look) -> String {
    let label = |rung: &&Rung| match long {
        true => look.heading(label(rung)),
        // As wide as a sign of what is wrong.
        false => {
            let label = short_label(rung);
            " ".repeat(2_usize.saturating_sub(label.len())) + &look.heading(label)
        }
    };
    let heads: Vec<String> = iter::once(String::new()).chain(rungs.iter().map(label)).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(&heads, &[]).spaced(if long { 2 } else { 1 });
    for (invariant, scenarios) in report.scenarios() {
        table.add([look.heading(invariant.as_str())]);
        for scenario in scenarios {
            let signs = rungs.iter().map(|rung| sign(report, rung, scenario, look));
            table.add(iter::once(format!("  {scenario}")).chain(signs));
        }
    }
    if !report.rushes.is_empty() {
        table.add([look.heading("every promise")]);
        let signs = rungs.iter().map(|rung| rush_sign(report.rush(rung), look));
        table.add(iter::once("  rush".to_owned()).chain(signs));
    }
    table.text()
}

fn sign(report: &LabReport, rung: &Rung, scenario: Scenario, look: Look) -> String {
    let cell = report.cell(rung, scenario);
    signed(
        cell.map_or(Outcome::Absent, |cell| cell.observed),
        cell.is_some_and(Cell::is_wrong),
        look,
    )
}

fn rush_sign(rush: Option<&RushReport>, look: Look) -> String {
    let wrong = rush.is_some_and(|rush| !rush.as_claimed);
    signed(rush.map_or(Outcome::Absent, Outcome::from), wrong, look)
}

fn signed(mark: Outcome, wrong: bool, look: Look) -> String {
    let text = format!("{}{}", if wrong { "!" } else { "" }, mark.sign());
    look.judged(mark, wrong, &text)
}

fn legend(report: &LabReport, look: Look) -> String {
    let rungs: Vec<String> =
        report.rungs.iter().map(|rung| format!("{} {}", label(rung), mechanism(rung))).collect();
    format!("{}\n{}", signs(look), look.aside(&wrapped(&rungs, "   ", look)))
}

/// What the signs of a matrix mean.
pub fn signs(look: Look) -> String {
    let marks =
        [Outcome::Holds, Outcome::Breaks, Outcome::Unknown, Outcome::Skipped, Outcome::Absent];
    let signs = marks
        .map(|mark| format!("{} {}", look.judged(mark, false, &mark.sign().to_string()), mark));
    let wrong = format!("{} NOT as claimed", look.judged(Outcome::Breaks, true, "!"));
    wrapped(&signs.into_iter().chain([wrong]).collect::<Vec<_>>(), "   ", look)
}

/// Items side by side, as many as fit into a line.
fn wrapped(items: &[String], between: &str, look: Look) -> String {
    let room = look.width.unwrap_or(100);
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line)
                if measure_text_width(line) + between.len() + measure_text_width(item) <= room =>
            {
                *line += between;
                *line += item;
            }
            _ => lines.push(item.clone()),
        }
    }
    lines.join("\n")
}

/// A line a rush.
pub fn rushes(rushes: &[RushReport], look: Look) -> String {
    let heads = ["rung", "orders", "orders/s", "p99", "", ""].map(|head| look.aside(head));
    let mut table = Table::new(&heads.each_ref().map(String::as_str), &[4, 5]);
    for rush in rushes {
        let latency =
            rush.crowd.latency_ms.map_or_else(String::new, |it| format!("{:.0} ms", it.p99));
        let outcome = look.judged(Outcome::from(rush), !rush.as_claimed, rush.outcome());
        let (orders, rate) =
            (rush.crowd.figures.orders.to_string(), format!("{:.0}", rush.crowd.orders_per_s));
        table.add([rush.rung.clone(), orders, rate, latency, outcome, rush.losses()]);
    }
    table.text()
}

/// What speaks against the claims, where anything does.
pub(crate) fn not_as_claimed(objections: &[String], look: Look) -> Option<String> {
    list(&look.judged(Outcome::Breaks, true, "Not as claimed"), objections, look)
}

/// Items below a heading, where there are any.
pub(crate) fn list(heading: &str, items: &[String], look: Look) -> Option<String> {
    let lines: Vec<String> = items.iter().map(|item| filled(item, "  ", look)).collect();
    (!lines.is_empty()).then(|| format!("{heading}\n{}", lines.join("\n")))
}

/// A text of some length, every line of it indented; wrapped on a terminal alone.
pub fn filled(text: &str, indent: &str, look: Look) -> String {
    let Some(width) = look.width else { return format!("{indent}{text}") };
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let inside = Look { width: Some(width.saturating_sub(indent.len())), ..look };
    format!("{indent}{}", wrapped(&words, " ", inside).replace('\n', &format!("\n{indent}")))
}
