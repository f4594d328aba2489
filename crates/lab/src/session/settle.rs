//! A process is killed, and what becomes of all that is left when nobody can take a step any more: the
//! consumers that live write it, leases end, and whoever waits or was promised something asks again.

use anyhow::Context;

use super::play::{CONSUMER, LabSession, StepError, StepRefusal};
use crate::judge::Books;
use crate::scheduler::{ActorState, NodeIndex};
use crate::told::Event;
use ladder::{Capability, Invariant, LockKind, Rung};

/// The process that can be killed, and the one that goes on.
pub(super) const KILLED_NODE: NodeIndex = NodeIndex(0);
const LIVING_NODE: NodeIndex = NodeIndex(1);

/// The first user, who comes again after a kill.
const AGAIN: &str = "A2";

/// Whether a kill of a process ever shows something on the rung: it has a lock or a consumer, and more than one
/// step. A session with ZooKeeper would take its time to end.
pub fn can_be_killed(rung: &Rung) -> bool {
    let is_at_stake = !matches!(rung.lock, LockKind::NoLock | LockKind::ZooKeeper);
    is_at_stake && !rung.can(Capability::OneStep)
}

impl LabSession<'_> {
    /// Whether everything that was left has been done.
    pub(super) fn is_settled(&self) -> bool {
        self.broken_at_the_end.is_some()
    }

    pub(super) fn consumer_can_step(&self) -> bool {
        !self.is_settled() && self.driver.consumer_can_go_on()
    }

    /// Whether no buyer and no consumer will do anything more.
    pub(super) fn is_over(&self) -> bool {
        let buyers = [0, 1].into_iter().all(|nth| self.driver.state(nth).is_over());
        self.is_settled() || buyers && !self.driver.consumer_can_go_on()
    }

    /// Whether a kill of the first process would show something now: it is not everybody's, and somebody has
    /// begun; where a lock is at stake, a buyer in it that another one competes with.
    pub(super) fn can_kill(&self) -> bool {
        let rung = self.plan.rung;
        let has_begun = |nth: usize| self.driver.state(nth) != ActorState::NotBegun;
        let at_stake = match rung.has_consumer() {
            true => has_begun(0) || has_begun(1),
            false => self.plan.users == 1 && has_begun(0) && !self.driver.state(0).is_over(),
        };
        let is_possible = self.plan.processes == 2 && !self.killed && !self.is_settled();
        is_possible && at_stake && can_be_killed(rung)
    }

    /// Kills the first process.
    pub(super) async fn kill(&mut self) -> Result<(), StepError> {
        if !self.can_kill() {
            return Err(StepRefusal::NoKill.into());
        }
        let was_over = self.driver.state(0).is_over();
        self.driver.kill(KILLED_NODE).await?;
        self.killed = true;
        if !was_over {
            self.places[0] = ("killed", None);
        }
        self.places[CONSUMER] = ("killed", None);
        self.tell_what_happened("killed");
        Ok(self.run_those_set_free().await?)
    }

    /// Whether nobody can take a step, and something may be left all the same.
    pub(super) fn is_at_its_end(&self) -> bool {
        let leaves_something = self.killed || self.plan.rung.has_consumer();
        let can_step = self.driver.those(ActorState::can_go_on).next().is_some();
        leaves_something && !self.is_settled() && !can_step && !self.driver.consumer_can_go_on()
    }

    /// Everything works and has its time. Afterwards nothing happens any more.
    pub(super) async fn settle(&mut self) -> anyhow::Result<()> {
        let killed = self.killed && !self.plan.rung.has_consumer();
        let never_ends = killed && self.go_on_after_kill().await?;
        self.driver.scheduler.settle().await?;
        self.tell_what_happened("at_the_end");
        let voucher = *self.driver.scheduler.vouchers.first().context("nothing is on sale")?;
        let books = Books::of(&self.driver.scheduler, voucher).await?;
        let mut broken = self.broken_now(&books, false);
        let has_promise = broken.iter().any(|it| it.invariant == Invariant::NoBrokenPromise);
        if let Some(why) = self.driver.scheduler.breaches().first().filter(|_| !has_promise) {
            broken.push(self.broken_promise(Invariant::NoBrokenPromise, why.clone()));
        }
        if killed {
            let scheduler = &mut self.driver.scheduler;
            let witness = scheduler.locked_out(AGAIN, LIVING_NODE, 0, never_ends).await?;
            self.tell_what_happened("at_the_end");
            broken.extend(witness.map(|why| self.broken_promise(Invariant::NoLockout, why)));
        }
        self.broken_at_the_end = Some(broken);
        Ok(())
    }

    /// The lease of the dead ends, and those that wait go on. Returns whether there is a lock that never ends.
    async fn go_on_after_kill(&mut self) -> anyhow::Result<bool> {
        let never_ends = self.end_what_the_dead_hold().await?;
        self.tell_what_happened("at_the_end");
        self.run_those_set_free().await?;
        loop {
            let next = self.driver.those(ActorState::can_go_on).next();
            let Some(nth) = next else { return Ok(never_ends) };
            match self.go_on(nth).await {
                Ok(()) => {}
                Err(StepError::Failed(error)) => return Err(error),
                Err(StepError::Refused(refusal)) => return Err(refusal.into()),
            }
        }
    }

    async fn end_what_the_dead_hold(&mut self) -> anyhow::Result<bool> {
        let is_killed = |state| state == ActorState::Killed;
        let has_lock = self.driver.those(is_killed).any(|nth| self.driver.has_lock(nth));
        if !has_lock {
            return Ok(false);
        }
        let key = self.driver.scheduler.lock_key(self.user(0))?;
        let servers = 0..self.driver.scheduler.servers.redis_urls.len();
        for server in servers.clone() {
            match self.lease_on(server, &key).await? {
                -1 => {
                    self.driver.scheduler.say(Event::NoLease);
                    return Ok(true);
                }
                left_ms if left_ms > 0 => {
                    self.driver.scheduler.expire(self.user(0), server).await?;
                }
                _ => {}
            }
        }
        self.driver.scheduler.say(Event::LeaseEndsAsInTime);
        for server in servers {
            self.locks.tell_waiters(server, &key).await?;
        }
        self.driver.nobody_has_the_lock();
        Ok(false)
    }

    async fn lease_on(&self, server: usize, key: &str) -> anyhow::Result<i64> {
        let redis = self.locks.redis(server).context("the lock has no such server")?;
        Ok(redis.query(redis::cmd("PTTL").arg(key)).await?)
    }
}
