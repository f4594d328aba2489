//! What came of it all: every cell and every rush, for a terminal, for a program, and as a page.

mod environment;
pub mod html;
mod json;
mod sentences;
pub mod terminal;

pub use environment::Environment;
pub use sentences::{counted, counted_es};

use super::{Cell, Outcome, RushOptions, RushReport, absent, missing};
use ladder::{Invariant, Rung, Scenario};

/// Everything that a run of the lab found out.
#[derive(Debug, Clone)]
pub struct LabReport {
    /// On what it ran.
    pub environment: Environment,
    /// The rungs, in the ladder's order.
    pub rungs: Vec<&'static Rung>,
    /// The replays, those that were skipped included.
    pub cells: Vec<Cell>,
    /// The crowd of each rush.
    pub crowd: RushOptions,
    /// The rushes.
    pub rushes: Vec<RushReport>,
    /// The rushes of which nothing is known.
    pub no_rushes: Vec<NoRush>,
}

/// A rush of which nothing is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoRush {
    /// The rung.
    pub rung: &'static str,
    /// Why.
    pub reason: String,
    /// Whether it was not even tried, because this machine lacks something: no failure.
    pub skipped: bool,
}

impl NoRush {
    /// What lacks something on this machine is skipped.
    pub fn new(rung: &Rung, error: &anyhow::Error) -> Self {
        let missing = missing(error);
        let skipped = missing.is_some();
        Self { rung: rung.id, reason: missing.unwrap_or_else(|| format!("{error:#}")), skipped }
    }
}

impl LabReport {
    /// The cell of `rung` and `scenario`; `None` where that makes no sense or was not asked for.
    pub fn cell(&self, rung: &Rung, scenario: Scenario) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.of.rung == rung.id && cell.of.scenario == scenario)
    }

    /// The rung's rush.
    pub fn rush(&self, rung: &Rung) -> Option<&RushReport> {
        self.rushes.iter().find(|rush| rush.rung == rung.id)
    }

    /// The cells that make no sense, each with the reason.
    pub fn absent(&self) -> impl Iterator<Item = (&'static Rung, Scenario, &'static str)> {
        self.rungs.iter().flat_map(|rung| {
            Scenario::ALL.iter().filter_map(|scenario| {
                absent(*scenario, rung).map(|reason| (*rung, *scenario, reason))
            })
        })
    }

    /// The scenarios that were played at all, with what is at stake in them, in the order in
    /// which promises and scenarios are declared.
    pub fn scenarios(&self) -> Vec<(Invariant, Vec<Scenario>)> {
        let played =
            |scenario: &Scenario| self.cells.iter().any(|cell| cell.of.scenario == *scenario);
        let of = |invariant: &Invariant| {
            let all = Scenario::ALL.iter().copied();
            all.filter(|scenario| scenario.invariant() == *invariant).filter(played).collect()
        };
        let groups = Invariant::ALL.iter().map(|invariant| (*invariant, of(invariant)));
        groups.filter(|(_, scenarios): &(_, Vec<Scenario>)| !scenarios.is_empty()).collect()
    }

    /// The promises that the rung was seen to break, in a replay or in its rush, and those of
    /// which nothing is known.
    pub fn broken(&self, rung: &Rung) -> Vec<Invariant> {
        let mut broken: Vec<Invariant> = self
            .cells
            .iter()
            .filter(|cell| cell.of.rung == rung.id && cell.observed != Outcome::Holds)
            .filter(|cell| !cell.is_skipped())
            .map(|cell| cell.of.invariant)
            .collect();
        broken.extend(self.rush(rung).into_iter().flat_map(|rush| &rush.broken));
        broken.sort_unstable();
        broken.dedup();
        broken
    }

    /// Whether nothing speaks against the ladder. What was skipped does not.
    pub fn is_as_claimed(&self) -> bool {
        !self.cells.iter().any(Cell::is_wrong)
            && self.rushes.iter().all(|rush| rush.as_claimed)
            && self.no_rushes.iter().all(|rush| rush.skipped)
    }
}

impl From<&RushReport> for Outcome {
    fn from(rush: &RushReport) -> Self {
        match rush.crowd.holds {
            true => Self::Holds,
            false if rush.broken.is_empty() => Self::Unknown,
            false => Self::Breaks,
        }
    }
}
