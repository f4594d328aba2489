//! What happened in a replay, a line an event.

use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::told::{Event, InWords};
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
