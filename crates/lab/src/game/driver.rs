//! Actors that go on one at a time: one to its next stop, and after it the actors that it set free.
//!
//! Somebody else decides whose turn it is. What a turn does is here.

use std::time::Duration;

use anyhow::Context;
use tokio::time::timeout;

use crate::scheduler::{
    Act, Actor, ActorRecord, ActorState, Attempt, NodeIndex, PATIENCE, Scheduler,
};
use ladder::{LeaseKind, LockKind, Point};

/// Nothing that an actor waits for ends by the clock.
pub(super) const AN_HOUR: Duration = Duration::from_secs(3600);

/// How long to listen whether an actor that was set free says something.
const LISTEN_FOR: Duration = Duration::from_millis(1);

/// What an actor has of the lock that it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockHold {
    Nothing,
    Lock,
    /// A lock with a lease, whose end can be played.
    Lease,
}

struct DrivenActor {
    actor: Actor,
    user: i64,
    hold: LockHold,
}

/// A scheduler and the actors on it.
pub(crate) struct ScheduleDriver<'w> {
    pub(crate) scheduler: Scheduler<'w>,
    actors: Vec<DrivenActor>,
    /// The turns of the consumer; the last may not be over.
    pub(super) turns: Vec<Actor>,
}

impl<'w> ScheduleDriver<'w> {
    /// Nobody is on `scheduler` yet.
    pub(super) fn new(scheduler: Scheduler<'w>) -> Self {
        Self { scheduler, actors: Vec::new(), turns: Vec::new() }
    }

    /// A buyer comes to `node`, and stands where its attempt begins.
    pub(super) async fn enter(
        &mut self,
        name: &'static str,
        node: NodeIndex,
        buyer: Attempt,
    ) -> anyhow::Result<()> {
        let buyer = Attempt { patience: AN_HOUR, ..buyer };
        let actor = self.scheduler.enter(name, node, buyer).await?;
        self.drive(actor, buyer.user);
        Ok(())
    }

    /// Takes up an actor that is in place already, and is about one of the cell's users.
    pub(super) fn drive(&mut self, actor: Actor, user: i64) {
        self.actors.push(DrivenActor { actor, user, hold: LockHold::Nothing });
    }

    /// Breaks off what is played and forgets it. Processes and servers stay; users are fresh ones.
    pub(super) async fn start_over(&mut self) -> anyhow::Result<()> {
        let is_under_way = self.those(|state| !state.is_over()).next().is_some();
        if is_under_way || self.open_turn().is_some() {
            for node in &mut self.scheduler.nodes {
                node.break_off().await?;
            }
            self.scheduler.until_rolled_back(0).await?;
        }
        self.scheduler.forget();
        self.forget_actors();
        Ok(())
    }

    /// Forgets the actors, of whom nothing is known any more.
    pub(super) fn forget_actors(&mut self) {
        self.actors.clear();
        self.turns.clear();
    }

    pub(crate) fn record(&self, nth: usize) -> &ActorRecord {
        &self.scheduler.actors[self.actors[nth].actor.0]
    }

    pub(crate) fn state(&self, nth: usize) -> ActorState {
        self.record(nth).state
    }

    /// The process that serves an actor.
    pub(crate) fn node(&self, nth: usize) -> NodeIndex {
        NodeIndex(self.record(nth).node)
    }

    /// How many actors there are.
    pub(crate) fn count(&self) -> usize {
        self.actors.len()
    }

    /// The actors in such a state.
    pub(crate) fn those(&self, which: impl Fn(ActorState) -> bool) -> impl Iterator<Item = usize> {
        (0..self.actors.len()).filter(move |nth| which(self.state(*nth)))
    }

    /// Whether the actor has taken the lock, and nothing has ended that but, perhaps, itself.
    pub(super) fn has_lock(&self, nth: usize) -> bool {
        self.actors[nth].hold != LockHold::Nothing
    }

