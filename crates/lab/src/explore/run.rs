//! One schedule on the real servers: a prefix from the beginning, then default choices to the end.
//!
//! Nothing is deleted in between: a schedule has a voucher, users and keys of its own, and the
//! processes and connections of the one before.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::timeout;

use super::schedule::{ACTOR_NAMES, CONSUMER, ExploreSchedule, ExploreStep};
use super::setting::{CONSUMERS_NODE, FaultKind, LEASE_OF_THE_PAUSED, Setting, has_lease};
use super::verdict::BrokenBySchedule;
use super::walk::{Branch, default_choice};
use crate::lock_servers::LockServers;
use crate::scheduler::{Actor, ActorPlan, ActorState, NodeIndex, PATIENCE, Scheduler, Stop};
use crate::timeline::TimelineLine;
use crate::world::World;
use ladder::{Invariant, LockKind, Point};
use redisson_lock::connection::Redis;

/// Nothing that an actor waits for ends by the clock.
const AN_HOUR: Duration = Duration::from_secs(3600);

/// How long to listen whether somebody that was set free says something.
const LISTEN_FOR: Duration = Duration::from_millis(1);

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

/// An actor, as far as it has come.
pub(super) struct ActorProgress {
    pub(super) actor: Actor,
    pub(super) node: usize,
    pub(super) begun: bool,
    /// It has taken the lock, and nothing has ended that but, perhaps, itself.
    pub(super) has_lock: bool,
    /// The lock that it has has a lease, whose end can be played.
    has_lease: bool,
    pub(super) killed: bool,
}

/// Plays schedules, one after the other, with processes of its own.
pub(super) struct ScheduleRunner<'w> {
    pub(super) setting: Setting,
    pub(super) scheduler: Scheduler<'w>,
    pub(super) nodes: Vec<NodeIndex>,
    pub(super) redis: Vec<Redis>,
    pub(super) actors: Vec<ActorProgress>,
    /// The turns of the consumer; the last may not be over.
    pub(super) turns: Vec<Actor>,
    pub(super) fault: Option<ExploreStep>,
    /// The process that is stopped.
    stopped: Option<usize>,
}

impl<'w> ScheduleRunner<'w> {
    /// Starts the processes.
    ///
    /// # Errors
    /// When one does not start.
    pub(super) async fn start(
        world: &'w World,
        setting: &Setting,
        servers: LockServers,
    ) -> anyhow::Result<Self> {
        let redis = servers.redis_urls.iter().map(|url| Redis::new(url)).collect::<Result<_, _>>();
        let mut scheduler = Scheduler::on(world, setting.rung, servers).await?;
        let mut nodes = Vec::new();
        for _ in 0..setting.nodes {
            nodes.push(scheduler.node().await?);
        }
        Ok(Self {
            setting: setting.clone(),
            scheduler,
            nodes,
            redis: redis?,
            actors: Vec::new(),
            turns: Vec::new(),
            fault: None,
            stopped: None,
        })
    }

    /// Plays one schedule. What fails on the way makes it unknown.
    ///
    /// # Errors
    /// When the runner cannot begin a schedule any more.
    pub(super) async fn play(&mut self, prefix: &[ExploreStep]) -> anyhow::Result<Played> {
        self.clear_up().await?;
        let mut branches = Vec::new();
        let played = self.play_from_the_beginning(prefix, &mut branches).await;
        let timeline = self.scheduler.take_timeline();
        Ok(match played {
            Ok(broken) => {
                let unknown = self.failure();
                let broken = if unknown.is_some() { Vec::new() } else { broken };
                Played { branches, broken, timeline, unknown }
            }
            Err(error) => {
                self.start_anew().await?;
                let unknown = Some(format!("{error:#}"));
                Played { branches, broken: Vec::new(), timeline, unknown }
            }
        })
    }

    /// Ends the processes.
    pub(super) async fn close(self) {
        self.scheduler.strike().await;
    }

    /// Makes ready for the next schedule.
    async fn clear_up(&mut self) -> anyhow::Result<()> {
        for nth in 0..self.actors.len() {
            let ended_session = self.setting.rung.lock == LockKind::ZooKeeper
                && self.fault == Some(ExploreStep::Pause(nth));
            if self.actors[nth].killed || ended_session {
                let node = self.nodes[self.actors[nth].node];
                self.scheduler.replace_node(node).await?;
            }
        }
        if self.actors.iter().any(|progress| self.state(progress) != ActorState::Over) {
            self.scheduler.start_over().await?;
            self.scheduler.until_rolled_back(0).await?;
        } else {
            self.scheduler.forget();
        }
        self.actors.clear();
        self.fault = None;
        self.stopped = None;
        self.empty_stream().await
    }

    /// After something went wrong nothing is known of the processes.
    async fn start_anew(&mut self) -> anyhow::Result<()> {
        for node in &self.nodes {
            // Gone already, or it is now.
            let _ = self.scheduler.nodes[node.0].kill().await;
        }
        for node in &self.nodes {
            self.scheduler.until_disconnected(*node).await?;
            self.scheduler.replace_node(*node).await?;
        }
        self.actors.clear();
        Ok(())
    }

