//! The steps of a game on real processes.
//!
//! Nothing is deleted between two games: each has a voucher, users and keys of its own, and the processes and
//! connections of the one before.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context;

use super::schedule::{CONSUMER, Step, TIME};
use super::setting::{FaultKind, GamePlan};
use crate::judge::{Books, Breach, broken_promises};
use crate::lock_servers::LockServers;
use crate::scheduler::{Act, ActorRecord, ActorState, Attempt, NodeIndex, Scheduler};
use crate::steps::{AN_HOUR, ScheduleDriver};
use crate::told::{Several, Witness};
use crate::world::World;
use ladder::{Capability, Invariant, LockKind};
use redis_link::Redis;

/// The request of a buyer: nobody else's, in no other game either.
pub(super) const fn request_of(nth: usize, voucher: i64) -> u128 {
    ((voucher as u128) << 8) | nth as u128
}

/// The lease of an actor that is to be stopped until it has ended.
pub(super) const LEASE_OF_THE_PAUSED: Duration = Duration::from_millis(250);

/// One that did something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mover {
    /// One of the driver's actors, which came to a stop.
    Actor(usize, Act),
    /// The consumer of the first process.
    Consumer(Act),
    /// The lab.
    Lab,
}

/// Something that was done, and how long the timeline was after it.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) who: Mover,
    pub(crate) lines: usize,
}

/// A game on processes of its own.
pub(crate) struct Game<'w> {
    pub(crate) plan: GamePlan,
    pub(crate) driver: ScheduleDriver<'w>,
    /// The lock's servers.
    pub(super) redis: Vec<Redis>,
    /// What was known at the beginning that would be done.
    ahead: Vec<Step>,
    /// What was done so far.
    pub(crate) steps: Vec<Step>,
    /// The process that is stopped.
    pub(super) stopped: Option<NodeIndex>,
    /// On so many of the lock's servers the lease has ended.
    pub(super) leases_ended: usize,
    /// Whether the sessions of the processes with ZooKeeper are short ones.
    has_short_sessions: bool,
    moves: Vec<Move>,
    /// What is broken when everything that was left has been done.
    pub(super) broken: Option<Vec<Breach>>,
}

impl<'w> Game<'w> {
    /// Nobody takes part yet. `world` is prepared: PostgreSQL notices a process that is killed.
    pub(crate) async fn start(
        world: &'w World,
        plan: GamePlan,
        servers: LockServers,
    ) -> anyhow::Result<Self> {
        let redis = servers.redis_urls.iter().map(|url| Redis::new(url)).collect::<Result<_, _>>();
        Ok(Self {
            plan,
            redis: redis?,
            driver: ScheduleDriver::new(Scheduler::on(world, plan.rung, servers).await?),
            ahead: Vec::new(),
            steps: Vec::new(),
            stopped: None,
            leases_ended: 0,
            has_short_sessions: false,
            moves: Vec::new(),
            broken: None,
        })
    }

    /// Every actor stands where its attempt begins. A process that `ahead` stops, or whose session with ZooKeeper is
    /// to end, has a lease that does so soon.
    pub(crate) async fn begin(&mut self, plan: GamePlan, ahead: &[Step]) -> anyhow::Result<()> {
        anyhow::ensure!(plan.rung.id == self.plan.rung.id, "a game is one rung's");
        self.clear_up(ahead).await?;
        self.plan = plan;
        self.ahead = ahead.to_vec();
        let scheduler = &mut self.driver.scheduler;
        while scheduler.nodes.len() < usize::from(plan.processes) {
            scheduler.node().await?;
        }
        let voucher = scheduler.voucher(plan.stock).await?;
        if plan.is_unpaid {
            return self.put_unpaid_order_in_place(voucher).await;
        }
        for (nth, name) in plan.names().iter().enumerate() {
            let is_short = self.has_short_sessions || ahead.contains(&Step::Pause(nth));
            let lease = if is_short { LEASE_OF_THE_PAUSED } else { AN_HOUR };
            let request = Some(request_of(nth, voucher));
            let buyer = Attempt { lease, request, ..Attempt::new(plan.user(nth), voucher) };
            self.driver.enter(name, plan.node(nth), buyer).await?;
        }
        Ok(())
    }

