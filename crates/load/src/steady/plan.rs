//! What a steady load is to do, as it is told to the process in which it is made.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use hyper::http::uri::PathAndQuery;
use serde::{Deserialize, Serialize};

use crate::LoadError;

/// The longest a steady load may be, in milliseconds: an hour. Its windows are held in memory.
const MAX_TOTAL_MS: u64 = 60 * 60 * 1_000;

/// The longest an answer is waited for, in milliseconds: what falls due in this time may all
/// have to wait in the generator.
const MAX_ANSWER_TIMEOUT_MS: u64 = 60 * 1_000;

/// The most arrivals a second: far more than one machine answers, and with the longest time that an
/// answer is waited for what bounds the line of those who wait.
pub const MAX_PER_S: f64 = 500_000.0;

/// The fewest arrivals a second: one an hour.
const MIN_PER_S: f64 = 1.0 / 3_600.0;

/// The most phases. Each has histograms of its own.
const MAX_PHASES: usize = 64;

/// A steady load. Without `Debug`: a token is as good as its user.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteadyPlan {
    /// The servers. The connections are dealt to them in turn.
    pub nodes: Vec<SocketAddr>,
    /// Paths to `POST` to, each with its query if it has one.
    pub paths: Vec<Arc<str>>,
    /// Sent as `authorization: Bearer <token>`.
    pub tokens: Vec<Arc<str>>,
    /// Which token goes with which path.
    pub pairing: Pairing,
    /// When requests are due.
    pub arrival: Arrival,
    /// Connections over all nodes, opened before the clock starts.
    pub connections: usize,
    /// How long to wait for an answer, in milliseconds from the moment its request was due;
    /// default 10,000.
    #[serde(default = "default_answer_timeout_ms")]
    pub answer_timeout_ms: u64,
    /// How long a request may wait in the generator for a free connection, in milliseconds from
    /// the moment it was due, at least 1; without it, as long as for the answer. It is looked at
    /// every 20 ms, and who is still there when a connection is free is sent.
    #[serde(default)]
    pub connection_timeout_ms: Option<u64>,
    /// Decides when the requests of an open load are due.
    pub seed: u64,
}

fn default_answer_timeout_ms() -> u64 {
    10_000
}

impl SteadyPlan {
    /// How long requests become due, in milliseconds: the `total` of its progress.
    #[must_use]
    pub fn total_ms(&self) -> u64 {
        self.durations_ms().fold(0, u64::saturating_add)
    }

    /// How long a request waits for a free connection: never longer than for its answer.
    pub(super) fn connection_timeout(&self) -> Duration {
        Duration::from_millis(self.connection_timeout_ms.unwrap_or(self.answer_timeout_ms))
    }

    fn durations_ms(&self) -> impl Iterator<Item = u64> {
        let (closed, phases) = match &self.arrival {
            Arrival::Closed { lead_in_ms, duration_ms } => {
                let lead_in = Some(*lead_in_ms).filter(|lead_in_ms| *lead_in_ms > 0);
                ([lead_in, Some(*duration_ms)], &[][..])
            }
            Arrival::Open { phases } => ([None; 2], phases.as_slice()),
        };
        closed.into_iter().flatten().chain(phases.iter().map(|phase| phase.duration_ms))
    }

    /// When each phase begins and ends, since the start.
    pub(super) fn spans(&self) -> Vec<Range<Duration>> {
        let mut end = Duration::ZERO;
        let span = |duration_ms| {
            let start = end;
            end += Duration::from_millis(duration_ms);
            start..end
        };
        self.durations_ms().map(span).collect()
    }

    /// How many requests the plan has pairs for; `None` when it has them without end.
    pub(super) fn pairs(&self) -> Option<u64> {
        let pairs = self.paths.len().saturating_mul(self.tokens.len()) as u64;
        (self.pairing != Pairing::Again).then_some(pairs)
    }

    /// Path and token of request `k`, which is below [`SteadyPlan::pairs`].
    pub(super) fn pair(&self, k: u64) -> (&str, &str) {
        let (paths, tokens) = (self.paths.len() as u64, self.tokens.len() as u64);
        let (path, token) = match self.pairing {
            Pairing::PathAfterPath => (k / tokens, k % tokens),
            Pairing::PathsInTurn => (k % paths, k / paths),
            Pairing::Again => (k % paths, k % tokens),
        };
        (&self.paths[path as usize], &self.tokens[token as usize])
    }

    /// Refuses, before anything is opened, what could not be carried out later.
    pub(super) fn check(&self) -> Result<(), LoadError> {
        let is_short = |lacks: bool, what| if lacks { Err(LoadError::Lacks(what)) } else { Ok(()) };
        is_short(self.nodes.is_empty(), "node")?;
        is_short(self.paths.is_empty(), "path")?;
        is_short(self.tokens.is_empty(), "token")?;
        is_short(self.connections == 0, "connection")?;
        let bad = self.paths.iter().position(|path| !is_path(path));
        let bad = bad.map(|index| ("path", index));
        let is_token = |token: &Arc<str>| HeaderValue::from_str(token).is_ok();
        let bad_token = || self.tokens.iter().position(|token| !is_token(token));
        if let Some((what, index)) = bad.or_else(|| bad_token().map(|index| ("token", index))) {
            return Err(LoadError::Unwritable { what, index });
        }
        let timeout_ms = self.answer_timeout_ms as f64;
        within("the answer's time-out in ms", timeout_ms, 1.0, MAX_ANSWER_TIMEOUT_MS as f64)?;
        if let Some(connection_ms) = self.connection_timeout_ms {
            within("the connection's time-out in ms", connection_ms as f64, 1.0, timeout_ms)?;
        }
        within("the load's duration in ms", self.total_ms() as f64, 1.0, MAX_TOTAL_MS as f64)?;
        if let Arrival::Closed { duration_ms, .. } = &self.arrival {
            let most = MAX_TOTAL_MS as f64;
            within("the duration without the lead-in in ms", *duration_ms as f64, 1.0, most)?;
        }
        if let Arrival::Open { phases } = &self.arrival {
            within("the number of phases", phases.len() as f64, 1.0, MAX_PHASES as f64)?;
            for phase in phases {
                within("a phase's arrivals a second", phase.per_s, MIN_PER_S, MAX_PER_S)?;
            }
        }
        Ok(())
    }
}

