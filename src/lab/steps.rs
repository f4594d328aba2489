//! How the actors of a scheduler go on: one at a time, and no further than the schedule says.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::timeout;

use super::protocol::{Act, NodeRequest};
use super::scheduler::{Actor, ActorRecord, ActorState, PATIENCE, Scheduler, Stop};
use crate::ladder::{Point, WorkTurn};

/// How often PostgreSQL is asked who waits for a lock.
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl Scheduler<'_> {
    /// Lets the actor go on until it is at `point`, or as far as it gets.
    ///
    /// # Errors
    /// When its process ends, or nothing happens for half a minute.
    pub async fn until(&mut self, actor: Actor, point: Point) -> anyhow::Result<Stop> {
        self.until_first(actor, &[point]).await
    }

    /// As [`Scheduler::until_first`], where the story is none unless the actor gets there.
    ///
    /// # Errors
    /// When it does not, too: the cell is unknown.
    pub async fn must_reach(&mut self, actor: Actor, points: &[Point]) -> anyhow::Result<()> {
        match self.until_first(actor, points).await? {
            Stop::At(_) => Ok(()),
            elsewhere => {
                let name = self.actors[actor.0].name;
                bail!("{name} was to come to {points:?}, and came to {elsewhere:?}")
            }
        }
    }

    /// Lets the actor go on to its end, or as far as it gets.
    ///
    /// # Errors
    /// As [`Scheduler::until`].
    pub async fn finish(&mut self, actor: Actor) -> anyhow::Result<Stop> {
        self.until_first(actor, &[]).await
    }

    /// Lets all of them go on to their ends, the first first. Where they queue for something,
    /// whoever gets it goes on: the queue's order is not the schedule's.
    ///
    /// # Errors
    /// As [`Scheduler::until`].
    pub async fn finish_all(&mut self, actors: &[Actor]) -> anyhow::Result<()> {
        let mut left = actors.to_vec();
        while !left.is_empty() {
            let next = timeout(PATIENCE, self.next_ready(&left)).await;
            let next = next.with_context(|| format!("nobody went on for {PATIENCE:?}"))??;
            if self.finish(next).await? != Stop::Waits {
                left.retain(|actor| *actor != next);
            }
        }
        Ok(())
    }

    /// The first of `actors` who can go on.
    async fn next_ready(&mut self, actors: &[Actor]) -> anyhow::Result<Actor> {
        loop {
            for actor in actors {
                let record = &self.actors[actor.0];
                let queued = matches!(
                    record.state,
                    ActorState::QueuedInDatabase | ActorState::QueuedInProcess
                );
                if !queued || self.nodes[record.node].has_heard(record.name) {
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
    ///
    /// # Errors
    /// When its process has ended.
    pub async fn set_out(&mut self, actor: Actor) -> anyhow::Result<()> {
        let ActorRecord { name, node, .. } = self.actors[actor.0];
        self.actors[actor.0].state = ActorState::Running;
        self.note(name, "goes on");
        self.nodes[node].order(&NodeRequest::Go(name.to_owned())).await
    }

    /// As [`Scheduler::until`], to the first of several points.
    ///
    /// # Errors
    /// As [`Scheduler::until`].
    pub async fn until_first(&mut self, actor: Actor, points: &[Point]) -> anyhow::Result<Stop> {
        loop {
            let (name, node) = (self.actors[actor.0].name, self.actors[actor.0].node);
            match self.actors[actor.0].state {
                ActorState::Held => {
                    self.actors[actor.0].state = ActorState::Running;
                    self.nodes[node].order(&NodeRequest::Go(name.to_owned())).await?;
                }
                ActorState::Over => {
                    return Ok(self.actors[actor.0].answer.clone().unwrap_or(Stop::Waits));
                }
                ActorState::QueuedInDatabase
                | ActorState::QueuedInProcess
                | ActorState::Running => {}
            }
            let act = timeout(PATIENCE, self.next_act(actor)).await;
            let act = act.with_context(|| format!("{name} did nothing for {PATIENCE:?}"))??;
            let stop = match act {
                Act::At(at, detail) => {
                    self.actors[actor.0].state = ActorState::Held;
                    let detail = if at.names_an_order() { self.nth_order(detail) } else { detail };
                    self.note(name, at.told(&detail));
                    self.actors[actor.0].detail = detail;
                    if !points.contains(&at) {
                        continue;
                    }
                    return Ok(Stop::At(at));
                }
                Act::Waits(what) => {
                    self.note(name, format!("waits for {what}"));
                    self.actors[actor.0].detail = what;
                    return Ok(Stop::Waits);
                }
                Act::Done(answer) => {
                    self.note(name, format!("is told: {answer}"));
                    Stop::Done(answer)
                }
                Act::Worked(turn) => {
                    if turn != WorkTurn::Idle {
                        self.note(name, turn.to_string());
                    }
                    Stop::Worked(turn)
                }
                Act::NeverHeardOf => bail!("{name} asked, where it was to act"),
                Act::LostLock => {
                    self.note(name, "has lost its lock and writes nothing");
                    Stop::LostLock
                }
                Act::Failed(error) => {
                    self.note(name, format!("comes to no answer: {error}"));
                    self.actors[actor.0].detail.clone_from(&error);
                    Stop::Failed(error)
                }
            };
            self.actors[actor.0].state = ActorState::Over;
            self.actors[actor.0].answer = Some(stop.clone());
            return Ok(stop);
        }
    }

    /// What the actor does next. That it waits for somebody else's row is something that
    /// only PostgreSQL knows.
    async fn next_act(&mut self, actor: Actor) -> anyhow::Result<Act> {
        let record = &self.actors[actor.0];
        let (name, node, was) = (record.name, record.node, record.state);
        let queued = |record: &&ActorRecord| record.state == ActorState::QueuedInDatabase;
        let known = self.actors.iter().filter(queued).count() as i64;
        loop {
            if let Ok(act) = timeout(LOOK_EVERY, self.nodes[node].next_act(name)).await {
                let act = act?;
                if matches!(act, Act::Waits(_)) {
                    self.actors[actor.0].state = ActorState::QueuedInProcess;
                }
                return Ok(act);
            }
            if was == ActorState::Running && self.waiting_in_database().await? > known {
                self.actors[actor.0].state = ActorState::QueuedInDatabase;
                return Ok(Act::Waits("a row that another transaction has locked".to_owned()));
            }
        }
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

    /// Whether a transaction of an actor waits for a lock that another one has.
    pub(super) async fn is_blocked_in_database(&self) -> anyhow::Result<bool> {
        let blocked = sqlx::query_scalar(
            "select exists (
               select from pg_locks join pg_stat_activity using (pid)
               where not granted and datname = current_database()
             )",
        );
        Ok(blocked.fetch_one(&self.database).await?)
    }

    /// Waits until PostgreSQL has undone what was broken off.
    ///
    /// # Errors
    /// When it does not.
    pub(super) async fn until_rolled_back(&self) -> anyhow::Result<()> {
        let open = || {
            sqlx::query_scalar::<_, bool>(
                "select exists (
               select from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()
                 and backend_type = 'client backend' and state <> 'idle'
             )",
            )
        };
        let until = async {
            while open().fetch_one(&self.database).await? {
                tokio::time::sleep(LOOK_EVERY / 5).await;
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, until).await.context("a transaction was not undone")?
    }

    async fn waiting_in_database(&self) -> anyhow::Result<i64> {
        let waiting = sqlx::query_scalar(
            "select count(*) from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'",
        );
        Ok(waiting.fetch_one(&self.database).await?)
    }
}
