//! The steps of a session on the real servers.

use std::collections::BTreeMap;

use super::locks::LockReader;
use super::source_lines::Place;
use super::state::{SessionEvent, SessionState};
use crate::game::{ACTOR_NAMES, CONSUMER, Game, GamePlan, MAX_STEPS, Schedule, Step, TIME};
use crate::lock_servers::LockServers;
use crate::told::words;
use crate::world::World;
use ladder::Rung;

words! {
    /// Why a step is none: the buyer waits or was answered, the consumer has nothing to take, nothing would come of
    /// a kill or a pause, or no lease could end.
    #[derive(Copy)]
    pub StepRefusal {
        Waits { buyer: &'static str } => "{buyer} waits for the other buyer", "{buyer} 在等另一个买家";
        IsOver { buyer: &'static str } => "{buyer} is through", "{buyer} 已经结束";
        NoConsumer => "this rung has no consumer", "这一级没有消费者";
        Idle => "the consumer has nothing to do", "消费者没有事可做";
        NoTime => "no order waits here to be paid", "这里没有等待支付的订单";
        NoKill => "there is no process whose end would show something now", "现在杀掉进程看不出什么";
        NoPause => "there is no process whose pause would show something now", "现在暂停进程看不出什么";
        NoAnswer => "nobody has bought whose answer could be lost", "还没有买成的请求，没有响应可丢";
        NoLease => "no lock with a lease is held whose end could still be played", "没有还能到期的锁";
        TooLong { most: usize } => "a schedule has at most {most} steps", "一份调度最多 {most} 步";
    }
}

impl std::error::Error for StepRefusal {}

/// A step that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// It makes no sense here. Nothing happened.
    #[error(transparent)]
    Refused(#[from] StepRefusal),
    /// A server or a process is gone: so is the session.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

/// Whether there is room for one more after so many steps.
const fn is_room_after(steps: usize) -> Result<(), StepRefusal> {
    if steps < MAX_STEPS { Ok(()) } else { Err(StepRefusal::TooLong { most: MAX_STEPS }) }
}

/// Two buyers and their scheduler.
pub struct LabSession<'a> {
    pub(super) game: Game<'a>,
    /// The steps that can be taken now. Nothing moves between two steps: leases last an hour, or a step ends them.
    pub(super) possible: Vec<Step>,
    pub(super) events: Vec<SessionEvent>,
    /// What each actor did last, and in which line it stands; the consumer is the last.
    pub(super) places: Vec<Place>,
    pub(super) locks: LockReader,
    /// Fencing tokens, by the order in which they were granted.
    pub(super) tokens: BTreeMap<i64, i64>,
}

impl<'a> LabSession<'a> {
    /// Both buyers stand where their purchase begins.
    ///
    /// # Errors
    /// When a server or a process does not start.
    pub async fn start(world: &'a World, plan: GamePlan) -> anyhow::Result<Self> {
        world.prepare_for_exploring().await?;
        let servers = LockServers::start(world, plan.rung).await?;
        let locks = LockReader::connect(&servers).await?;
        let mut session = Self {
            game: Game::start(world, plan, servers).await?,
            possible: Vec::new(),
            events: Vec::new(),
            places: Vec::new(),
            locks,
            tokens: BTreeMap::new(),
        };
        session.begin(plan, &[]).await?;
        Ok(session)
    }

    /// From the beginning, on the same servers and with the same processes.
    ///
    /// # Errors
    /// When one of them is gone, or `plan` is of another rung.
    pub async fn start_over(&mut self, plan: GamePlan) -> anyhow::Result<()> {
        self.begin(plan, &[]).await
    }

    async fn begin(&mut self, plan: GamePlan, ahead: &[Step]) -> anyhow::Result<()> {
        let users = [0, 1].map(|user| self.game.driver.scheduler.lock_key(user));
        self.game.begin(plan, ahead).await?;
        for key in users {
            self.locks.forget(&key?).await?;
        }
        // What put them in place is not told.
        self.game.driver.scheduler.log.take();
        self.events.clear();
        self.tokens.clear();
        self.put_in_place();
        self.possible = self.game.possible().await?;
        Ok(())
    }

    /// Which rung is played.
    pub fn rung(&self) -> &'static Rung {
        self.game.plan.rung
    }

    /// Plays a whole schedule.
    ///
    /// # Errors
    /// When a step makes no sense, or a server or a process is gone.
    pub async fn play(&mut self, schedule: &Schedule) -> Result<(), StepError> {
        let schedule = self.meant(schedule);
        self.know_before(&schedule).await?;
        for step in schedule.0 {
            self.step(step).await?;
        }
        Ok(())
    }

    /// The same, and what there was to see before each step that was taken; at the end `state` says it.
    ///
    /// # Errors
    /// When a server or a process is gone. A step that makes no sense ends it.
    pub async fn play_with_frames(
        &mut self,
        schedule: &Schedule,
    ) -> anyhow::Result<(Vec<SessionState>, Option<StepRefusal>)> {
        let schedule = self.meant(schedule);
        self.know_before(&schedule).await?;
        let mut frames = Vec::new();
        for step in schedule.0 {
            let before = SessionState { timeline: Vec::new(), ..self.state().await? };
            match self.step(step).await {
                Ok(()) => frames.push(before),
                Err(StepError::Refused(refusal)) => return Ok((frames, Some(refusal))),
                Err(StepError::Failed(error)) => return Err(error),
            }
        }
        Ok((frames, None))
    }

    fn meant(&self, schedule: &Schedule) -> Schedule {
        schedule.on(self.rung(), self.game.plan.is_unpaid)
    }

    /// At the beginning of a schedule with steps that must be known of then.
    async fn know_before(&mut self, schedule: &Schedule) -> anyhow::Result<()> {
        let is_one = |step: &Step| self.game.is_surprised_by(*step);
        if self.game.steps.is_empty() && schedule.0.iter().any(is_one) {
            self.begin(self.game.plan, &schedule.0).await?;
        }
        Ok(())
    }

    /// Takes one step.
    ///
    /// # Errors
    /// When it makes no sense, or a server or a process is gone.
    pub async fn step(&mut self, step: Step) -> Result<(), StepError> {
        let step = self.meant(&Schedule(vec![step])).0[0];
        is_room_after(self.game.steps.len())?;
        if !self.possible.contains(&step) {
            return Err(self.refusal(step).into());
        }
        if self.game.is_surprised_by(step) {
            let steps = [&self.game.steps[..], &[step]].concat();
            self.begin(self.game.plan, &steps).await?;
            for earlier in &steps[..steps.len() - 1] {
                self.take(*earlier).await?;
            }
        }
        self.take(step).await?;
        Ok(())
    }

    async fn take(&mut self, step: Step) -> anyhow::Result<()> {
        self.game.take(step).await?;
        self.tell().await?;
        self.possible = self.game.possible().await?;
        if !self.game.is_settled() && self.possible.is_empty() {
            self.game.settle().await?;
            self.tell().await?;
        }
        Ok(())
    }

    fn refusal(&self, step: Step) -> StepRefusal {
        let place = match step {
            Step::EndLease => return StepRefusal::NoLease,
            Step::Kill(_) => return StepRefusal::NoKill,
            Step::Pause(_) => return StepRefusal::NoPause,
            Step::SendAgain => return StepRefusal::NoAnswer,
            Step::Go(CONSUMER) if self.rung().has_consumer() => return StepRefusal::Idle,
            Step::Go(TIME) if !self.game.plan.is_unpaid => return StepRefusal::NoTime,
            Step::Go(place) => place,
        };
        let buyer = ACTOR_NAMES[place];
        let mut actors = (0..self.game.driver.count()).map(|nth| self.game.driver.record(nth));
        match actors.find(|record| record.name == buyer) {
            None => StepRefusal::NoConsumer,
            Some(record) if record.state.is_queued() && !self.game.is_settled() => {
                StepRefusal::Waits { buyer }
            }
            Some(_) => StepRefusal::IsOver { buyer },
        }
    }

    /// Ends the session: its processes, its connections, its lock servers.
    pub async fn close(self) {
        self.game.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_takes_as_many_steps_as_a_schedule_may_have() {
        assert!(is_room_after(MAX_STEPS - 2).is_ok());
        assert!(is_room_after(MAX_STEPS - 1).is_ok(), "the last one");
        assert!(matches!(is_room_after(MAX_STEPS), Err(StepRefusal::TooLong { most: MAX_STEPS })));
    }
}
