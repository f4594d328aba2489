//! How the actors of a scheduler go on: one at a time, and no further than the schedule says.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::timeout;

use super::node_process::NodeRequest;
use super::scheduler::{
    Act, Actor, ActorRecord, ActorState, Attempt, NodeIndex, PATIENCE, Scheduler,
};
use super::told::{AtPoint, Event};
use ladder::{Awaited, Detail, LeaseKind, LockKind, Point, WorkTurn};

/// How long an actor may go on before PostgreSQL is asked whether it waits for a lock; twice as long
/// from time to time, up to [`LOOK_EVERY`].
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// How often PostgreSQL is asked which transactions wait for a lock.
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl Scheduler<'_> {
    /// As [`Scheduler::until_first`], where the scenario makes no sense unless the actor gets there.
    pub(super) async fn must_reach(
        &mut self,
        actor: Actor,
        points: &[Point],
    ) -> anyhow::Result<()> {
        match self.until_first(actor, points).await? {
            Act::At(_, _) => Ok(()),
            elsewhere => {
                let name = self.actors[actor.0].name;
                bail!("{name} was to come to {points:?}, and came to {elsewhere:?}")
            }
        }
    }

    /// Lets the actor go on to its end, or as far as it gets.
    pub(super) async fn finish(&mut self, actor: Actor) -> anyhow::Result<Act> {
        self.until_first(actor, &[]).await
    }

    /// Lets all of them go on to their ends, the first first. Where they queue for something, the one
    /// that gets it goes on: the schedule does not decide the order of the queue.
    pub(super) async fn finish_all(&mut self, actors: &[Actor]) -> anyhow::Result<()> {
        let mut left = actors.to_vec();
        while !left.is_empty() {
            let next = timeout(PATIENCE, self.next_ready(&left)).await;
            let next = next.with_context(|| format!("nobody went on for {PATIENCE:?}"))??;
            if !matches!(self.finish(next).await?, Act::Waits(_)) {
                left.retain(|actor| *actor != next);
            }
        }
        Ok(())
    }

    /// The first of `actors` that can go on.
    async fn next_ready(&mut self, actors: &[Actor]) -> anyhow::Result<Actor> {
        loop {
            for actor in actors {
                let record = &self.actors[actor.0];
                if !record.state.is_queued() || self.nodes[record.node].has_heard(record.name) {
                    return Ok(*actor);
                }
            }
            for actor in actors {
                let node = self.actors[actor.0].node;
                if let Ok(heard) = timeout(LOOK_EVERY, self.nodes[node].listen()).await {
                    heard?;
                }
            }
        }
    }

    /// Lets the actor go on, and does not look where it gets.
    pub(super) async fn set_out(&mut self, actor: Actor) -> anyhow::Result<()> {
        let ActorRecord { name, node, .. } = self.actors[actor.0];
        self.actors[actor.0].state = ActorState::Running;
        self.log.note(name, Event::GoesOn);
        self.nodes[node].order(&NodeRequest::Go(name.to_owned())).await
    }

    /// Lets the actor go on until it is at the first of several points, or as far as it gets.
    pub(super) async fn until_first(
        &mut self,
        actor: Actor,
        points: &[Point],
    ) -> anyhow::Result<Act> {
        loop {
            let (name, node) = (self.actors[actor.0].name, self.actors[actor.0].node);
            match self.actors[actor.0].state {
                ActorState::NotBegun | ActorState::Held => {
                    if self.actors[actor.0].adds_stock {
                        self.note_sold_out().await?;
                    }
                    self.note_line(actor);
                    self.actors[actor.0].state = ActorState::Running;
                    self.nodes[node].order(&NodeRequest::Go(name.to_owned())).await?;
                }
                ActorState::Over | ActorState::Killed => {
                    let answer = self.actors[actor.0].answer.clone();
                    return answer.with_context(|| format!("{name} goes on no more"));
                }
                ActorState::QueuedInDatabase
                | ActorState::QueuedInProcess
                | ActorState::Running => {}
            }
            let act = timeout(PATIENCE, self.next_act(actor)).await;
            let act = act.with_context(|| format!("{name} did nothing for {PATIENCE:?}"))??;
            match &act {
                Act::At(at, detail) => {
                    self.actors[actor.0].state = ActorState::Held;
                    if *at == Point::LetIn {
                        self.actors[actor.0].let_in = Some(self.passed);
                    }
                    let detail = match *detail {
                        Detail::Number(id) if at.names_an_order() => {
                            Detail::Number(self.log.nth_order(id) as i64)
                        }
                        detail => detail,
                    };
                    self.log.note(name, Event::At { step: AtPoint(*at, detail) });
                    if !points.contains(at) {
                        continue;
                    }
                    return Ok(act);
                }
                Act::Waits(what) => {
                    self.log.note(name, Event::Waits { what: *what });
                    self.actors[actor.0].awaited = Some(*what);
                    return Ok(act);
                }
                Act::Done(answer) => {
                    self.log.note(name, Event::Answered { answer: *answer });
                    self.note_refusal(actor, *answer).await?;
                }
                Act::Worked(WorkTurn::Idle) => {}
                Act::Worked(turn) => self.log.note(name, Event::Worked { turn: *turn }),
                Act::NeverHeardOf => bail!("{name} asked, where it was to act"),
                Act::LostLock => self.log.note(name, Event::LostLock),
                Act::Failed(failure) => {
                    self.log.note(name, Event::Failed { failure: failure.clone() });
                }
            }
            self.actors[actor.0].state = ActorState::Over;
            self.actors[actor.0].answer = Some(act.clone());
            return Ok(act);
        }
    }

    /// What the actor does next. That it waits for somebody else's row is something that
    /// only PostgreSQL knows.
    async fn next_act(&mut self, actor: Actor) -> anyhow::Result<Act> {
        let record = &self.actors[actor.0];
        let (name, node, was) = (record.name, record.node, record.state);
        let known = self.count(|record| record.state == ActorState::QueuedInDatabase);
        let mut patience = FIRST_LOOK;
        loop {
            if let Ok(act) = timeout(patience, self.nodes[node].next_act(name)).await {
                let act = act?;
                if matches!(act, Act::Waits(_)) {
                    self.actors[actor.0].state = ActorState::QueuedInProcess;
                }
                return Ok(act);
            }
            patience = LOOK_EVERY.min(2 * patience);
            if was != ActorState::Running || self.rung.waits_for_batch() {
                continue;
            }
            let transactions = self.transactions().await?;
            if transactions.blocked > known && !self.is_undoing(transactions) {
                self.actors[actor.0].state = ActorState::QueuedInDatabase;
                let known = self.count(|record| record.waits_for(Awaited::AdvisoryLock));
                let is_advisory = transactions.advisory > known;
                let advisory = Awaited::AdvisoryLock;
                return Ok(Act::Waits(if is_advisory { advisory } else { Awaited::LockedRow }));
            }
        }
    }

    pub(super) fn count(&self, which: impl Fn(&ActorRecord) -> bool) -> i64 {
        self.actors.iter().filter(|record| which(record)).count() as i64
    }
}

