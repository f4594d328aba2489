//! One schedule on the real servers: a prefix from the beginning, then default choices to the end.
//!
//! Nothing is deleted in between: a schedule has a voucher, users and keys of its own, and the
//! processes and connections of the one before.

use std::collections::BTreeSet;

use super::runners::{Runner, play_prefix};
use super::schedule::{ACTOR_NAMES, CONSUMER, ExploreSchedule, ExploreStep, TIME};
use super::setting::{FaultKind, LEASE_OF_THE_PAUSED, NODE_OF_TIME, Setting};
use super::verdict::BrokenBySchedule;
use super::walk::Branch;
use crate::consumer_steps::CONSUMERS_NODE;
use crate::driver::ScheduleDriver;
use crate::lock_servers::LockServers;
use crate::scheduler::{ActorPlan, ActorRecord, ActorState, NodeIndex, Scheduler};
use crate::timeline::TimelineLine;
use crate::told::{Event, Several, Witness};
use crate::world::World;
use ladder::{Invariant, LeaseKind, LockKind};
use redisson_lock::connection::Redis;

/// A schedule that was played.
#[derive(Debug, Clone)]
pub(super) struct Played {
    pub(super) branches: Vec<Branch<ExploreStep>>,
    pub(super) broken: Vec<BrokenBySchedule>,
    pub(super) timeline: Vec<TimelineLine>,
    /// Why nothing can be said of it.
    pub(super) unknown: Option<String>,
}

impl Played {
    pub(super) fn schedule(&self) -> ExploreSchedule {
        ExploreSchedule(self.branches.iter().map(|branch| branch.chosen).collect())
    }
}

/// Plays schedules, one after the other, with processes of its own.
pub(super) struct ScheduleRunner<'w> {
    pub(super) setting: Setting,
    pub(super) driver: ScheduleDriver<'w>,
    pub(super) redis: Vec<Redis>,
    pub(super) fault: Option<ExploreStep>,
    /// The process that is stopped.
    stopped: Option<NodeIndex>,
}

impl<'w> ScheduleRunner<'w> {
    /// Starts the processes.
    pub(super) async fn start(
        world: &'w World,
        setting: &Setting,
        servers: LockServers,
    ) -> anyhow::Result<Self> {
        let redis = servers.redis_urls.iter().map(|url| Redis::new(url)).collect::<Result<_, _>>();
        let mut scheduler = Scheduler::on(world, setting.rung, servers).await?;
        for _ in 0..setting.nodes {
            scheduler.node().await?;
        }
        Ok(Self {
            setting: setting.clone(),
            driver: ScheduleDriver::new(scheduler),
            redis: redis?,
            fault: None,
            stopped: None,
        })
    }

    /// Plays one schedule. What fails on the way makes it unknown.
    pub(super) async fn play(&mut self, prefix: &[ExploreStep]) -> anyhow::Result<Played> {
        self.clear_up().await?;
        let mut branches = Vec::new();
        let played = self.play_from_the_beginning(prefix, &mut branches).await;
        let timeline = self.driver.scheduler.take_timeline();
        let (broken, unknown) = match played {
            Ok(broken) => (broken, self.failure().map(|witness| witness.to_string())),
            Err(error) => {
                self.start_anew().await?;
                (Vec::new(), Some(format!("{error:#}")))
            }
        };
        let broken = if unknown.is_some() { Vec::new() } else { broken };
        Ok(Played { branches, broken, timeline, unknown })
    }

    /// Ends the processes.
    pub(super) async fn close(self) {
        self.driver.scheduler.strike().await;
    }

    /// Makes ready for the next schedule.
    async fn clear_up(&mut self) -> anyhow::Result<()> {
        let is_gone =
            |nth: &usize| self.driver.state(*nth) == ActorState::Killed || self.lost_session(*nth);
        let gone = (0..self.driver.count()).filter(is_gone);
        let gone: BTreeSet<NodeIndex> = gone.map(|nth| self.driver.node(nth)).collect();
        for node in gone {
            self.driver.scheduler.replace_node(node).await?;
        }
        self.driver.start_over().await?;
        self.fault = None;
        self.stopped = None;
        self.driver.empty_stream().await
    }

    /// Whether the actor was stopped past its session with ZooKeeper.
    fn lost_session(&self, nth: usize) -> bool {
        let has_session = self.setting.rung.lock == LockKind::ZooKeeper;
        has_session && self.fault == Some(ExploreStep::Pause(nth))
    }

    /// After something went wrong nothing is known of the processes.
    async fn start_anew(&mut self) -> anyhow::Result<()> {
        let scheduler = &mut self.driver.scheduler;
        for node in &mut scheduler.nodes {
            // Gone already, or it is now.
            let _ = node.kill().await;
        }
        for node in (0..self.setting.nodes).map(NodeIndex) {
            scheduler.until_disconnected(node).await?;
            scheduler.replace_node(node).await?;
        }
        self.driver.forget_actors();
        Ok(())
    }

    async fn play_from_the_beginning(
        &mut self,
        prefix: &[ExploreStep],
        branches: &mut Vec<Branch<ExploreStep>>,
    ) -> anyhow::Result<Vec<BrokenBySchedule>> {
        let voucher = self.put_actors_in_place(prefix).await?;
        play_prefix(self, prefix, branches).await?;
        let broken = self.judge_at_the_end(voucher).await?;
        for found in &broken {
            let BrokenBySchedule { invariant, witness } = found.clone();
            self.driver.scheduler.say(Event::Broken { invariant, witness });
        }
        Ok(broken)
    }