/// Whether `path` can stand in a request line as it is.
fn is_path(path: &str) -> bool {
    // A fragment (`#…`) is parsed and dropped, and then it is not what was asked for.
    let read = path.parse::<PathAndQuery>();
    path.starts_with('/') && read.is_ok_and(|read| read.as_str() == path)
}

/// Whether a number is within bounds; what is no number never is.
fn within(what: &'static str, value: f64, least: f64, most: f64) -> Result<(), LoadError> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(LoadError::OutOfBounds { what, value, least, most })
    }
}

/// Which of *U* tokens goes with which of *P* paths in request *k*, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// Path *k* / *U*, token *k* mod *U*: all users on the first path, then on the next.
    /// Ends after *P* × *U* requests; no pair comes twice.
    PathAfterPath,
    /// Path *k* mod *P*, token *k* / *P*: all paths at once. Ends after *P* × *U* requests;
    /// no pair comes twice.
    PathsInTurn,
    /// Path *k* mod *P*, token *k* mod *U*, without end: for what is refused anyway.
    Again,
}

/// When requests are due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrival {
    /// One on every connection at the start, and one whenever another has got its outcome.
    Closed {
        /// How long that lasts before it is measured, in milliseconds: at first all come at once,
        /// to processes that have not done anything for a while.
        #[serde(default)]
        lead_in_ms: u64,
        /// How long it lasts from then on, in milliseconds.
        duration_ms: u64,
    },
    /// At random times, whatever the server does.
    Open {
        /// One after the other without a pause.
        phases: Vec<Phase>,
    },
}

/// A time during which requests arrive at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Arrivals a second, in the mean.
    pub per_s: f64,
    /// How long it lasts, in milliseconds.
    pub duration_ms: u64,
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    fn plan(pairing: &str) -> SteadyPlan {
        let plan = json!({
            "nodes": ["127.0.0.1:1"], "paths": ["/0", "/1", "/2"], "tokens": ["a", "b"],
            "pairing": pairing, "connections": 1, "seed": 1,
            "arrival": {"open": {"phases": [
                {"per_s": 10.0, "duration_ms": 5}, {"per_s": 1.0, "duration_ms": 7}
            ]}},
        });
        serde_json::from_value(plan).unwrap()
    }

    #[test]
    fn a_lead_in_is_a_time_of_its_own() {
        let spans = |closed| {
            let arrival: Arrival = serde_json::from_value(json!({ "closed": closed })).unwrap();
            let plan = SteadyPlan { arrival, ..plan("again") };
            (plan.spans(), plan.total_ms())
        };
        let ms = Duration::from_millis;
        assert_eq!(spans(json!({"duration_ms": 30})), (vec![ms(0)..ms(30)], 30));
        assert_eq!(
            spans(json!({"lead_in_ms": 20, "duration_ms": 30})),
            (vec![ms(0)..ms(20), ms(20)..ms(50)], 50)
        );
    }

    #[test]
    fn a_plan_reads_as_it_is_documented_and_comes_back_as_it_was() {
        let mut written = serde_json::to_value(plan("again")).unwrap();
        assert_eq!(written["answer_timeout_ms"], 10_000);
        let read: SteadyPlan = serde_json::from_value(written.clone()).unwrap();
        assert_eq!((read.total_ms(), read.pairing), (12, Pairing::Again));
        assert!(read.check().is_ok());
        written["arrival"] = json!({"closed": {"duration_ms": 9}});
        let read: SteadyPlan = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(read.total_ms(), 9);
        written["duration_ms"] = json!(1);
        assert!(serde_json::from_value::<SteadyPlan>(written).is_err());
    }

    #[test]
    fn phases_follow_one_another_without_a_pause() {
        let ms = Duration::from_millis;
        assert_eq!(plan("again").spans(), [ms(0)..ms(5), ms(5)..ms(12)]);
    }

    #[test]
    fn all_pairs_come_once_by_either_way_and_the_third_has_no_end() {
        for pairing in ["path_after_path", "paths_in_turn"] {
            let plan = plan(pairing);
            let pairs: HashSet<_> = (0..6).map(|k| plan.pair(k)).collect();
            assert_eq!((plan.pairs(), pairs.len()), (Some(6), 6), "{pairing}");
        }
        assert_eq!(plan("path_after_path").pair(2), ("/1", "a"));
        assert_eq!(plan("paths_in_turn").pair(3), ("/0", "b"));
        let again = plan("again");
        assert_eq!((again.pairs(), again.pair(u64::MAX)), (None, ("/0", "b")));
    }
}
