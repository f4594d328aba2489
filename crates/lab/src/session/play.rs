//! A session on the real servers: one buyer goes on at a time, and a buyer that this sets free goes on,
//! too, before the step is over.

use std::collections::BTreeMap;

use anyhow::Context;

use super::locks::LockReader;
use super::schedule::{MAX_STEPS, Schedule, ScheduleStep};
use super::settle::KILLED_NODE;
use super::source_lines;
use super::state::{BrokenPromise, SessionEvent, SessionState};
use crate::driver::{AN_HOUR, ScheduleDriver};
use crate::scheduler::{ActorPlan, ActorState, NodeIndex, Scheduler, Stop};
use crate::told::{Event, words};
use crate::world::World;
use ladder::{Capability, LeaseKind, LockKind, Point, Rung};
use seckill::http::Language;

const NAMES: [&str; 2] = ["A", "B"];

/// The place of the consumer, after the buyers, and what it is called.
pub(super) const CONSUMER: usize = 2;
pub(super) const CONSUMER_NAME: &str = "C";

/// What is played.
#[derive(Debug, Clone, Copy)]
pub struct PlanOfSession {
    /// The rung.
    pub rung: &'static Rung,
    /// Two users, or one who clicks twice.
    pub users: u8,
    /// One process for both, or two.
    pub processes: u8,
    /// Vouchers on sale.
    pub stock: i32,
}

