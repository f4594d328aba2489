//! One schedule on the real servers: a prefix from the beginning, then default choices to the end.

use super::runners::{Runner, play_prefix};
use super::setting::Setting;
use super::walk::Branch;
use crate::game::{FaultKind, Game, Schedule, Step};
use crate::judge::Breach;
use crate::lock_servers::LockServers;
use crate::timeline::TimelineLine;
use crate::told::Event;
use crate::world::World;

/// A schedule that was played.
#[derive(Debug, Clone)]
pub(super) struct Played {
    pub(super) branches: Vec<Branch<Step>>,
    pub(super) broken: Vec<Breach>,
    pub(super) timeline: Vec<TimelineLine>,
    /// Why nothing can be said of it.
    pub(super) unknown: Option<String>,
}

impl Played {
    pub(super) fn schedule(&self) -> Schedule {
        Schedule(self.branches.iter().map(|branch| branch.chosen).collect())
    }
}

/// Plays schedules, one after the other, with processes of its own.
pub(super) struct ScheduleRunner<'w> {
    pub(super) setting: Setting,
    game: Game<'w>,
}

impl<'w> ScheduleRunner<'w> {
    /// Nothing is played yet.
    pub(super) async fn start(
        world: &'w World,
        setting: &Setting,
        servers: LockServers,
    ) -> anyhow::Result<Self> {
        let game = Game::start(world, setting.plan(), servers).await?;
        Ok(Self { setting: setting.clone(), game })
    }

    /// Plays one schedule. What fails on the way makes it unknown.
    pub(super) async fn play(&mut self, prefix: &[Step]) -> anyhow::Result<Played> {
        let mut branches = Vec::new();
        let played = self.play_to_the_end(prefix, &mut branches).await;
        let timeline = self.game.driver.scheduler.log.take();
        let (broken, unknown) = match played {
            Ok(broken) => match self.game.failure() {
                None => (broken, None),
                Some(witness) => (Vec::new(), Some(witness.to_string())),
            },
            Err(error) => {
                self.game.restart_processes().await?;
                (Vec::new(), Some(format!("{error:#}")))
            }
        };
        Ok(Played { branches, broken, timeline, unknown })
    }

    async fn play_to_the_end(
        &mut self,
        prefix: &[Step],
        branches: &mut Vec<Branch<Step>>,
    ) -> anyhow::Result<Vec<Breach>> {
        self.game.begin(self.setting.plan(), prefix).await?;
        play_prefix(self, prefix, branches).await?;
        self.game.settle().await?;
        let broken = self.game.verdict().unwrap_or_default().to_vec();
        for Breach { invariant, witness } in broken.clone() {
            self.game.driver.scheduler.log.say(Event::Broken { invariant, witness });
        }
        Ok(broken)
    }

    /// Ends the processes.
    pub(super) async fn close(self) {
        self.game.close().await;
    }
}

impl Runner for ScheduleRunner<'_> {
    /// One fault a schedule, of those of the setting.
    async fn possible(&self) -> anyhow::Result<Vec<Step>> {
        let mut possible = self.game.possible().await?;
        let has_fault = self.game.steps.iter().any(|step| step.is_fault());
        possible.retain(|step| match FaultKind::of(*step) {
            None => true,
            Some(fault) => !has_fault && self.setting.faults.contains(&fault),
        });
        Ok(possible)
    }

    async fn take(&mut self, step: Step) -> anyhow::Result<()> {
        self.game.take(step).await
    }
}