    async fn play_from_the_beginning(
        &mut self,
        prefix: &[ExploreStep],
        branches: &mut Vec<Branch<ExploreStep>>,
    ) -> anyhow::Result<Vec<BrokenBySchedule>> {
        let voucher = self.put_actors_in_place(prefix).await?;
        let mut before = Vec::new();
        loop {
            let possible = self.possible();
            let planned = prefix.get(branches.len()).copied();
            let Some(chosen) = planned.or_else(|| default_choice(&possible, &before)) else {
                break;
            };
            if !possible.contains(&chosen) {
                let name = ExploreSchedule([&before[..], &[chosen]].concat()).to_string();
                bail!("the last step of {name} was not possible");
            }
            branches.push(Branch { possible, chosen });
            before.push(chosen);
            self.step(chosen).await?;
        }
        let broken = self.judge_at_the_end(voucher).await?;
        for found in &broken {
            self.scheduler.say(format!("so {} is broken: {}", found.invariant, found.witness));
        }
        Ok(broken)
    }

    async fn put_actors_in_place(&mut self, prefix: &[ExploreStep]) -> anyhow::Result<i64> {
        let Setting { from, actors, .. } = self.setting;
        let voucher = self.scheduler.voucher(from.stock(actors)).await?;
        for (nth, name) in ACTOR_NAMES.into_iter().enumerate().take(actors) {
            let node = nth % self.nodes.len();
            let mut buyer = ActorPlan::new(from.user(nth), voucher);
            buyer.patience = AN_HOUR;
            // A process has one session with ZooKeeper, which is that of its first purchase.
            let one_session =
                self.setting.rung.lock == LockKind::ZooKeeper && !self.setting.faults.is_empty();
            if one_session || prefix.contains(&ExploreStep::Pause(nth)) {
                buyer.lease = LEASE_OF_THE_PAUSED;
            }
            let actor = self.scheduler.enter(name, self.nodes[node], buyer).await?;
            let (begun, has_lock, has_lease, killed) = (false, false, false, false);
            self.actors.push(ActorProgress { actor, node, begun, has_lock, has_lease, killed });
        }
        Ok(voucher)
    }

    pub(super) fn state(&self, progress: &ActorProgress) -> ActorState {
        self.scheduler.actors[progress.actor.0].state
    }

    /// The steps that can be taken now: those of the actors first. None when no actor can go on.
    pub(super) fn possible(&self) -> Vec<ExploreStep> {
        let held = |progress: &ActorProgress| self.state(progress) == ActorState::Held;
        let mut possible: Vec<ExploreStep> =
            self.those(|progress| held(progress)).map(ExploreStep::Go).collect();
        possible.extend(self.consumer_can_go_on().then_some(ExploreStep::Go(CONSUMER)));
        if possible.is_empty() || self.fault.is_some() {
            return possible;
        }
        let holds = |progress: &ActorProgress| {
            progress.has_lock && progress.has_lease && self.state(progress) != ActorState::Over
        };
        for fault in &self.setting.faults {
            match fault {
                FaultKind::Lease if self.setting.lease_can_end() => {
                    possible.extend(self.those(holds).take(1).map(|_| ExploreStep::EndLease));
                }
                FaultKind::Lease => {}
                FaultKind::Kill if self.setting.rung.has_consumer() => {
                    let has_begun = self.actors.iter().any(|progress| progress.begun);
                    possible.extend(has_begun.then_some(ExploreStep::Kill(CONSUMER)));
                }
                FaultKind::Kill => {
                    let lives = |progress: &ActorProgress| {
                        progress.begun && self.state(progress) != ActorState::Over
                    };
                    possible.extend(self.those(lives).map(ExploreStep::Kill));
                }
                FaultKind::Pause => {
                    let holds = |progress: &ActorProgress| holds(progress) && held(progress);
                    possible.extend(self.those(holds).map(ExploreStep::Pause));
                }
            }
        }
        possible
    }

    fn those(&self, which: impl Fn(&ActorProgress) -> bool) -> impl Iterator<Item = usize> {
        self.actors.iter().enumerate().filter(move |(_, it)| which(it)).map(|(nth, _)| nth)
    }

    pub(super) async fn step(&mut self, step: ExploreStep) -> anyhow::Result<()> {
        match step {
            ExploreStep::Go(CONSUMER) => self.run_consumer().await?,
            ExploreStep::Go(nth) => {
                let node = self.actors[nth].node;
                if self.stopped == Some(node) {
                    self.scheduler.resume(self.nodes[node])?;
                    self.stopped = None;
                }
                self.actors[nth].begun = true;
                self.run_to_next_stop(nth).await?;
            }
            ExploreStep::EndLease => {
                self.end_leases().await?;
                self.nobody_has_the_lock();
            }
            ExploreStep::Kill(nth) => {
                let node = if nth == CONSUMER { CONSUMERS_NODE } else { self.actors[nth].node };
                self.scheduler.kill(self.nodes[node]).await?;
                self.scheduler.until_disconnected(self.nodes[node]).await?;
                for progress in self.actors.iter_mut().filter(|progress| progress.node == node) {
                    progress.killed = true;
                    progress.has_lock &= self.setting.rung.lock != LockKind::Mutex;
                }
            }
            ExploreStep::Pause(nth) => {
                let node = self.actors[nth].node;
                self.scheduler.pause(self.nodes[node])?;
                self.stopped = Some(node);
                self.lease_ends_by_itself().await?;
                self.nobody_has_the_lock();
            }
        }
        if step.is_fault() {
            self.fault = Some(step);
        }
        self.run_those_set_free().await
    }

