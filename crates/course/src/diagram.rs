//! A sequence diagram, read from the Mermaid that `make course` writes. It reads what is written there, and
//! nothing else of Mermaid.

use std::str::FromStr;

/// A column: an actor, or a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiagramColumn {
    /// As the events name it.
    pub id: String,
    /// As readers see it.
    pub name: String,
    /// Whether it acts.
    pub is_actor: bool,
}

/// How an arrow looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrowKind {
    /// Something is done.
    Done,
    /// Something is about to be done.
    AboutTo,
    /// A lock is held by somebody else.
    Missed,
}

/// What happens, from the top to the bottom. Columns are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields say it
pub enum DiagramEvent {
    /// Something that is said over the columns from the first to the last.
    Note { first: usize, last: usize, text: String },
    /// Something that one column does to another.
    Arrow { from: usize, to: usize, kind: ArrowKind, text: String },
}

/// A diagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceDiagram {
    /// From the left to the right.
    pub columns: Vec<DiagramColumn>,
    /// From the top to the bottom.
    pub events: Vec<DiagramEvent>,
}

/// A line that `make course` does not write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a line of our diagrams: {0:?}")]
pub struct UnknownLine(String);

const ARROWS: [(&str, ArrowKind); 3] =
    [("->>", ArrowKind::Done), ("--)", ArrowKind::AboutTo), ("-x", ArrowKind::Missed)];

impl FromStr for SequenceDiagram {
    type Err = UnknownLine;

    fn from_str(text: &str) -> Result<Self, UnknownLine> {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        if first != "sequenceDiagram" {
            return Err(UnknownLine(first.to_owned()));
        }
        let mut diagram = Self { columns: Vec::new(), events: Vec::new() };
        for line in lines {
            diagram.read(line).ok_or_else(|| UnknownLine(line.to_owned()))?;
        }
        Ok(diagram)
    }
}

impl SequenceDiagram {
    fn read(&mut self, line: &str) -> Option<()> {
        let line = line.strip_prefix("    ")?;
        if let Some(id) = line.strip_prefix("actor ") {
            return self.add_column(id, id, true);
        }
        if let Some(rest) = line.strip_prefix("participant ") {
            let (id, name) = rest.split_once(" as ")?;
            return self.add_column(id, name, false);
        }
        let (head, text) = line.split_once(": ")?;
        let text = unescaped(text)?;
        let event = match head.strip_prefix("Note over ") {
            Some(over) => {
                let (first, last) = over.split_once(',').unwrap_or((over, over));
                let (first, last) = (self.nth(first)?, self.nth(last)?);
                (first <= last).then_some(DiagramEvent::Note { first, last, text })?
            }
            None => {
                let arrow = ARROWS.iter().find_map(|(arrow, kind)| {
                    let (from, to) = head.split_once(arrow)?;
                    Some((self.nth(from)?, self.nth(to)?, *kind))
                });
                let (from, to, kind) = arrow.filter(|(from, to, _)| from != to)?;
                DiagramEvent::Arrow { from, to, kind, text }
            }
        };
        self.events.push(event);
        Some(())
    }

    fn add_column(&mut self, id: &str, name: &str, is_actor: bool) -> Option<()> {
        let is_id = !id.is_empty() && id.chars().all(|letter| letter.is_ascii_alphanumeric());
        let is_first = self.nth(id).is_none() && self.events.is_empty();
        let name = unescaped(name)?;
        self.columns.push(DiagramColumn { id: id.to_owned(), name, is_actor });
        (is_id && is_first).then_some(())
    }

    fn nth(&self, id: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }
}

/// The text that Mermaid would show, without the breaks between its lines: the drawing breaks it anew.
fn unescaped(text: &str) -> Option<String> {
    let mut joined = String::new();
    for line in text.split("<br/>") {
        // The generator breaks after a mark of Chinese, or at a space, which it leaves out.
        if !joined.is_empty() && !joined.ends_with(['，', '：', '；', '、']) {
            joined.push(' ');
        }
        joined += line;
    }
    let mut plain = String::new();
    let mut rest = joined.as_str();
    while let Some(at) = rest.find(['#', ';', '"', '<', '>']) {
        plain += &rest[..at];
        let (code, after) = rest[at..].split_once(';')?;
        plain.push(match code {
            "#59" => ';',
            "#35" => '#',
            "#quot" => '"',
            "#lt" => '<',
            "#gt" => '>',
            _ => return None,
        });
        rest = after;
    }
    plain += rest;
    Some(plain).filter(|plain| !plain.trim().is_empty())
}
