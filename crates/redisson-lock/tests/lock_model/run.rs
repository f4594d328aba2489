//! Takes the steps of one sequence, and holds what comes of them against the model.

use std::pin::pin;
use std::time::{Duration, Instant};

use faults::Fault;
use redisson_lock::{Guard, Lock, LockClient, LockError, LockOptions, Owner};
use tokio::task::{JoinHandle, yield_now};

use super::ground::Ground;
use super::model::{Entered, GrantId, Model, OwnerId, Verdict};
use super::steps::{Entry, LEASES, Pace, SLICE, Sequence, Step, Way};

/// How far the clock is moved at a time where somebody waits for it.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// A short wait for a lock.
const SHORTLY: Duration = Duration::from_millis(20);

type Answer = Result<Option<Guard>, LockError>;

pub struct Run<'a> {
    pub(super) ground: &'a mut Ground,
    pub(super) model: Model,
    pub(super) pattern: String,
    pub(super) names: Vec<String>,
    pub(super) clients: Vec<LockClient>,
    owners: [(OwnerId, Owner); 2],
    pub(super) guards: Vec<Held>,
    pub(super) waiters: Vec<Waiter>,
    /// Something is under way that nobody waits for.
    pub(super) restless: bool,
    /// Some connection was cut: what is done about it takes time.
    pub(super) shaky: bool,
    /// Some client may be in the pause that follows.
    pub(super) was_shaky: bool,
    pub(super) listened: bool,
}

pub(super) struct Held {
    pub(super) grant: GrantId,
    pub(super) guard: Guard,
    pub(super) client: usize,
    /// The client was shut down.
    pub(super) is_orphan: bool,
}

pub(super) struct Waiter {
    pub(super) entering: Entering,
    pub(super) task: JoinHandle<Answer>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Entering {
    pub(super) client: usize,
    pub(super) name: usize,
    pub(super) owner: OwnerId,
    lease: u8,
    fenced: bool,
}

async fn enter(lock: Lock, way: Way) -> Answer {
    match way {
        Way::Try => lock.try_acquire().await,
        Way::AtOnce => lock.acquire_within(Duration::ZERO).await,
        Way::Shortly => lock.acquire_within(SHORTLY).await,
        Way::Wait => lock.acquire().await.map(Some),
    }
}

pub(super) fn client_on(ground: &Ground, number: usize) -> LockClient {
    LockClient::new(ground.ways[number].redis.clone(), LockOptions::default())
}

impl<'a> Run<'a> {
    pub fn new(ground: &'a mut Ground, sequence: &Sequence) -> Self {
        let unique = uuid::Uuid::new_v4().simple();
        let mut model = Model::new(sequence.names);
        let clients: Vec<_> = (0..ground.ways.len()).map(|way| client_on(ground, way)).collect();
        let owners = [0, 1].map(|client: usize| {
            let owner = clients[client].owner();
            (model.new_owner(Some(owner.field().to_owned())), owner)
        });
        Self {
            ground,
            model,
            pattern: format!("*{unique}*"),
            names: (0..sequence.names).map(|name| format!("{unique}:{name}")).collect(),
            clients,
            owners,
            guards: Vec::new(),
            waiters: Vec::new(),
            restless: false,
            shaky: false,
            was_shaky: false,
            listened: false,
        }
    }

    pub async fn steps(mut self, sequence: &Sequence) -> Verdict {
        for (at, (step, hurried)) in sequence.steps.iter().enumerate() {
            let told = |problem| format!("step {at}, {step:?}: {problem}");
            self.step(*step).await.map_err(told)?;
            if !hurried {
                self.settle().await.map_err(told)?;
            }
        }
        self.end().await.map_err(|problem| format!("at the end: {problem}"))
    }

