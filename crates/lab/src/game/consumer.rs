//! The consumer of the first process as one more actor: each of its steps leads to its next pause point, and
//! between two turns it begins the next. Those of other processes work at the end.

use anyhow::bail;

use super::setting::FIRST_NODE;
use crate::scheduler::{Act, Actor, ActorState};
use crate::steps::ScheduleDriver;
use ladder::{Answer, Capability, GROUP, Point};
use redis_link::Redis;

impl ScheduleDriver<'_> {
    /// Whether the consumer can take a step: it is in the middle of a turn, or there is something
    /// to take. A turn that would find nothing is no step.
    pub(super) fn consumer_can_go_on(&self) -> bool {
        if !self.scheduler.rung.has_consumer() || self.consumer_is_dead() {
            return false;
        }
        self.open_turn().is_some() || self.turns.len() < self.turns_to_take()
    }

    /// The turn in the middle of which the consumer is.
    pub(crate) fn open_turn(&self) -> Option<Actor> {
        let is_open = |turn: &Actor| !self.scheduler.actors[turn.0].state.is_over();
        self.turns.last().copied().filter(is_open)
    }

    /// Whether the process of the consumer was killed.
    pub(crate) fn consumer_is_dead(&self) -> bool {
        let mut killed = self.those(|state| state == ActorState::Killed);
        killed.any(|nth| self.node(nth) == FIRST_NODE)
    }

    /// Turns for which there was something to take, up to now.
    fn turns_to_take(&self) -> usize {
        let rung = self.scheduler.rung;
        let is_queued = |nth: &usize| {
            let answer = &self.record(*nth).answer;
            let sold = matches!(answer, Some(Act::Done(Answer::Ordered(_) | Answer::Accepted)));
            if rung.can(Capability::QueueInMemory) {
                return sold && self.node(*nth) == FIRST_NODE;
            }
            // A script that decides puts the entry into the stream, before the buyer is answered.
            let script_decides = !rung.can(Capability::Relay);
            sold || script_decides && self.state(*nth) == ActorState::Held
        };
        // A relay publishes an order, and then does what comes after it.
        let turns_each = if rung.can(Capability::Relay) { 2 } else { 1 };
        turns_each * (0..self.count()).filter(is_queued).count()
    }

    /// The consumer goes on to its next pause point; between two turns it begins the next.
    pub(super) async fn run_consumer(&mut self) -> anyhow::Result<Act> {
        let turn = match self.open_turn() {
            Some(turn) => turn,
            None => {
                let turn = self.scheduler.turn(FIRST_NODE).await?;
                self.turns.push(turn);
                turn
            }
        };
        match self.scheduler.until_first(turn, Point::ALL).await? {
            stop @ (Act::At(_, _) | Act::Worked(_) | Act::Failed(_)) => Ok(stop),
            other => bail!("a consumer's step came to {other:?}"),
        }
    }

    /// The stream and the outbox are those of all schedules: what one left is not the next one's.
    pub(super) async fn empty_stream(&mut self) -> anyhow::Result<()> {
        if !self.scheduler.rung.has_consumer() {
            return Ok(());
        }
        let stream = self.scheduler.stream();
        let redis = Redis::new(&self.scheduler.servers.redis_urls[0])?;
        let had: i64 = redis.query(redis::cmd("DEL").arg(&stream)).await?;
        // With the stream goes its group.
        if had == 1 {
            let mut create = redis::cmd("XGROUP");
            create.arg("CREATE").arg(&stream).arg(GROUP).arg("0").arg("MKSTREAM");
            redis.query::<()>(&create).await?;
        }
        sqlx::query("delete from outbox where stream = $1")
            .bind(stream)
            .execute(&self.scheduler.database)
            .await?;
        Ok(())
    }
}
