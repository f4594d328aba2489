//! What happened in a replay, a line an event.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::told::{Event, InWords, Witness};
use seckill::http::Language;

/// One event, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineLine {
    /// The actor; `None` where the lab does or says something.
    pub actor: Option<String>,
    /// What happened.
    pub event: Event,
}

impl TimelineLine {
    /// An actor's.
    pub fn of(actor: &str, event: impl Into<Event>) -> Self {
        Self { actor: Some(actor.to_owned()), event: event.into() }
    }

    /// The lab's own.
    pub fn of_the_lab(event: impl Into<Event>) -> Self {
        Self { actor: None, event: event.into() }
    }
}

impl InWords for TimelineLine {
    fn in_words(&self, language: Language) -> String {
        let actor = self.actor.as_deref().unwrap_or_default();
        format!("{actor:<6} {}", self.event.in_words(language))
    }
}

impl fmt::Display for TimelineLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.in_words(Language::English))
    }
}

/// For a program: the actor, and the event in English.
impl Serialize for TimelineLine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_struct("TimelineLine", 2)?;
        line.serialize_field("actor", &self.actor)?;
        line.serialize_field("text", &self.event)?;
        line.end()
    }
}

/// What happened in a replay: its lines, its orders by the order in which they came, and why a promise that the
/// database cannot judge is broken.
#[derive(Debug, Default)]
pub(super) struct Log {
    lines: Vec<TimelineLine>,
    orders: Vec<i64>,
    broken: Vec<Witness>,
}

impl Log {
    /// A line that is not an actor's.
    pub(super) fn say(&mut self, event: Event) {
        self.lines.push(TimelineLine::of_the_lab(event));
    }

    /// A line of an actor.
    pub(super) fn note(&mut self, who: &str, event: Event) {
        self.lines.push(TimelineLine::of(who, event));
    }

    /// Orders by the order in which they came, from 1: the same in every run.
    pub(super) fn nth_order(&mut self, id: i64) -> usize {
        self.number_of_order(id).unwrap_or_else(|| {
            self.orders.push(id);
            self.orders.len()
        })
    }

    /// Which of the orders it is, from 1.
    pub(super) fn number_of_order(&self, id: i64) -> Option<usize> {
        self.orders.iter().position(|known| *known == id).map(|nth| nth + 1)
    }

    /// A promise that the database cannot judge is broken: why.
    pub(super) fn broken(&mut self, witness: Witness) {
        self.say(Event::So { witness: witness.clone() });
        self.broken.push(witness);
    }

    /// The promises broken that no database shows.
    pub(super) fn breaches(&self) -> &[Witness] {
        &self.broken
    }

    /// How many lines there are.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// What happened since this was asked for the last time.
    pub(super) fn take(&mut self) -> Vec<TimelineLine> {
        std::mem::take(&mut self.lines)
    }
}