    async fn step(&mut self, step: Step) -> Verdict {
        self.collect().await?;
        match step {
            Step::Enter(entry, way, loss) => {
                let (lock, entering) = self.entering(entry);
                self.send(lock, entering, way, loss).await
            }
            Step::ReEnter(guard, entry) => self.re_enter(guard, entry).await,
            Step::CancelEnter(entry, way, polls, pace) => {
                let (lock, entering) = self.entering(entry);
                self.restless = true;
                let entered = self.partly(polls, pace, enter(lock, way)).await;
                match entered {
                    Some(answer) => self.answered(entering, answer, !matches!(way, Way::Wait)),
                    None => {
                        self.withdrawn(entering);
                        Ok(())
                    }
                }
            }
            Step::CancelWait(waiter) => self.cancel_wait(waiter).await,
            Step::Release(guard, loss) => self.release(guard, loss).await,
            Step::CancelRelease(guard, polls, pace) => {
                let Some(held) = self.take(guard, false) else { return Ok(()) };
                self.restless = true;
                match self.partly(polls, pace, held.guard.release()).await {
                    Some(answer) => self.released(held.grant, answer),
                    None => {
                        self.model.given_back(held.grant);
                        Ok(())
                    }
                }
            }
            Step::Drop(guard) => {
                if let Some(held) = self.take(guard, true) {
                    self.drop_guard(held);
                }
                Ok(())
            }
            Step::Expire(_) | Step::ForceRelease(_) | Step::TimePasses | Step::Ask(_) => {
                // Before or after what is under way makes a difference.
                self.settle().await?;
                self.happen(step).await
            }
            Step::Outage(client) | Step::Crash(client) => {
                self.settle().await?;
                self.cut(client.into(), matches!(step, Step::Crash(_))).await
            }
            Step::ShutDown(client) => self.shut_down(client.into()).await,
        }
    }

    pub(super) fn asked(&self, entry: Entry) -> (usize, Lock) {
        let name = usize::from(entry.name) % self.names.len();
        (name, self.clients[usize::from(entry.client)].lock(&self.names[name]))
    }

    fn entering(&mut self, entry: Entry) -> (Lock, Entering) {
        let (client, (name, mut lock)) = (entry.client.into(), self.asked(entry));
        let owner = match entry.shared_owner {
            Some(owner) => {
                let (id, owner) = &self.owners[usize::from(owner)];
                lock = lock.owned_by(owner);
                *id
            }
            None => self.model.new_owner(None),
        };
        let entering = Entering { client, name, owner, lease: entry.lease, fenced: entry.fenced };
        lock = lock.lease(LEASES[usize::from(entry.lease)]);
        (if entry.fenced { lock.fenced() } else { lock }, entering)
    }

    async fn re_enter(&mut self, guard: u8, entry: Entry) -> Verdict {
        let Some(at) = self.at(guard) else { return Ok(()) };
        let held = &self.guards[at];
        let (name, owner) = self.model.place(held.grant);
        let (client, lease, fenced) = (usize::from(entry.client), entry.lease, entry.fenced);
        let lock = self.clients[client].lock(&self.names[name]).owned_by(held.guard.owner());
        let lock = lock.lease(LEASES[usize::from(lease)]);
        let entering = Entering { client, name, owner, lease, fenced };
        self.send(if fenced { lock.fenced() } else { lock }, entering, Way::Try, None).await
    }

    async fn send(
        &mut self,
        lock: Lock,
        entering: Entering,
        way: Way,
        loss: Option<Fault>,
    ) -> Verdict {
        let client = entering.client;
        self.lose(client, loss);
        if let Way::Wait = way {
            self.listened = true;
            let task = tokio::spawn(enter(lock, way));
            self.waiters.push(Waiter { entering, task });
            yield_now().await;
            if loss.is_some() {
                self.ground.barrier().await;
            }
            self.recovered(client);
            return Ok(());
        }
        let answer = if let Way::Shortly = way {
            self.listened = true;
            self.moving(enter(lock, way)).await?
        } else {
            self.driven(enter(lock, way)).await?
        };
        self.recovered(client);
        self.answered(entering, answer, true)
    }

    /// An entry was answered; it `may_miss` or not.
    pub(super) fn answered(
        &mut self,
        entering: Entering,
        answer: Answer,
        may_miss: bool,
    ) -> Verdict {
        let Entering { client, name, owner, fenced, .. } = entering;
        let lease = LEASES[usize::from(entering.lease)];
        match answer {
            Ok(Some(guard)) => {
                let (validity, token) = (guard.validity(), guard.fence());
                let entered = Entered { client, name, owner, lease, validity, fenced, token };
                let grant = self.model.entered(entered)?;
                self.guards.push(Held { grant, guard, client, is_orphan: false });
                Ok(())
            }
            Ok(None) if may_miss => {
                let awaited = self.waiters.iter().any(|waiter| waiter.entering.name == name);
                let excused = self.restless || self.shaky || awaited;
                // Where an answer was lost, the owner may be in its own way, too.
                self.model.refused(name, owner, excused)
            }
            Err(error) if self.shaky && error.retry_may_help() => {
                self.restless = true;
                self.withdrawn(entering);
                Ok(())
            }
            other => Err(format!("{entering:?} was answered {other:?}")),
        }
    }

