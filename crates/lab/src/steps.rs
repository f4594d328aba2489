//! How the actors of a scheduler go on: one at a time, and no further than the schedule says.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::timeout;

use super::node_process::NodeRequest;
use super::scheduler::{
    Act, Actor, ActorRecord, ActorState, Attempt, NodeIndex, PATIENCE, Scheduler,
};
use super::told::{AtPoint, Event};
use ladder::{Answer, Awaited, Detail, Point, WorkTurn};

/// How long an actor may go on before PostgreSQL is asked whether it waits for a lock; twice as long
/// from time to time, up to [`LOOK_EVERY`].
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// How often PostgreSQL is asked which transactions wait for a lock.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The transactions of a scheduler's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenTransactions {
    /// How many there are.
    pub(super) open: i64,
    /// How many of them wait for a row or an advisory lock that another one has. (A wait for a place
    /// at the end of a table is over by itself.)
    pub(super) blocked: i64,
    /// How many of these wait for an advisory lock.
    advisory: i64,
}

impl Scheduler<'_> {
    /// Lets the actor go on until it is at `point`, or as far as it gets.
    pub(super) async fn until(&mut self, actor: Actor, point: Point) -> anyhow::Result<Act> {
        self.until_first(actor, &[point]).await
    }

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

    /// A buyer of the first voucher comes to `node`, and goes on to its end.
    pub(super) async fn buys(
        &mut self,
        name: &'static str,
        node: NodeIndex,
        user: i64,
    ) -> anyhow::Result<Actor> {
        let voucher = *self.vouchers.first().context("nothing is on sale")?;
        let buyer = self.enter(name, node, Attempt::new(user, voucher)).await?;
        // Where it has to wait for a batch, it goes on after that.
        self.finish_all(&[buyer]).await?;
        Ok(buyer)
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

    /// As [`Scheduler::until`], to the first of several points.
    pub(super) async fn until_first(
        &mut self,
        actor: Actor,
        points: &[Point],
    ) -> anyhow::Result<Act> {
        loop {
            let (name, node) = (self.actors[actor.0].name, self.actors[actor.0].node);
            match self.actors[actor.0].state {
                ActorState::NotBegun | ActorState::Held => {
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
                    let detail = match detail {
                        Detail::Number(id) if at.names_an_order() => {
                            Detail::Number(self.log.nth_order(*id) as i64)
                        }
                        detail => detail.clone(),
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
                Act::Done(answer) => self.log.note(name, Event::Answered { answer: *answer }),
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

    /// Whether a transaction is still open whose actor is through. One that is dropped is rolled back
    /// after its actor was answered: what waits for it goes on by itself.
    pub(super) fn is_undoing(&self, transactions: OpenTransactions) -> bool {
        let dropped = |record: &ActorRecord| {
            record.state.is_over() && !matches!(record.answer, Some(Act::Done(Answer::Ordered(_))))
        };
        let alive = self.count(|record| !record.state.is_over());
        transactions.open > alive && self.count(dropped) > 0
    }

    /// Listens for a moment whether the actor does something.
    pub(super) async fn says_something(
        &mut self,
        actor: Actor,
        patience: Duration,
    ) -> anyhow::Result<bool> {
        let ActorRecord { name, node, .. } = self.actors[actor.0];
        match timeout(patience, self.nodes[node].listen_for(name)).await {
            Ok(heard) => heard.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// The transactions of this scheduler's processes. Production code (r19) names itself, and is told
    /// from others by its database alone.
    pub(super) async fn transactions(&self) -> anyhow::Result<OpenTransactions> {
        let transactions = sqlx::query_as(
            "select count(*) filter (where state <> 'idle'),
                    count(*) filter (where waits_for in ('transactionid', 'tuple', 'advisory')),
                    count(*) filter (where waits_for = 'advisory')
             from pg_stat_activity process
               left join lateral (
                 select locktype from pg_locks where pg_locks.pid = process.pid and not granted
               ) waiting (waits_for) on true
             where starts_with(application_name, $1)
                or application_name = 'seckill' and datname = current_database()",
        );
        let (open, blocked, advisory) =
            transactions.bind(&self.application).fetch_one(&self.database).await?;
        Ok(OpenTransactions { open, blocked, advisory })
    }

    /// Until a transaction of the scheduler's processes waits for a row.
    pub(super) async fn until_blocked(&self) -> anyhow::Result<()> {
        let until = async {
            while self.transactions().await?.blocked == 0 {
                tokio::time::sleep(FIRST_LOOK).await;
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, until).await.context("nobody waits for the row")?
    }

    /// Whether an actor that waits in its process still does. What it waits for was given back
    /// before this is asked, or was not.
    pub(super) async fn still_waits(&mut self, actor: Actor) -> anyhow::Result<bool> {
        let ActorRecord { name, node, .. } = self.actors[actor.0];
        let node = &mut self.nodes[node];
        if !node.has_heard(name) {
            node.order(&NodeRequest::Look(name.to_owned())).await?;
            timeout(PATIENCE, node.listen_for(name)).await.context("a node does not answer")??;
        }
        Ok(node.forget_waiting(name))
    }

    /// Waits until PostgreSQL has undone what was broken off: until no more than `left` transactions
    /// are open.
    pub(super) async fn until_rolled_back(&self, left: i64) -> anyhow::Result<()> {
        let until = async {
            while self.transactions().await?.open > left {
                tokio::time::sleep(FIRST_LOOK).await;
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, until).await.context("a transaction was not undone")?
    }

    /// Waits until PostgreSQL has noticed that a process is gone, and has undone what it had begun.
    pub(super) async fn until_disconnected(&self, node: NodeIndex) -> anyhow::Result<()> {
        let connections = || {
            sqlx::query_scalar::<_, i64>(
                "select count(*) from pg_stat_activity where application_name = $1",
            )
            .bind(self.application_of(node.0))
        };
        let until = async {
            while connections().fetch_one(&self.database).await? > 0 {
                tokio::time::sleep(FIRST_LOOK).await;
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, until).await.context("a connection of a dead process stays open")?
    }
}
