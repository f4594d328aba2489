//! What an exploration came to, for a program: what `--json` writes.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::claims::{not_expressible, objections};
use super::exploration::{Exploration, Leaf};
use crate::game::Schedule;
use crate::report::Environment;
use crate::timeline::TimelineLine;
use ladder::{Invariant, RUNGS, Rung, Scenario};

/// Everything that was explored.
#[derive(Debug)]
pub struct ExploreReport {
    /// Where it took place.
    pub environment: Environment,
    /// What was explored, a rung's settings beside each other.
    pub explorations: Vec<Exploration>,
    /// Whether each rung was explored in everything that it is explored in.
    pub all: bool,
    /// Why a rung was left out: this machine lacks something, or it cannot be explored.
    pub skipped: Vec<(&'static str, String)>,
}

impl ExploreReport {
    fn by_rung(&self) -> impl Iterator<Item = (&'static Rung, &[Exploration])> {
        let groups =
            self.explorations.chunk_by(|one, other| one.setting.rung.id == other.setting.rung.id);
        groups.filter_map(|group| group.first().map(|first| (first.setting.rung, group)))
    }

    /// What speaks against the registry.
    pub fn objections(&self) -> Vec<String> {
        self.by_rung().flat_map(|(rung, group)| objections(rung, group, self.all)).collect()
    }

    /// What some rung breaks in, and no schedule here can show; in the order of the ladder.
    pub fn not_expressible(&self) -> Vec<Scenario> {
        let mut found: Vec<Scenario> =
            self.by_rung().flat_map(|(rung, group)| not_expressible(rung, group)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// How many rungs were explored, which were not, and what no schedule here can show.
    pub fn coverage(&self) -> Vec<String> {
        let explored = self.by_rung().count();
        let asked = if self.all { RUNGS.len() } else { explored + self.skipped.len() };
        let mut lines = vec![format!("{explored} of {asked} rungs explored")];
        if !self.skipped.is_empty() {
            let skipped = self.skipped.iter().map(|(rung, why)| format!("{rung} ({why})"));
            lines.push(format!("skipped: {}", skipped.collect::<Vec<_>>().join(", ")));
        }
        let others = self.not_expressible();
        if !others.is_empty() {
            let names: Vec<&str> = others.iter().map(|scenario| scenario.as_str()).collect();
            lines.push(format!("not expressible here, see `lab replay`: {}", names.join(", ")));
        }
        lines
    }

    /// Whether every schedule of every rung was explored.
    pub fn is_whole(&self) -> bool {
        let every_rung = self.skipped.is_empty() && self.by_rung().count() == RUNGS.len();
        self.all && every_rung && self.explorations.iter().all(Exploration::is_complete)
    }

    /// The bound on preemptions that was asked for.
    pub fn bound(&self) -> Option<usize> {
        self.explorations.iter().find_map(|exploration| exploration.limits.bound)
    }
}

#[derive(Serialize)]
struct ExploreJson<'a> {
    as_claimed: bool,
    objections: Vec<String>,
    not_expressible: Vec<Scenario>,
    skipped: BTreeMap<&'a str, &'a str>,
    explorations: Vec<ExplorationJson<'a>>,
    environment: &'a Environment,
}

#[derive(Serialize)]
struct ExplorationJson<'a> {
    schedules: usize,
    unknown: usize,
    breaking: BTreeMap<&'static str, usize>,
    schedules_per_s: f64,
    shortest: Vec<ShortestJson<'a>>,
    #[serde(flatten)]
    exploration: &'a Exploration,
}

#[derive(Serialize)]
struct ShortestJson<'a> {
    invariant: Invariant,
    schedule: &'a Schedule,
    timeline: &'a [TimelineLine],
}

impl Serialize for ExploreReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let objections = self.objections();
        let skipped = self.skipped.iter().map(|(rung, why)| (*rung, why.as_str()));
        let json = ExploreJson {
            as_claimed: objections.is_empty(),
            objections,
            not_expressible: self.not_expressible(),
            skipped: skipped.collect(),
            explorations: self.explorations.iter().map(of_exploration).collect(),
            environment: &self.environment,
        };
        json.serialize(serializer)
    }
}

fn of_exploration(exploration: &Exploration) -> ExplorationJson<'_> {
    let broken = exploration.broken();
    let shortest = broken.keys().filter_map(|invariant| {
        let Leaf { schedule, timeline, .. } = exploration.shortest(*invariant)?;
        Some(ShortestJson { invariant: *invariant, schedule, timeline })
    });
    ExplorationJson {
        schedules: exploration.leaves.len(),
        unknown: exploration.unknown(),
        shortest: shortest.collect(),
        breaking: broken.iter().map(|(invariant, count)| (invariant.as_str(), *count)).collect(),
        schedules_per_s: (exploration.rate() * 10.0).round() / 10.0,
        exploration,
    }
}
