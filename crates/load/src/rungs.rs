//! What the program of the ladder tells other programs of its designs, the rungs, as JSON.

use serde::{Deserialize, Serialize};

use crate::verdict::CrowdVerdict;

/// A rung, as `seckill lab list --json` writes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListedRung {
    /// Its full name.
    pub rung: String,
    /// The design in a sentence.
    pub idea: String,
    /// What is true of it.
    pub holds: String,
    /// Under which condition it breaks.
    pub breaks_when: String,
    /// What the next rung does about it.
    pub next: String,
    /// The promises that it claims to keep.
    pub keeps: Vec<String>,
    /// The scenarios that break it.
    pub breaks_in: Vec<String>,
}

/// What `seckill lab rush --json` writes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rushes<P = String> {
    /// A rush for each rung that could be tried.
    pub rushes: Vec<RushReport<P>>,
}

/// What came of a crowd at a rung. The ladder has a type for the names `P` of its promises.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RushReport<P = String> {
    /// The rung's full name.
    pub rung: String,
    /// What the order of the attempts was drawn from.
    pub seed: u64,
    /// What the crowd has come to. Of the orders that are `lost` these are the acknowledged ones; those that were
    /// promised and not acknowledged are in `written_later`. [`RushReport::as_claimed`] says which attempts
    /// without a proper answer have an excuse.
    #[serde(flatten)]
    pub crowd: CrowdVerdict,
    /// Of a rung that answers first: how far its orders are behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_later: Option<WrittenLater>,
    /// The promises that were not kept, of those that a rush can judge: `no_oversell`,
    /// `one_per_user`, `no_undersell`, `no_lost_order`, `no_broken_promise`.
    pub broken: Vec<P>,
    /// What is wrong, a sentence each.
    pub witnesses: Vec<String>,
    /// Whether every promise was kept that the rung claims, or that no scenario is said to
    /// break it in, and what came of every attempt can be judged.
    ///
    /// An attempt without a proper answer cannot, with one exception: `unavailable`, from a
    /// rung whose lock is on servers that on a busy machine do not answer in time, is an
    /// honest refusal as long as nothing was left that its hearer could have bought, and as not
    /// more than a quarter of all hear it where the lock is on one server.
    pub as_claimed: bool,
}

impl<P> RushReport<P> {
    /// What it counted against the promises: "12 oversold, 3 lost".
    #[must_use]
    pub fn losses(&self) -> String {
        let found = self.crowd.figures.found;
        let unexpected = i64::try_from(found.unexpected).unwrap_or(i64::MAX);
        let counts = [
            (found.oversold, "oversold"),
            (found.duplicates, "twice to one buyer"),
            (found.undersold, "undersold"),
            (found.lost, "lost"),
            (self.written_later.map_or(0, |later| later.missing), "promised and never written"),
            (unexpected, "without a proper answer"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count != 0);
        let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
        match counts.is_empty() {
            true if self.crowd.holds => "every promise kept".to_owned(),
            true => self.witnesses.join("; "),
            false => counts.join(", "),
        }
    }

    /// "breaks, as claimed".
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        match (self.crowd.holds, self.as_claimed) {
            (true, _) => "holds",
            (false, true) => "breaks, as claimed",
            (false, false) if self.broken.is_empty() => "unknown, NOT as claimed",
            (false, false) => "breaks, NOT as claimed",
        }
    }
}

/// What the answers of a rung that writes later are worth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WrittenLater {
    /// Buyers told yes, or "accepted".
    pub promised: i64,
    /// The same a second, while the crowd was there.
    pub answered_per_s: f64,
    /// Orders written a second, from the first attempt to the last order.
    pub durable_per_s: f64,
    /// Promised and not written yet when the last attempt was answered.
    pub behind: i64,
    /// From then to the last order, in seconds.
    pub behind_s: f64,
    /// Promised and never written.
    pub missing: i64,
}