    /// Forgets what was played, and puts new processes where one is gone or knows too much.
    async fn clear_up(&mut self, ahead: &[Step]) -> anyhow::Result<()> {
        let rung = self.plan.rung;
        // A process has one session with ZooKeeper, which is that of its first purchase.
        let is_short = rung.lock == LockKind::ZooKeeper && ahead.iter().any(|step| step.is_fault());
        // What a process has sold and not written is in its memory.
        let is_full = rung.can(Capability::QueueInMemory) && self.broken.is_none();
        let all_new = is_full || is_short != self.has_short_sessions;
        self.has_short_sessions = is_short;
        let is_gone =
            |nth: &usize| self.driver.state(*nth) == ActorState::Killed || self.lost_session(*nth);
        let mut gone: BTreeSet<NodeIndex> =
            (0..self.driver.count()).filter(is_gone).map(|nth| self.driver.node(nth)).collect();
        gone.extend(self.stopped);
        for node in (0..self.driver.scheduler.nodes.len()).map(NodeIndex) {
            if all_new || gone.contains(&node) {
                self.driver.scheduler.replace_node(node).await?;
            }
        }
        self.driver.start_over().await?;
        self.steps.clear();
        self.stopped = None;
        self.leases_ended = 0;
        self.moves.clear();
        self.broken = None;
        self.driver.empty_stream().await
    }

    /// After something went wrong nothing is known of the processes.
    pub(crate) async fn restart_processes(&mut self) -> anyhow::Result<()> {
        let scheduler = &mut self.driver.scheduler;
        for node in &mut scheduler.nodes {
            // Gone already, or it is now.
            let _ = node.kill().await;
        }
        for node in (0..scheduler.nodes.len()).map(NodeIndex) {
            scheduler.until_disconnected(node).await?;
            scheduler.replace_node(node).await?;
        }
        self.stopped = None;
        self.driver.forget_actors();
        Ok(())
    }

    /// The steps that can be taken now, those of the actors first. None when no actor can go on.
    pub(crate) async fn possible(&self) -> anyhow::Result<Vec<Step>> {
        let mut possible = Vec::new();
        if self.is_settled() {
            return Ok(possible);
        }
        let actors = self.driver.those(ActorState::can_go_on);
        possible.extend(actors.map(|nth| Step::Go(self.place_of(nth))));
        possible.extend(self.driver.consumer_can_go_on().then_some(Step::Go(CONSUMER)));
        if possible.is_empty() {
            return Ok(possible);
        }
        let has_begun = |state: ActorState| state != ActorState::NotBegun;
        // One process is killed or stopped, once.
        let is_spent = self.steps.iter().any(|it| matches!(it, Step::Kill(_) | Step::Pause(_)));
        for fault in FaultKind::ALL.iter().filter(|fault| self.plan.allows(**fault)) {
            match fault {
                FaultKind::Lease => {
                    let can_end = self.lease_that_can_end().await?.is_some();
                    possible.extend(can_end.then_some(Step::EndLease));
                }
                FaultKind::Kill | FaultKind::Pause if is_spent => {}
                FaultKind::Kill if self.plan.rung.has_consumer() => {
                    let is_any = self.driver.those(has_begun).next().is_some();
                    possible.extend(is_any.then_some(Step::Kill(CONSUMER)));
                }
                FaultKind::Kill if self.plan.is_unpaid => possible.push(Step::Kill(TIME)),
                FaultKind::Kill => {
                    let live = self.driver.those(|state| has_begun(state) && !state.is_over());
                    possible.extend(live.map(Step::Kill));
                }
                FaultKind::LostAnswer => {
                    possible.extend(self.bought().map(|_| Step::SendAgain));
                }
                FaultKind::Pause => {
                    let able = self.driver.those(ActorState::can_go_on);
                    possible
                        .extend(able.filter(|nth| self.driver.has_lease(*nth)).map(Step::Pause));
                }
            }
        }
        Ok(possible)
    }

    /// Whether the step needs leases that end soon, and the game did not begin with it in sight.
    pub(crate) fn is_surprised_by(&self, step: Step) -> bool {
        let ends_session = self.plan.rung.lock == LockKind::ZooKeeper && step.is_fault();
        (matches!(step, Step::Pause(_)) || ends_session) && !self.ahead.contains(&step)
    }

    /// Takes a step, and everybody that it sets free goes on to the next stop.
    pub(crate) async fn take(&mut self, step: Step) -> anyhow::Result<()> {
        self.act(step).await?;
        self.steps.push(step);
        Ok(())
    }