words! {
    /// Why a step is none: the buyer waits or was answered, the consumer has nothing to take, nothing would come of
    /// a kill, or no lease could end.
    #[derive(Copy)]
    pub StepRefusal {
        Waits { buyer: &'static str } => "{buyer} waits for the other buyer", "{buyer} 在等另一个买家";
        IsOver { buyer: &'static str } => "{buyer} is through", "{buyer} 已经结束";
        NoConsumer => "this rung has no consumer", "这一级没有消费者";
        Idle => "the consumer has nothing to do", "消费者没有事可做";
        NoKill => "there is no process whose end would show something now", "现在杀掉进程看不出什么";
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

/// Two buyers and their scheduler.
pub struct LabSession<'a> {
    pub(super) plan: PlanOfSession,
    pub(super) driver: ScheduleDriver<'a>,
    pub(super) steps: Vec<ScheduleStep>,
    pub(super) events: Vec<SessionEvent>,
    /// What each of them did last, and in which line it stands.
    pub(super) places: [(&'static str, Option<usize>); 3],
    pub(super) locks: LockReader,
    /// Whether the first process was killed.
    pub(super) killed: bool,
    /// What was broken when everything that was left had been done.
    pub(super) broken_at_the_end: Option<Vec<BrokenPromise>>,
    /// On so many of the lock's servers the lease has ended.
    leases_ended: usize,
    /// Fencing tokens, by the order in which they were granted.
    tokens: BTreeMap<i64, i64>,
}

impl<'a> LabSession<'a> {
    /// Both buyers stand where their purchase begins.
    ///
    /// # Errors
    /// When a server or a process does not start.
    pub async fn start(world: &'a World, plan: PlanOfSession) -> anyhow::Result<Self> {
        // Also so that PostgreSQL notices a process that is killed.
        world.prepare_for_exploring().await?;
        let scheduler = Scheduler::new(world, plan.rung).await?;
        let locks = LockReader::connect(&scheduler.servers).await?;
        let mut session = Self {
            plan,
            driver: ScheduleDriver::new(scheduler),
            steps: Vec::new(),
            events: Vec::new(),
            places: [("not_begun", None); 3],
            locks,
            killed: false,
            broken_at_the_end: None,
            leases_ended: 0,
            tokens: BTreeMap::new(),
        };
        session.put_buyers_in_place().await?;
        Ok(session)
    }

    /// From the beginning, on the same servers and with the same processes.
    ///
    /// # Errors
    /// When one of them is gone, or `plan` is of another rung.
    pub async fn start_over(&mut self, plan: PlanOfSession) -> anyhow::Result<()> {
        anyhow::ensure!(plan.rung.id == self.plan.rung.id, "a session plays one rung");
        let users = [0, 1].map(|user| self.driver.scheduler.lock_key(user));
        // What a process has sold and not written is in its memory, and not to be broken off.
        let forgets = plan.rung.can(Capability::QueueInMemory);
        for node in (0..self.driver.scheduler.nodes.len()).map(NodeIndex) {
            if forgets || self.killed && node == KILLED_NODE {
                self.driver.scheduler.replace_node(node).await?;
            }
        }
        self.driver.start_over().await?;
        self.driver.empty_stream().await?;
        for key in users {
            self.locks.forget(&key?).await?;
        }
        self.plan = plan;
        self.steps.clear();
        self.events.clear();
        self.leases_ended = 0;
        self.killed = false;
        self.broken_at_the_end = None;
        self.tokens.clear();
        self.put_buyers_in_place().await
    }

    /// Which rung is played.
    pub fn rung(&self) -> &'static Rung {
        self.plan.rung
    }

    async fn put_buyers_in_place(&mut self) -> anyhow::Result<()> {
        let scheduler = &mut self.driver.scheduler;
        let voucher = scheduler.voucher(self.plan.stock).await?;
        while scheduler.nodes.len() < usize::from(self.plan.processes) {
            scheduler.node().await?;
        }
        for (nth, name) in NAMES.into_iter().enumerate() {
            let node = NodeIndex(if self.plan.processes == 1 { 0 } else { nth });
            // Somebody thinks between two steps.
            let buyer = ActorPlan { lease: AN_HOUR, ..ActorPlan::new(self.user(nth), voucher) };
            self.driver.enter(name, node, buyer).await?;
            self.places[nth] = ("not_begun", source_lines::of_beginning(self.plan.rung));
        }
        self.places[CONSUMER] = ("not_begun", source_lines::of_turn(self.plan.rung));
        Ok(())
    }

    /// Plays a whole schedule.
    ///
    /// # Errors
    /// When a step makes no sense, or a server or a process is gone.
    pub async fn play(&mut self, schedule: &Schedule) -> Result<(), StepError> {
        for step in &schedule.0 {
            self.step(*step).await?;
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
        let mut frames = Vec::new();
        for step in &schedule.0 {
            let before = SessionState { timeline: Vec::new(), ..self.state().await? };
            match self.step(*step).await {
                Ok(()) => frames.push(before),
                Err(StepError::Refused(refusal)) => return Ok((frames, Some(refusal))),
                Err(StepError::Failed(error)) => return Err(error),
            }
        }
        Ok((frames, None))
    }

    /// Takes one step.
    ///
    /// # Errors
    /// When it makes no sense, or a server or a process is gone.
    pub async fn step(&mut self, step: ScheduleStep) -> Result<(), StepError> {
        if self.steps.len() >= MAX_STEPS {
            return Err(StepRefusal::TooLong { most: MAX_STEPS }.into());
        }
        match step {
            ScheduleStep::A => self.go_on(0).await?,
            ScheduleStep::B => self.go_on(1).await?,
            ScheduleStep::C => self.run_consumer().await?,
            ScheduleStep::L => self.end_lease().await?,
            ScheduleStep::K => self.kill().await?,
        }
        if self.is_at_its_end() {
            self.settle().await?;
        }
        self.steps.push(step);
        Ok(())
    }

    pub(super) async fn go_on(&mut self, mover: usize) -> Result<(), StepError> {
        let state = self.driver.state(mover);
        if state.is_over() || self.is_settled() {
            return Err(StepRefusal::IsOver { buyer: NAMES[mover] }.into());
        }
        if state.is_queued() {
            return Err(StepRefusal::Waits { buyer: NAMES[mover] }.into());
        }
        let stop = self.driver.run_to_next_stop(mover).await?;
        self.stopped(mover, &stop).await?;
        Ok(self.run_those_set_free().await?)
    }

    async fn run_consumer(&mut self) -> Result<(), StepError> {
        if !self.plan.rung.has_consumer() {
            return Err(StepRefusal::NoConsumer.into());
        }
        if !self.consumer_can_step() {
            return Err(StepRefusal::Idle.into());
        }
        let stop = self.driver.run_consumer().await?;
        let rung = self.plan.rung;
        self.places[CONSUMER] = match &stop {
            Stop::At(point) => (point.as_str(), source_lines::of_point(rung, *point)),
            Stop::Failed(_) => ("failed", source_lines::of_turn(rung)),
            _ => ("worked", source_lines::of_turn(rung)),
        };
        for user in 0..i64::from(self.plan.users) {
            let key = self.driver.scheduler.lock_key(user)?;
            self.locks.is_of(&key, CONSUMER_NAME).await?;
        }
        self.tell_what_happened(self.places[CONSUMER].0);
        Ok(self.run_those_set_free().await?)
    }

    pub(super) async fn run_those_set_free(&mut self) -> anyhow::Result<()> {
        while let Some((nth, stop)) = self.driver.run_next_set_free().await? {
            self.stopped(nth, &stop).await?;
        }
        Ok(())
    }

    /// A buyer has come to a stop.
    async fn stopped(&mut self, nth: usize, stop: &Stop) -> anyhow::Result<()> {
        let rung = self.plan.rung;
        let before = self.places[nth].1.unwrap_or_default();
        self.places[nth] = match stop {
            Stop::At(point) => (point.as_str(), source_lines::of_point(rung, *point)),
            Stop::Waits if self.driver.state(nth) == ActorState::QueuedInDatabase => {
                ("waits_in_database", source_lines::of_row(rung, before))
            }
            Stop::Waits => ("waits_in_process", source_lines::of_waiting(rung, before)),
            Stop::Done(answer) => (answer.code(), None),
            Stop::LostLock => ("lost_lock", None),
            Stop::Failed(_) => ("failed", None),
            Stop::Worked(_) => unreachable!("a buyer takes no consumer's turn"),
        };
        let has_place = rung.lock == LockKind::ZooKeeper && !matches!(stop, Stop::Done(_));
        let takes = matches!(stop, Stop::At(Point::KeySet | Point::Locked));
        if has_place || takes {
            let key = self.driver.scheduler.lock_key(self.user(nth))?;
            self.locks.is_of(&key, NAMES[nth]).await?;
        }
        self.tell(nth)
    }

    fn tell(&mut self, nth: usize) -> anyhow::Result<()> {
        let said =
            self.driver.scheduler.take_timeline().pop().context("a buyer stopped in silence")?;
        let said = self.with_tokens_counted(said.event);
        let detail = said.about(Language::English);
        self.event(Some(NAMES[nth]), self.places[nth].0, detail, said);
        Ok(())
    }

    /// The same in every run: fencing tokens by the order in which they were granted.
    fn with_tokens_counted(&mut self, mut said: Event) -> Event {
        if let Some(token) = said.token_mut() {
            let next = self.tokens.len() as i64 + 1;
            *token = *self.tokens.entry(*token).or_insert(next);
        }
        said
    }

    /// Tells all that the scheduler has noted since it was asked.
    pub(super) fn tell_what_happened(&mut self, kind: &'static str) {
        for said in self.driver.scheduler.take_timeline() {
            let actor = said.actor.as_deref().and_then(|name| {
                let names = [("A", "A"), ("B", "B"), ("W", "C"), ("W2", "C2"), ("A2", "A2")];
                names.into_iter().find(|(known, _)| *known == name).map(|(_, shown)| shown)
            });
            let said = self.with_tokens_counted(said.event);
            self.event(actor, kind, String::new(), said);
        }
    }

    fn event(
        &mut self,
        actor: Option<&'static str>,
        kind: &'static str,
        detail: String,
        text: Event,
    ) {
        let step = self.steps.len() + 1;
        self.events.push(SessionEvent { step, actor, kind, detail, text });
    }

    /// Which of the cell's users the buyer is, from 0.
    pub(super) const fn user(&self, nth: usize) -> i64 {
        if self.plan.users == 1 { 0 } else { nth as i64 }
    }

    /// The user whose lock has a lease on the server where the next one can end, if any has.
    pub(super) async fn lease_that_can_end(&self) -> anyhow::Result<Option<i64>> {
        // The lock of a consumer is not what its rung is about.
        if self.plan.rung.lease == LeaseKind::NoLease || self.is_settled() {
            return Ok(None);
        }
        let Some(redis) = self.locks.redis(self.leases_ended) else { return Ok(None) };
        for user in 0..i64::from(self.plan.users) {
            let key = self.driver.scheduler.lock_key(user)?;
            if redis.query::<i64>(redis::cmd("PTTL").arg(key)).await? > 0 {
                return Ok(Some(user));
            }
        }
        Ok(None)
    }

    /// Ends the lease on the next of the lock's servers. A buyer that waits looks again, as at a real
    /// end; it comes in when enough servers know of no holder.
    async fn end_lease(&mut self) -> Result<(), StepError> {
        let user = self.lease_that_can_end().await?.ok_or(StepRefusal::NoLease)?;
        let server = self.leases_ended;
        self.driver.scheduler.expire(user, server).await?;
        self.leases_ended += 1;
        let redis = self.leases_ended;
        let detail = format!("Redis {redis}");
        self.event(None, "lease_ended", detail, Event::LeaseEndsOn { redis });
        if self.leases_ended >= self.plan.rung.quorum() {
            self.driver.nobody_has_the_lock();
        }
        let waiting: Vec<usize> =
            self.driver.those(|state| state == ActorState::QueuedInProcess).collect();
        for nth in waiting {
            let key = self.driver.scheduler.lock_key(self.user(nth))?;
            self.locks.tell_waiters(server, &key).await?;
        }
        Ok(self.run_those_set_free().await?)
    }

    /// Ends the session: its processes, its connections, its lock servers.
    pub async fn close(self) {
        self.driver.scheduler.strike().await;
    }
}
