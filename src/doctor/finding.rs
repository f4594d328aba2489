//! One line of a doctor's report.

use std::fmt;
use std::time::Duration;

/// How often a round trip is measured.
pub const ROUND_TRIPS: usize = 5;
/// A round trip takes longer to a server that is far away: a purchase takes several.
pub const SLOW_ROUND_TRIP: Duration = Duration::from_millis(20);

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

    /// How long it took to connect, and how long a round trip: notable beyond the limits.
    pub fn connection(
        about: &'static str,
        (connected, round_trip): (Duration, Duration),
        (slow, slow_round_trip): (Duration, Duration),
    ) -> Self {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let words =
            format!("made in {:.1} ms, a round trip takes {:.2} ms", ms(connected), ms(round_trip));
        if connected > slow {
            let words = format!("{words}: while connections are made anew, buyers hear 503");
            return Self::note(about, words);
        }
        if round_trip > slow_round_trip {
            return Self::note(about, format!("{words}: a purchase takes several of them"));
        }
        Self::fine(about, words)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_connection_is_noted_beyond_its_limit() {
        let level = |connected, round_trip| {
            let ms = Duration::from_millis;
            let limits = (ms(700), ms(20));
            Finding::connection("Redis connection", (ms(connected), ms(round_trip)), limits).level
        };
        assert_eq!((level(700, 20), level(701, 20)), (Level::Fine, Level::Note));
        assert_eq!((level(1, 21), level(9_999, 1)), (Level::Note, Level::Note));
    }
}