    /// Whether the actor has a lock with a lease, whose end can be played.
    pub(super) fn has_lease(&self, nth: usize) -> bool {
        self.actors[nth].hold == LockHold::Lease && !self.state(nth).is_over()
    }

    /// The servers of the lock know of no holder any more.
    pub(super) fn nobody_has_the_lock(&mut self) {
        for actor in &mut self.actors {
            actor.hold = LockHold::Nothing;
        }
    }

    /// Kills a process, and waits until PostgreSQL has noticed. A mutex is gone with its process, and what
    /// the database keeps with the transaction; any other lock stays.
    pub(super) async fn kill(&mut self, node: NodeIndex) -> anyhow::Result<()> {
        self.scheduler.kill(node).await?;
        self.scheduler.until_disconnected(node).await?;
        if matches!(self.scheduler.rung.lock, LockKind::Database | LockKind::Mutex) {
            for actor in &mut self.actors {
                if self.scheduler.actors[actor.actor.0].node == node.0 {
                    actor.hold = LockHold::Nothing;
                }
            }
        }
        Ok(())
    }

    /// Lets an actor go on to its next stop.
    pub(super) async fn run_to_next_stop(&mut self, nth: usize) -> anyhow::Result<Act> {
        let rung = self.scheduler.rung;
        let actor = self.actors[nth].actor;
        let mut stop = self.scheduler.until_first(actor, Point::ALL).await?;
        // It only waits for the server of a lock that is free.
        if self.state(nth) == ActorState::QueuedInProcess
            && rung.lock != LockKind::Mutex
            && !self.is_kept_out(nth)
        {
            stop = self.scheduler.until_first(actor, Point::ALL).await?;
        }
        // Whether a process has heard of its session's end when it looks is a race between two of its
        // own tasks, which no schedule decides: with ZooKeeper it is stopped only after its last look.
        let zookeeper = rung.lock == LockKind::ZooKeeper;
        let lease_counts_from = if zookeeper { Point::LastCheck } else { Point::Locked };
        let hold = &mut self.actors[nth].hold;
        if matches!(stop, Act::At(Point::KeySet | Point::Locked, _)) {
            *hold = LockHold::Lock;
        }
        let counts = matches!(stop, Act::At(at, _) if at == lease_counts_from)
            && rung.lease != LeaseKind::NoLease;
        if counts && *hold == LockHold::Lock {
            *hold = LockHold::Lease;
        }
        Ok(stop)
    }

    /// Lets one actor that a step set free go on to its next stop. `None` when nobody moves: the step is
    /// over then.
    pub(super) async fn run_next_set_free(&mut self) -> anyhow::Result<Option<(usize, Act)>> {
        let next = timeout(PATIENCE, self.next_set_free()).await;
        let Some(nth) = next.context("PostgreSQL did not say which actors wait")?? else {
            return Ok(None);
        };
        Ok(Some((nth, self.run_to_next_stop(nth).await?)))
    }

    /// Whether another actor has the lock that this one wants. An actor that was answered has given it
    /// back; one that was killed has not.
    fn is_kept_out(&self, nth: usize) -> bool {
        let user = self.actors[nth].user;
        (0..self.actors.len()).any(|other| {
            other != nth
                && self.actors[other].user == user
                && self.has_lock(other)
                && self.state(other) != ActorState::Over
        })
    }

    async fn next_set_free(&mut self) -> anyhow::Result<Option<usize>> {
        let in_process: Vec<usize> =
            self.those(|state| state == ActorState::QueuedInProcess).collect();
        for nth in in_process {
            let waits = match self.scheduler.rung.lock {
                LockKind::Mutex => self.scheduler.still_waits(self.actors[nth].actor).await?,
                _ => self.is_kept_out(nth),
            };
            if !waits {
                return Ok(Some(nth));
            }
        }
        let in_database: Vec<usize> =
            self.those(|state| state == ActorState::QueuedInDatabase).collect();
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
}
