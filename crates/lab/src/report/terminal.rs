//! The report on a terminal, and the same in plain text where it is piped.
//!
//! Scenarios run down and rungs across: the names of the scenarios are then written out, those
//! of the rungs are numbers anyway, and the whole ladder fits into some hundred columns. Where
//! it does not, it comes in pieces, each with the names again.

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
        parts.push(rushes(report, look));
    }
    let objections = report.objections();
    if !objections.is_empty() {
        let heading = look.judged(Outcome::Breaks, true, "Not as claimed");
        parts.push(list(&heading, &objections, look));
    }
    let skipped: Vec<String> = report
        .skipped()
        .into_iter()
        .map(|(how, names)| format!("{}: {how}", names.join(", ")))
        .collect();
    if !skipped.is_empty() {
        parts.push(list(&look.heading("Skipped"), &skipped, look));
    }
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
    let groups = report.scenarios();
    let names = groups.iter().flat_map(|(_, all)| all).map(|it| it.as_str().len() + 2);
    let first = names.max().unwrap_or(0).max("every promise".len());
    let room = look.width.map_or(usize::MAX, |width| width.saturating_sub(first));
    let long = report.rungs.iter().map(|rung| label(rung).len() + 2).sum::<usize>() <= room;
    let label = if long { label } else { short_label };
    let columns: Vec<Column> = report
        .rungs
        .iter()
        .map(|rung| Column {
            rung,
            label: label(rung),
            width: label(rung).len().max(2) + 1 + usize::from(long),
        })
        .collect();
    let pieces: Vec<String> =
        pieces(&columns, room).into_iter().map(|piece| lines(report, piece, first, look)).collect();
    pieces.join("\n\n")
}

struct Column {
    rung: &'static Rung,
    label: &'static str,
    width: usize,
}

/// As many columns a piece as there is room for, and at least one.
fn pieces(columns: &[Column], room: usize) -> Vec<&[Column]> {
    let (mut found, mut rest) = (Vec::new(), columns);
    while !rest.is_empty() {
        let mut used = 0;
        let fits = rest.iter().take_while(|column| {
            used += column.width;
            used <= room
        });
        let (piece, after) = rest.split_at(fits.count().max(1));
        found.push(piece);
        rest = after;
    }
    found
}

/// One piece of the matrix.
fn lines(report: &LabReport, columns: &[Column], first: usize, look: Look) -> String {
    let row = |name: &str, cells: Vec<String>| {
        let cells: String =
            columns.iter().zip(cells).map(|(column, cell)| right(&cell, column.width)).collect();
        format!("{name}{}{cells}", " ".repeat(first - measure_text_width(name)))
            .trim_end()
            .to_owned()
    };
    let heads = columns.iter().map(|column| look.heading(column.label)).collect();
    let mut lines = vec![row("", heads)];
    for (invariant, scenarios) in report.scenarios() {
        lines.push(look.heading(invariant.as_str()));
        for scenario in scenarios {
            let cells = columns.iter().map(|column| sign(report, column.rung, scenario, look));
            lines.push(row(&format!("  {scenario}"), cells.collect()));
        }
    }
    if !report.rushes.is_empty() {
        lines.push(look.heading("every promise"));
        let cells = columns.iter().map(|column| rush_sign(report.rush(column.rung), look));
        lines.push(row("  rush", cells.collect()));
    }
    lines.join("\n")
}

fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(measure_text_width(text))))
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
fn rushes(report: &LabReport, look: Look) -> String {
    let heads = ["rung", "orders", "orders/s", "p99", "", ""].map(|head| look.aside(head));
    let mut table = Table::new(&heads.each_ref().map(String::as_str), &[4, 5]);
    for rush in &report.rushes {
        let latency =
            rush.crowd.latency_ms.map_or_else(String::new, |it| format!("{:.0} ms", it.p99));
        let outcome = look.judged(Outcome::from(rush), !rush.as_claimed, rush.outcome());
        let (orders, rate) =
            (rush.crowd.figures.orders.to_string(), format!("{:.0}", rush.crowd.orders_per_s));
        table.add([rush.rung.clone(), orders, rate, latency, outcome, rush.losses()]);
    }
    let RushOptions { users, stock, .. } = report.crowd;
    let heading = format!("The rush: {users} buyers for {stock} vouchers, some of them twice");
    let heading = look.heading(&heading);
    format!("{heading}\n  {}", table.text().replace('\n', "\n  "))
}

fn list(heading: &str, items: &[String], look: Look) -> String {
    let items = items.iter().map(|item| filled(item, "  ", look));
    format!("{heading}\n{}", items.collect::<Vec<_>>().join("\n"))
}

/// A text of some length, every line of it indented; wrapped on a terminal alone.
pub fn filled(text: &str, indent: &str, look: Look) -> String {
    let Some(width) = look.width else { return format!("{indent}{text}") };
    let mut lines = vec![indent.to_owned()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        let empty = line.len() == indent.len();
        if !empty && measure_text_width(line) + 1 + measure_text_width(word) > width {
            lines.push(format!("{indent}{word}"));
        } else {
            *line += if empty { "" } else { " " };
            *line += word;
        }
    }
    lines.join("\n")
}
