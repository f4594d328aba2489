//! The ends of leases, and what becomes of a user whose lock a dead process has left.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::time::{sleep, timeout};

use super::run::ScheduleRunner;
use super::runners::Runner;
use super::schedule::ExploreStep;
use super::setting::LEASE_OF_THE_PAUSED;
use super::verdict::{BrokenBySchedule, judge_schedule};
use super::walk::default_choice;
use crate::leases::{LeaseEnd, tell_waiters};
use crate::scheduler::{ActorState, PATIENCE};
use crate::told::Event;
use ladder::{Invariant, LockKind};
use redisson_lock::connection::Redis;

/// How often Redis is asked whether a lease has ended.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl ScheduleRunner<'_> {
    /// Waits until the leases have ended on every server of the lock.
    pub(super) async fn lease_ends_by_itself(&mut self) -> anyhow::Result<()> {
        let user = self.setting.from.user(0);
        if self.setting.rung.lock == LockKind::ZooKeeper {
            if self.driver.scheduler.lease_over(user).await? != LeaseEnd::Ended {
                bail!("the session of a process that does not run was kept");
            }
            return Ok(());
        }
        let key = self.driver.scheduler.lock_key(user)?;
        for redis in &self.redis {
            until_lease_ended(redis, &key).await?;
        }
        self.driver.scheduler.say(Event::LeaseEnds);
        Ok(())
    }

    /// Ends the leases on every server of the lock, without waiting for them.
    pub(super) async fn end_leases(&mut self) -> anyhow::Result<()> {
        let key = self.driver.scheduler.lock_key(self.setting.from.user(0))?;
        // A majority may have been enough for the holder (r15).
        let mut ended = 0;
        for redis in &self.redis {
            ended += redis.query::<i64>(redis::cmd("PEXPIRE").arg(&key).arg(1)).await?;
            until_lease_ended(redis, &key).await?;
        }
        ensure!(ended > 0, "there is no lock whose lease could end");
        self.driver.scheduler.say(Event::LeaseEndsAsInTime);
        Ok(())
    }

    /// After a kill: the lease ends, and those that wait go on. Returns whether there is a lock that
    /// never ends.
    pub(super) async fn go_on_after_kill(&mut self) -> anyhow::Result<bool> {
        let never_ends = self.end_what_the_dead_hold().await?;
        self.run_those_set_free().await?;
        loop {
            let steps = self.possible();
            let Some(step) = default_choice(&steps, &[]) else { break };
            self.take(step).await?;
        }
        Ok(never_ends)
    }

    /// What is broken after the last step, where a dead holder is given its time.
    pub(super) async fn judge_at_the_end(
        &mut self,
        voucher: i64,
    ) -> anyhow::Result<Vec<BrokenBySchedule>> {
        if self.setting.from.has_unpaid_order() {
            return self.judge_payments(voucher).await;
        }
        let killed =
            matches!(self.fault, Some(ExploreStep::Kill(_))) && !self.setting.rung.has_consumer();
        let never_ends = killed && self.go_on_after_kill().await?;
        let promises = self.promises_not_kept().await?;
        let mut broken = judge_schedule(&self.driver.scheduler, voucher).await?;
        broken.extend(promises.into_iter().chain(self.deadlocked()));
        if killed {
            broken.extend(self.locked_out(never_ends).await?);
        }
        Ok(broken)
    }

    pub(super) async fn locked_out(
        &mut self,
        never_ends: bool,
    ) -> anyhow::Result<Option<BrokenBySchedule>> {
        let survivor = self.driver.those(|state| state != ActorState::Killed).next();
        let node = self.driver.node(survivor.context("no process is left")?);
        let user = self.setting.from.user(0);
        let witness = self.driver.scheduler.locked_out("again", node, user, never_ends).await?;
        let invariant = Invariant::NoLockout;
        Ok(witness.map(|witness| BrokenBySchedule { invariant, witness }))
    }

    /// Ends the leases of a holder that was killed, as time would: nobody renews them. Returns whether
    /// there is a lock that has none.
    async fn end_what_the_dead_hold(&mut self) -> anyhow::Result<bool> {
        let left_a_lock = self
            .driver
            .those(|state| state == ActorState::Killed)
            .any(|nth| self.driver.has_lock(nth));
        if !left_a_lock {
            return Ok(false);
        }
        let user = self.setting.from.user(0);
        if self.setting.rung.lock == LockKind::ZooKeeper {
            self.driver.scheduler.lease_over(user).await?;
            self.driver.nobody_has_the_lock();
            return Ok(false);
        }
        let key = self.driver.scheduler.lock_key(user)?;
        for redis in &self.redis {
            if redis.query::<i64>(redis::cmd("PTTL").arg(&key)).await? == -1 {
                self.driver.scheduler.say(Event::NoLease);
                return Ok(true);
            }
        }
        self.end_leases().await?;
        for redis in &self.redis {
            tell_waiters(redis, &key).await?;
        }
        self.driver.nobody_has_the_lock();
        Ok(false)
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
