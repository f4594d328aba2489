//! One line of a doctor's report.

use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Fine,
    /// Worth knowing.
    Note,
    /// A promise is in danger, or people are kept from something.
    Danger,
    /// `serve` would not start, or would not sell.
    Broken,
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Danger => "danger",
            Self::Broken => "broken",
        })
    }
}

/// What was found, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Finding {
    pub level: Level,
    pub about: &'static str,
    pub words: String,
}

impl Finding {
    /// As it should be.
    pub fn fine(about: &'static str, words: impl Into<String>) -> Self {
        Self { level: Level::Fine, about, words: words.into() }
    }

    /// Worth knowing.
    pub fn note(about: &'static str, words: impl Into<String>) -> Self {
        Self { level: Level::Note, about, words: words.into() }
    }

    /// A promise is in danger.
    pub fn danger(about: &'static str, words: impl Into<String>) -> Self {
        Self { level: Level::Danger, about, words: words.into() }
    }

    /// `serve` would not start, or would not sell.
    pub fn broken(about: &'static str, words: impl Into<String>) -> Self {
        Self { level: Level::Broken, about, words: words.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<7} {:<22} {}", self.level, self.about, self.words)
    }
}
