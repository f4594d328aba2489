//! One line of a doctor's report.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// How often a round trip is measured.
const ROUND_TRIPS: usize = 5;
/// A round trip takes longer to a server that is far away.
const SLOW_ROUND_TRIP: Duration = Duration::from_millis(20);

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum Level {
    /// As it should be.
    #[strum(serialize = "ok")]
    Fine,
    /// Worth knowing.
    Note,
    /// A promise is in danger, or people are kept from something.
    Danger,
    /// `serve` would not start, or would not sell.
    Broken,
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

    /// How long it took to connect, and the shortest of a few round trips: notable if the first is above `slow`, or the
    /// second too long for the several that a purchase takes.
    pub async fn connection<E: fmt::Display>(
        about: &'static str,
        connected: Duration,
        slow: Duration,
        mut ping: impl AsyncFnMut() -> Result<(), E>,
    ) -> Self {
        let mut shortest = Duration::MAX;
        for _ in 0..ROUND_TRIPS {
            let sent_at = Instant::now();
            if let Err(error) = ping().await {
                return Self::broken(about, error.to_string());
            }
            shortest = shortest.min(sent_at.elapsed());
        }
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (made, trip) = (ms(connected), ms(shortest));
        let words = format!("made in {made:.1} ms, a round trip takes {trip:.2} ms");
        if connected > slow {
            let what = "while connections are made anew, buyers get 503";
            return Self::note(about, format!("{words}: {what}"));
        }
        if shortest > SLOW_ROUND_TRIP {
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

    #[tokio::test(start_paused = true)]
    async fn a_slow_connection_is_noted_beyond_its_limit() {
        let ms = Duration::from_millis;
        let level = async |connected, round_trip| {
            let ping = async || {
                tokio::time::sleep(ms(round_trip)).await;
                Ok::<_, String>(())
            };
            Finding::connection("Redis connection", ms(connected), ms(700), ping).await.level
        };
        assert_eq!((level(700, 20).await, level(701, 20).await), (Level::Fine, Level::Note));
        assert_eq!((level(1, 21).await, level(9_999, 1).await), (Level::Note, Level::Note));
    }
}
