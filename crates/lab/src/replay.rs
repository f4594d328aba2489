//! One cell of the matrix: one scenario, played on one rung, judged.

use std::time::Instant;

use serde::Serialize;

use super::judge::{LabClaim, Observed, Verdict, judge};
use super::scenarios;
use super::scheduler::Scheduler;
use super::timeline::TimelineLine;
use super::told::Witness;
use super::world::World;
use ladder::{Invariant, RUNGS, Rung, Scenario};

/// A cell of the matrix.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// The rung.
    pub rung: &'static str,
    /// What happened to it.
    pub scenario: Scenario,
    /// What was at stake.
    pub invariant: Invariant,
    /// What the rung says.
    pub claimed: LabClaim,
    /// What was seen.
    pub observed: Observed,
    /// What the verdict rests on.
    pub witness: Option<Witness>,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
    /// What happened, a line an event.
    pub timeline: Vec<TimelineLine>,
}

impl Cell {
    /// Whether it came out as claimed.
    pub fn is_as_claimed(&self) -> bool {
        matches!(
            (self.claimed, self.observed),
            (LabClaim::Holds, Observed::Holds) | (LabClaim::Breaks, Observed::Breaks)
        )
    }

    /// Whether it was not played, for want of something.
    pub fn is_skipped(&self) -> bool {
        self.observed == Observed::Skipped
    }

    /// Whether it speaks against the ladder: it came out otherwise than claimed, or nobody
    /// knows how.
    pub fn is_wrong(&self) -> bool {
        !self.is_as_claimed() && !self.is_skipped()
    }
}

/// Every cell there is: those that make sense.
pub fn cells() -> impl Iterator<Item = (&'static Rung, Scenario)> {
    RUNGS.iter().flat_map(|rung| {
        let scenarios = Scenario::ALL.iter().copied();
        scenarios
            .filter(|scenario| scenarios::absent(*scenario, rung).is_none())
            .map(move |scenario| (rung, scenario))
    })
}

/// Plays a cell.
pub async fn replay(world: &World, rung: &'static Rung, scenario: Scenario) -> Cell {
    let begun = Instant::now();
    let (verdict, timeline) = match Scheduler::new(world, rung).await {
        Ok(mut scheduler) => {
            let verdict = match play(&mut scheduler, scenario).await {
                Ok(verdict) => verdict,
                Err(error) => Verdict::of_failure(&error),
            };
            (verdict, scheduler.strike().await)
        }
        Err(error) => (Verdict::of_failure(&error), Vec::new()),
    };
    Cell {
        rung: rung.id,
        scenario,
        invariant: scenario.invariant(),
        claimed: if rung.claims_to_survive(scenario) { LabClaim::Holds } else { LabClaim::Breaks },
        observed: verdict.observed,
        witness: verdict.witness,
        elapsed_ms: begun.elapsed().as_millis() as u64,
        timeline,
    }
}

async fn play(scheduler: &mut Scheduler<'_>, scenario: Scenario) -> anyhow::Result<Verdict> {
    scenarios::play(scenario, scheduler).await?;
    if let Some(why) = scheduler.failure() {
        return Ok(Verdict::unknown(why));
    }
    judge(scheduler, scenario.invariant()).await
}