    async fn put_actors_in_place(&mut self, prefix: &[ExploreStep]) -> anyhow::Result<i64> {
        let Setting { rung, from, nodes, actors, .. } = self.setting;
        let voucher = self.driver.scheduler.voucher(from.stock(actors)).await?;
        if from.has_unpaid_order() {
            self.put_unpaid_order_in_place(voucher).await?;
            return Ok(voucher);
        }
        // A process has one session with ZooKeeper, which is that of its first purchase.
        let one_session = rung.lock == LockKind::ZooKeeper && !self.setting.faults.is_empty();
        for (nth, name) in ACTOR_NAMES.into_iter().enumerate().take(actors) {
            let mut buyer = ActorPlan::new(from.user(nth), voucher);
            if one_session || prefix.contains(&ExploreStep::Pause(nth)) {
                buyer.lease = LEASE_OF_THE_PAUSED;
            }
            self.driver.enter(name, NodeIndex(nth % nodes), buyer).await?;
        }
        Ok(voucher)
    }

    async fn kill(&mut self, nth: usize) -> anyhow::Result<()> {
        let node = match nth {
            CONSUMER => CONSUMERS_NODE,
            TIME => {
                self.driver.scheduler.nobody_else_pays();
                NODE_OF_TIME
            }
            nth => self.driver.node(nth),
        };
        self.driver.kill(node).await
    }

    async fn pause(&mut self, nth: usize) -> anyhow::Result<()> {
        let node = self.driver.node(nth);
        self.driver.scheduler.pause(node)?;
        self.stopped = Some(node);
        self.lease_ends_by_itself().await?;
        self.driver.nobody_has_the_lock();
        Ok(())
    }

    async fn go_on(&mut self, nth: usize) -> anyhow::Result<()> {
        let node = self.driver.node(nth);
        if self.stopped == Some(node) {
            self.driver.scheduler.resume(node)?;
            self.stopped = None;
        }
        self.driver.run_to_next_stop(nth).await.map(drop)
    }

    /// Lets everybody that a step set free go on to the next stop.
    pub(super) async fn run_those_set_free(&mut self) -> anyhow::Result<()> {
        while self.driver.run_next_set_free().await?.is_some() {}
        Ok(())
    }

    /// Everybody that is left waits.
    pub(super) fn deadlocked(&self) -> Option<BrokenBySchedule> {
        let left = self.driver.those(|state| !state.is_over());
        let waits: Vec<&'static str> = left.map(|nth| self.driver.record(nth).name).collect();
        (!waits.is_empty()).then_some(BrokenBySchedule {
            invariant: Invariant::NoSelfDeadlock,
            witness: Witness::NobodyGoesOn { actors: Several::Both(waits) },
        })
    }

    /// Why somebody came to no answer. An actor that was stopped past its session may, and a payment.
    fn failure(&self) -> Option<Witness> {
        let others = (0..self.driver.count()).filter(|nth| !self.lost_session(*nth));
        let records = others.map(|nth| self.driver.record(nth)).filter(|record| !record.may_fail);
        records.into_iter().find_map(ActorRecord::failure)
    }
}

impl Runner for ScheduleRunner<'_> {
    fn possible(&self) -> Vec<ExploreStep> {
        let mut possible: Vec<ExploreStep> = self
            .driver
            .those(ActorState::can_go_on)
            .map(|nth| ExploreStep::Go(self.step_of(nth)))
            .collect();
        possible.extend(self.driver.consumer_can_go_on().then_some(ExploreStep::Go(CONSUMER)));
        if possible.is_empty() || self.fault.is_some() {
            return possible;
        }
        let has_begun = |state: ActorState| state != ActorState::NotBegun;
        let has_lease = |nth: &usize| self.driver.has_lease(*nth);
        for fault in &self.setting.faults {
            match fault {
                FaultKind::Lease if self.setting.rung.lease == LeaseKind::Fixed => {
                    let is_held = (0..self.driver.count()).any(|nth| has_lease(&nth));
                    possible.extend(is_held.then_some(ExploreStep::EndLease));
                }
                FaultKind::Lease => {}
                FaultKind::Kill if self.setting.rung.has_consumer() => {
                    let is_any = self.driver.those(has_begun).next().is_some();
                    possible.extend(is_any.then_some(ExploreStep::Kill(CONSUMER)));
                }
                FaultKind::Kill if self.setting.from.has_unpaid_order() => {
                    possible.push(ExploreStep::Kill(TIME));
                }
                FaultKind::Kill => {
                    let live = self.driver.those(|state| has_begun(state) && !state.is_over());
                    possible.extend(live.map(ExploreStep::Kill));
                }
                FaultKind::Pause => {
                    let hold = self.driver.those(ActorState::can_go_on).filter(has_lease);
                    possible.extend(hold.map(ExploreStep::Pause));
                }
            }
        }
        possible
    }

    async fn take(&mut self, step: ExploreStep) -> anyhow::Result<()> {
        match step {
            ExploreStep::Go(CONSUMER) => self.driver.run_consumer().await.map(drop)?,
            ExploreStep::Go(step) => self.go_on(self.actor_of(step)).await?,
            ExploreStep::EndLease => {
                self.end_leases().await?;
                self.driver.nobody_has_the_lock();
            }
            ExploreStep::Kill(nth) => self.kill(nth).await?,
            ExploreStep::Pause(nth) => self.pause(nth).await?,
        }
        if step.is_fault() {
            self.fault = Some(step);
        }
        self.run_those_set_free().await
    }
}
