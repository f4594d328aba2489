//! The consumer of the first process, as one more actor beside the buyers, and what becomes of all
//! that is left at the end of a schedule.

use anyhow::bail;

use super::run::ScheduleRunner;
use super::setting::CONSUMERS_NODE;
use super::verdict::BrokenBySchedule;
use crate::scheduler::{Actor, ActorState, Stop};
use ladder::{Answer, Capability, GROUP, Invariant, Point};

impl ScheduleRunner<'_> {
    /// Whether the consumer can take a step: it is in the middle of a turn, or there is something
    /// to take. A turn that would find nothing is no step.
    pub(super) fn consumer_can_go_on(&self) -> bool {
        if !self.setting.rung.has_consumer() || self.consumer_is_dead() {
            return false;
        }
        self.open_turn().is_some() || self.turns.len() < self.turns_to_take()
    }

    /// The turn in the middle of which the consumer is.
    fn open_turn(&self) -> Option<Actor> {
        let is_open = |turn: &Actor| !self.driver.scheduler.actors[turn.0].state.is_over();
        self.turns.last().copied().filter(is_open)
    }

    /// Whether the process of the consumer was killed.
    fn consumer_is_dead(&self) -> bool {
        let mut killed = self.driver.those(|state| state == ActorState::Killed);
        killed.any(|nth| self.driver.node(nth) == CONSUMERS_NODE)
    }

    /// Turns for which there was something to take, up to now.
    fn turns_to_take(&self) -> usize {
        let rung = self.setting.rung;
        let is_queued = |nth: &usize| {
            let answer = &self.driver.record(*nth).answer;
            let sold = matches!(answer, Some(Stop::Done(Answer::Ordered(_) | Answer::Accepted)));
            if rung.can(Capability::QueueInMemory) {
                return sold && self.driver.node(*nth) == CONSUMERS_NODE;
            }
            // A script that decides puts the entry into the stream, before the buyer is answered.
            let script_decides = !rung.can(Capability::Relay);
            sold || script_decides && self.driver.state(*nth) == ActorState::Held
        };
        // A relay publishes an order, and then does what comes after it.
        let turns_each = if rung.can(Capability::Relay) { 2 } else { 1 };
        turns_each * (0..self.driver.count()).filter(is_queued).count()
    }

    /// The consumer goes on to its next pause point; between two turns it begins the next.
    pub(super) async fn run_consumer(&mut self) -> anyhow::Result<()> {
        let turn = match self.open_turn() {
            Some(turn) => turn,
            None => {
                let turn = self.driver.scheduler.turn(CONSUMERS_NODE).await?;
                self.turns.push(turn);
                turn
            }
        };
        match self.driver.scheduler.until_first(turn, Point::ALL).await? {
            Stop::At(_) | Stop::Worked(_) | Stop::Failed(_) => Ok(()),
            other => bail!("a consumer's step came to {other:?}"),
        }
    }

    /// After the last step: the consumers that live do what is left, and buyers ask again.
    pub(super) async fn promises_not_kept(&mut self) -> anyhow::Result<Vec<BrokenBySchedule>> {
        self.driver.scheduler.settle().await?;
        let broken = self.driver.scheduler.breaches().iter().map(|witness| BrokenBySchedule {
            invariant: Invariant::NoBrokenPromise,
            witness: witness.clone(),
        });
        Ok(broken.collect())
    }

    /// The stream and the outbox are those of all schedules: what one left is not the next one's.
    pub(super) async fn empty_stream(&mut self) -> anyhow::Result<()> {
        if !self.setting.rung.has_consumer() {
            return Ok(());
        }
        self.turns.clear();
        let stream = self.driver.scheduler.stream();
        let had: i64 = self.redis[0].query(redis::cmd("DEL").arg(&stream)).await?;
        // With the stream goes its group.
        if had == 1 {
            let mut create = redis::cmd("XGROUP");
            create.arg("CREATE").arg(&stream).arg(GROUP).arg("0").arg("MKSTREAM");
            self.redis[0].query::<()>(&create).await?;
        }
        sqlx::query("delete from outbox where stream = $1")
            .bind(stream)
            .execute(&self.driver.scheduler.database)
            .await?;
        Ok(())
    }
}
