//! What happened in a replay, a line an event.

use std::fmt;

use serde::Serialize;

use crate::course;
use ladder::Point;
use seckill::http::Language;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TimelineLine {
    /// The actor; `None` where the lab does or says something.
    pub actor: Option<String>,
    /// What happened.
    pub text: String,
    /// The pause point that the actor has come to, if it is at one.
    #[serde(skip)]
    pub point: Option<Point>,
}

impl TimelineLine {
    /// An actor's.
    pub fn of(actor: &str, text: impl Into<String>) -> Self {
        Self { actor: Some(actor.to_owned()), text: text.into(), point: None }
    }

    /// An actor's, at a pause point.
    pub fn at(actor: &str, point: Point, detail: &str) -> Self {
        Self { point: Some(point), ..Self::of(actor, point.told(detail)) }
    }

    /// The lab's own.
    pub fn of_the_lab(text: impl Into<String>) -> Self {
        Self { actor: None, text: text.into(), point: None }
    }

    /// The same in either language.
    #[must_use]
    pub fn in_language(&self, language: Language) -> Self {
        Self { text: course::event(&self.text, language).into_owned(), ..self.clone() }
    }
}

impl fmt::Display for TimelineLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<6} {}", self.actor.as_deref().unwrap_or_default(), self.text)
    }
}