    pub(super) fn withdrawn(&mut self, entering: Entering) {
        let lease = LEASES[usize::from(entering.lease)];
        self.model.withdrawn(entering.name, entering.owner, lease);
    }

    async fn cancel_wait(&mut self, number: u8) -> Verdict {
        if self.waiters.is_empty() {
            return Ok(());
        }
        let waiter = self.waiters.remove(usize::from(number) % self.waiters.len());
        waiter.task.abort();
        self.restless = true;
        match waiter.task.await {
            Ok(answer) => self.answered(waiter.entering, answer, false),
            Err(_) => {
                self.withdrawn(waiter.entering);
                Ok(())
            }
        }
    }

    async fn release(&mut self, guard: u8, loss: Option<Fault>) -> Verdict {
        let Some(held) = self.take(guard, loss.is_none()) else { return Ok(()) };
        self.lose(held.client, loss);
        let answer = self.driven(held.guard.release()).await?;
        self.recovered(held.client);
        self.released(held.grant, answer)
    }

    fn released(&mut self, grant: GrantId, answer: Result<(), LockError>) -> Verdict {
        match answer {
            Ok(()) => self.model.left(grant, true),
            Err(LockError::NotHeld(_)) => self.model.left(grant, false),
            Err(error) if self.shaky && error.retry_may_help() => {
                self.restless = true;
                self.model.given_back(grant);
                Ok(())
            }
            Err(error) => Err(format!("a release failed: {error}")),
        }
    }

    pub(super) fn drop_guard(&mut self, held: Held) {
        if held.is_orphan {
            self.model.abandoned(held.grant);
        } else {
            self.restless = true;
            self.model.given_back(held.grant);
        }
    }

    fn at(&self, guard: u8) -> Option<usize> {
        usize::from(guard).checked_rem(self.guards.len())
    }

    /// A guard; if its client was shut down, only where that makes no difference.
    fn take(&mut self, guard: u8, orphans: bool) -> Option<Held> {
        let at = self.at(guard).filter(|at| orphans || !self.guards[*at].is_orphan)?;
        Some(self.guards.remove(at))
    }

    /// Polls so often, and drops. What came of it, if it came to its end.
    async fn partly<T>(&self, polls: u8, pace: Pace, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        for _ in 0..polls {
            if let std::task::Poll::Ready(answer) = futures_util::poll!(&mut future) {
                return Some(answer);
            }
            match pace {
                Pace::Yield => yield_now().await,
                // Not on the connection of the future: it may be in the midst of making it.
                Pace::RoundTrip => self.ground.round_trip().await,
            }
        }
        None
    }

    /// Waits for it. After a lost connection that takes time: then the clock is moved.
    pub(super) async fn driven<T>(&mut self, future: impl Future<Output = T>) -> Verdict<T> {
        if self.shaky { self.moving(future).await } else { Ok(future.await) }
    }

    /// Waits for it, and moves the clock as long as it does not come.
    async fn moving<T>(&mut self, future: impl Future<Output = T>) -> Verdict<T> {
        let mut future = pin!(future);
        let begun = Instant::now();
        for round in 0.. {
            tokio::select! {
                biased;
                answer = &mut future => return Ok(answer),
                () = self.ground.barrier() => {}
            }
            if round >= 1 {
                self.tick(TICK).await;
            }
            if begun.elapsed() > self.ground.patience {
                break;
            }
        }
        Err("it does not come to its end".to_owned())
    }

    async fn end(mut self) -> Verdict {
        self.settle().await?;
        for waiter in std::mem::take(&mut self.waiters) {
            self.withdrawn(waiter.entering);
            waiter.task.abort();
        }
        self.restless = true;
        let mut dropped = false;
        while let Some(held) = self.take(0, true) {
            dropped = !dropped;
            if dropped {
                self.drop_guard(held);
            } else {
                let answer = self.driven(held.guard.release()).await?;
                self.released(held.grant, answer)?;
            }
        }
        for client in self.clients.clone() {
            self.driven(client.shutdown()).await?;
        }
        self.settle().await?;
        // What crashed clients held ends with its lease.
        self.time_passes(SLICE * 3).await?;
        self.settle().await?;
        let kept = self.ground.sweep(&self.pattern).await;
        if !kept.is_empty() {
            return Err(format!("for ever in Redis: {kept:?}"));
        }
        let ground = self.forget();
        ground.until_no_task_is_left().await
    }

    fn forget(self) -> &'a mut Ground {
        self.ground
    }
}