    pub(super) async fn act(&mut self, step: Step) -> anyhow::Result<()> {
        match step {
            Step::Go(CONSUMER) => {
                // No lock of a rung with a consumer is renewed, so none of its processes is stopped.
                assert!(self.stopped.is_none(), "a consumer of a stopped process goes on");
                let stop = self.driver.run_consumer().await?;
                self.moved(Mover::Consumer(stop));
            }
            Step::Go(place) => self.go_on(self.actor_at(place)).await?,
            Step::EndLease => self.end_lease().await?,
            Step::Kill(place) => self.kill(place).await?,
            Step::Pause(nth) => self.pause(nth).await?,
            Step::SendAgain => self.send_again().await?,
        }
        self.run_those_set_free().await
    }

    async fn go_on(&mut self, nth: usize) -> anyhow::Result<()> {
        let node = self.driver.node(nth);
        if self.stopped == Some(node) {
            self.driver.scheduler.resume(node)?;
            self.stopped = None;
            self.moved(Mover::Lab);
        }
        let stop = self.driver.run_to_next_stop(nth).await?;
        self.moved(Mover::Actor(nth, stop));
        Ok(())
    }

    pub(super) async fn run_those_set_free(&mut self) -> anyhow::Result<()> {
        while let Some((nth, stop)) = self.driver.run_next_set_free().await? {
            self.moved(Mover::Actor(nth, stop));
        }
        Ok(())
    }

    pub(super) fn moved(&mut self, who: Mover) {
        self.moves.push(Move { who, lines: self.driver.scheduler.log.len() });
    }

    /// What was done since this was asked for the last time.
    pub(crate) fn take_moves(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.moves)
    }

    /// Everything works and has its time; then it is judged. Afterwards nothing happens any more.
    pub(crate) async fn settle(&mut self) -> anyhow::Result<()> {
        self.broken = Some(match self.plan.is_unpaid {
            true => self.judge_payments().await?,
            false => self.judge_at_the_end().await?,
        });
        Ok(())
    }

    async fn judge_at_the_end(&mut self) -> anyhow::Result<Vec<Breach>> {
        let has_killed = self.driver.those(|state| state == ActorState::Killed).next().is_some();
        let is_at_stake = has_killed && !self.plan.rung.has_consumer();
        let never_ends = is_at_stake && self.go_on_after_kill().await?;
        self.driver.scheduler.settle().await?;
        let mut broken = self.judge().await?;
        let breaches = self.driver.scheduler.log.breaches().iter();
        broken.extend(breaches.map(|witness| Breach {
            invariant: match witness {
                Witness::OtherAnswer { .. } => Invariant::SameAnswer,
                _ => Invariant::NoBrokenPromise,
            },
            witness: witness.clone(),
        }));
        broken.extend(self.deadlocked());
        if is_at_stake {
            broken.extend(self.locked_out(never_ends).await?);
        }
        Ok(broken)
    }

    /// What the books hold now against what every buyer was told.
    pub(super) async fn judge(&self) -> anyhow::Result<Vec<Breach>> {
        Ok(broken_promises(&self.driver.scheduler, &self.books().await?))
    }

    /// The books of what is on sale.
    pub(crate) async fn books(&self) -> anyhow::Result<Books> {
        let scheduler = &self.driver.scheduler;
        Books::of(scheduler, *scheduler.vouchers.first().context("nothing is on sale")?).await
    }

    /// Everybody that is left waits.
    pub(super) fn deadlocked(&self) -> Option<Breach> {
        let left = self.driver.those(|state| !state.is_over());
        let waits: Vec<&'static str> = left.map(|nth| self.driver.record(nth).name).collect();
        (!waits.is_empty()).then_some(Breach {
            invariant: Invariant::NoSelfDeadlock,
            witness: Witness::NobodyGoesOn { actors: Several::Both(waits) },
        })
    }

    /// What was broken when everything that was left had been done; `None` before that.
    pub(crate) fn verdict(&self) -> Option<&[Breach]> {
        self.broken.as_deref()
    }

    /// Whether everything that was left has been done.
    pub(crate) fn is_settled(&self) -> bool {
        self.broken.is_some()
    }

    /// Why somebody came to no answer. An actor that was stopped past its session may, and a payment.
    pub(crate) fn failure(&self) -> Option<Witness> {
        let others = (0..self.driver.count()).filter(|nth| !self.lost_session(*nth));
        let records = others.map(|nth| self.driver.record(nth)).filter(|record| !record.may_fail);
        records.into_iter().find_map(ActorRecord::failure)
    }

    /// Whether the actor was stopped past its session with ZooKeeper.
    fn lost_session(&self, nth: usize) -> bool {
        self.plan.rung.lock == LockKind::ZooKeeper && self.steps.contains(&Step::Pause(nth))
    }

    /// Ends the processes.
    pub(crate) async fn close(self) {
        self.driver.scheduler.strike().await;
    }
}
