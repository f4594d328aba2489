//! What happened in a replay, a line an event.

use std::fmt;

use serde::Serialize;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TimelineLine {
    /// The actor; `None` where the lab does or says something.
    pub actor: Option<String>,
    /// What happened.
    pub text: String,
}

impl TimelineLine {
    /// An actor's.
    pub fn of(actor: &str, text: impl Into<String>) -> Self {
        Self { actor: Some(actor.to_owned()), text: text.into() }
    }

    /// The lab's own.
    pub fn of_the_lab(text: impl Into<String>) -> Self {
        Self { actor: None, text: text.into() }
    }
}

impl fmt::Display for TimelineLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<6} {}", self.actor.as_deref().unwrap_or_default(), self.text)
    }
}