    pub(super) fn nobody_has_the_lock(&mut self) {
        for progress in &mut self.actors {
            progress.has_lock = false;
        }
    }

    async fn run_to_next_stop(&mut self, nth: usize) -> anyhow::Result<()> {
        let actor = self.actors[nth].actor;
        let mut stop = self.scheduler.until_first(actor, &Point::ALL).await?;
        // It only waits for the server of a lock that is free.
        if stop == Stop::Waits
            && self.state(&self.actors[nth]) == ActorState::QueuedInProcess
            && self.setting.rung.lock != LockKind::Mutex
            && !self.is_kept_out(nth)
        {
            stop = self.scheduler.until_first(actor, &Point::ALL).await?;
        }
        // Whether a process has heard of its session's end when it looks is a race between two of its
        // own tasks, which no schedule decides: with ZooKeeper it is stopped only after its last look.
        let zookeeper = self.setting.rung.lock == LockKind::ZooKeeper;
        let lease_counts_from = if zookeeper { Point::LastCheck } else { Point::Locked };
        let progress = &mut self.actors[nth];
        progress.has_lock |= matches!(stop, Stop::At(Point::KeySet | Point::Locked));
        progress.has_lease |= has_lease(self.setting.rung) && stop == Stop::At(lease_counts_from);
        Ok(())
    }

    /// Whether another actor has the lock that this one wants. One that is through has given it back;
    /// one that was killed has not.
    fn is_kept_out(&self, nth: usize) -> bool {
        let user = self.setting.from.user(nth);
        let mut others = self.actors.iter().enumerate().filter(|(other, _)| *other != nth);
        others.any(|(other, progress)| {
            let has_it = self.state(progress) != ActorState::Over || progress.killed;
            self.setting.from.user(other) == user && progress.has_lock && has_it
        })
    }

    /// Lets everybody that a step set free go on to its own next stop: a step is over when nobody
    /// moves.
    pub(super) async fn run_those_set_free(&mut self) -> anyhow::Result<()> {
        let until = async {
            while let Some(nth) = self.next_set_free().await? {
                self.run_to_next_stop(nth).await?;
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, until).await.context("nobody knows who waits")?
    }

    async fn next_set_free(&mut self) -> anyhow::Result<Option<usize>> {
        let in_process: Vec<usize> =
            self.those(|it| self.state(it) == ActorState::QueuedInProcess).collect();
        for nth in in_process {
            let waits = match self.setting.rung.lock {
                LockKind::Mutex => self.scheduler.still_waits(self.actors[nth].actor).await?,
                _ => self.is_kept_out(nth),
            };
            if !waits {
                return Ok(Some(nth));
            }
        }
        let in_database: Vec<usize> =
            self.those(|it| self.state(it) == ActorState::QueuedInDatabase).collect();
        while !in_database.is_empty() {
            let transactions = self.scheduler.transactions().await?;
            let all_wait = transactions.blocked >= in_database.len() as i64;
            if all_wait && !self.scheduler.is_undoing(transactions) {
                break;
            }
            for nth in &in_database {
                let actor = self.actors[*nth].actor;
                if self.scheduler.says_something(actor, LISTEN_FOR).await? {
                    return Ok(Some(*nth));
                }
            }
        }
        Ok(None)
    }

    /// Everybody that is left waits.
    pub(super) fn deadlocked(&self) -> Option<BrokenBySchedule> {
        let waits: Vec<&str> = self
            .those(|it| self.state(it) != ActorState::Over)
            .map(|nth| ACTOR_NAMES[nth])
            .collect();
        (!waits.is_empty()).then(|| BrokenBySchedule {
            invariant: Invariant::NoDeadlock,
            witness: format!("{} waits, and nobody can go on", waits.join(" and ")),
        })
    }

    /// Why somebody came to no answer. One that was stopped past its session with ZooKeeper may.
    fn failure(&self) -> Option<String> {
        let has_session = self.setting.rung.lock == LockKind::ZooKeeper;
        let excused = |nth: usize| has_session && self.fault == Some(ExploreStep::Pause(nth));
        self.those(|_| true).filter(|nth| !excused(*nth)).find_map(|nth| {
            match self.scheduler.answer(self.actors[nth].actor) {
                Some(Stop::Failed(error)) => {
                    Some(format!("{} came to no answer: {error}", ACTOR_NAMES[nth]))
                }
                _ => None,
            }
        })
    }
}