/// Nothing that an actor waits for ends by the clock.
pub(crate) const AN_HOUR: Duration = Duration::from_secs(3600);

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
    pub(crate) turns: Vec<Actor>,
}

impl<'w> ScheduleDriver<'w> {
    /// Nobody is on `scheduler` yet.
    pub(crate) fn new(scheduler: Scheduler<'w>) -> Self {
        Self { scheduler, actors: Vec::new(), turns: Vec::new() }
    }

    /// A buyer comes to `node`, and stands where its attempt begins.
    pub(crate) async fn enter(
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
    pub(crate) fn drive(&mut self, actor: Actor, user: i64) {
        self.actors.push(DrivenActor { actor, user, hold: LockHold::Nothing });
    }

    /// Breaks off what is played and forgets it. Processes and servers stay; users are fresh ones.
    pub(crate) async fn start_over(&mut self) -> anyhow::Result<()> {
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
    pub(crate) fn forget_actors(&mut self) {
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
    pub(crate) fn has_lock(&self, nth: usize) -> bool {
        self.actors[nth].hold != LockHold::Nothing
    }

    /// Whether the actor has a lock with a lease, whose end can be played.
    pub(crate) fn has_lease(&self, nth: usize) -> bool {
        self.actors[nth].hold == LockHold::Lease && !self.state(nth).is_over()
    }

    /// The servers of the lock know of no holder any more.
    pub(crate) fn nobody_has_the_lock(&mut self) {
        for actor in &mut self.actors {
            actor.hold = LockHold::Nothing;
        }
    }

    /// Kills a process, and waits until PostgreSQL has noticed. A mutex is gone with its process, and what
    /// the database keeps with the transaction; any other lock stays.
    pub(crate) async fn kill(&mut self, node: NodeIndex) -> anyhow::Result<()> {
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
    pub(crate) async fn run_to_next_stop(&mut self, nth: usize) -> anyhow::Result<Act> {
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
    pub(crate) async fn run_next_set_free(&mut self) -> anyhow::Result<Option<(usize, Act)>> {
        let next = timeout(PATIENCE, self.next_set_free()).await;
        let Some(nth) = next.context("nobody says which actors wait")?? else {
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
                LockKind::Mutex => {
                    let ActorRecord { name, node, .. } = *self.record(nth);
                    self.scheduler.nodes[node].still_waits(name).await?
                }
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
                let ActorRecord { name, node, .. } = *self.record(*nth);
                if self.scheduler.nodes[node].says_something(name, LISTEN_FOR).await? {
                    return Ok(Some(*nth));
                }
            }
        }
        Ok(None)
    }
}
