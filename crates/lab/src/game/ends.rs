//! The ends of leases; and what becomes of all that is left when nobody can take a step any more: the consumers that
//! live write it, leases end, and whoever waits or was promised something asks again.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{sleep, timeout};

use super::play::{Game, LEASE_OF_THE_PAUSED, Mover};
use super::schedule::Step;
use crate::judge::{Books, Breach, broken_promises};
use crate::leases::{LeaseEnd, tell_waiters};
use crate::scheduler::{ActorState, PATIENCE};
use crate::told::{Event, Several, Witness};
use ladder::{Invariant, LockKind};
use redisson_lock::connection::Redis;

/// How often Redis is asked whether a lease has ended.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The user of a process that was killed, who comes again.
const AGAIN: &str = "A2";

impl Game<'_> {
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
            invariant: Invariant::NoBrokenPromise,
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

    async fn locked_out(&mut self, never_ends: bool) -> anyhow::Result<Option<Breach>> {
        let survivor = self.driver.those(|state| state != ActorState::Killed).next();
        let node = self.driver.node(survivor.context("no process is left")?);
        let scheduler = &mut self.driver.scheduler;
        let witness = scheduler.locked_out(AGAIN, node, self.plan.user(0), never_ends).await?;
        Ok(witness.map(|witness| Breach { invariant: Invariant::NoLockout, witness }))
    }

    /// The lease of the dead ends, and those that wait go on. Returns whether there is a lock that never ends.
    async fn go_on_after_kill(&mut self) -> anyhow::Result<bool> {
        let never_ends = self.end_what_the_dead_hold().await?;
        self.moved(Mover::Lab);
        self.run_those_set_free().await?;
        loop {
            let next = self.driver.those(ActorState::can_go_on).next();
            let Some(nth) = next else { return Ok(never_ends) };
            self.act(Step::Go(nth)).await?;
        }
    }

    /// Ends the leases of a holder that was killed, as time would: nobody renews them. Returns whether
    /// there is a lock that has none.
    async fn end_what_the_dead_hold(&mut self) -> anyhow::Result<bool> {
        let mut dead = self.driver.those(|state| state == ActorState::Killed);
        let holder = dead.find(|nth| self.driver.has_lock(*nth));
        drop(dead);
        let Some(user) = holder.map(|nth| self.plan.user(nth)) else { return Ok(false) };
        if self.plan.rung.lock == LockKind::ZooKeeper {
            self.driver.scheduler.lease_over(user).await?;
            self.driver.nobody_has_the_lock();
            return Ok(false);
        }
        let key = self.driver.scheduler.lock_key(user)?;
        for (server, redis) in self.redis.iter().enumerate() {
            // A majority may have been enough for the holder (r15).
            match redis.query::<i64>(redis::cmd("PTTL").arg(&key)).await? {
                -1 => {
                    self.driver.scheduler.log.say(Event::NoLease);
                    return Ok(true);
                }
                left_ms if left_ms > 0 => self.driver.scheduler.expire(user, server).await?,
                _ => {}
            }
        }
        self.driver.scheduler.log.say(Event::LeaseEndsAsInTime);
        for server in 0..self.redis.len() {
            self.tell_waiters(server).await?;
        }
        self.driver.nobody_has_the_lock();
        Ok(false)
    }

    /// Has those that wait in their processes look again on a server of the lock.
    pub(super) async fn tell_waiters(&self, server: usize) -> anyhow::Result<()> {
        for nth in self.driver.those(|state| state == ActorState::QueuedInProcess) {
            let key = self.driver.scheduler.lock_key(self.plan.user(nth))?;
            tell_waiters(&self.redis[server], &key).await?;
        }
        Ok(())
    }

    /// Waits until the leases of a process that does not run have ended on every server of the lock.
    pub(super) async fn lease_ends_by_itself(&mut self, user: i64) -> anyhow::Result<()> {
        if self.plan.rung.lock == LockKind::ZooKeeper {
            if self.driver.scheduler.lease_over(user).await? != LeaseEnd::Ended {
                bail!("the session of a process that does not run was kept");
            }
            return Ok(());
        }
        let key = self.driver.scheduler.lock_key(user)?;
        for redis in &self.redis {
            until_lease_ended(redis, &key).await?;
        }
        self.driver.scheduler.log.say(Event::LeaseEnds);
        Ok(())
    }
}

/// Waits until a lease that nobody renews has ended. A waiter may have taken the lock at once, for
/// longer than that.
async fn until_lease_ended(redis: &Redis, key: &str) -> anyhow::Result<()> {
    let ended = async {
        loop {
            let left_ms: i64 = redis.query(redis::cmd("PTTL").arg(key)).await?;
            if left_ms < 0 || left_ms > LEASE_OF_THE_PAUSED.as_millis() as i64 {
                return anyhow::Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(PATIENCE, ended).await.context("a lease does not end")?
}
