//! The faults of a game: the end of a lease, a kill, a pause; and what a kill has left behind at the end: the leases of
//! the dead end, whoever waits goes on, and the user of the dead asks again.

use anyhow::{Context, bail};

use super::play::{Game, LEASE_OF_THE_PAUSED, Mover, request_of};
use super::schedule::{CONSUMER, Step, TIME};
use super::setting::FIRST_NODE;
use crate::judge::Breach;
use crate::looks::{LeaseEnd, tell_waiters, until};
use crate::scheduler::{Act, ActorRecord, ActorState, Attempt, PATIENCE};
use crate::told::{Event, Witness};
use ladder::{Answer, Invariant, LockKind};

/// The buyer who comes again: the user of a process that was killed, or one whose answer was lost.
const AGAIN: &str = "A2";

impl Game<'_> {
    /// Ends the lease on the next of the lock's servers. A buyer that waits looks again, as at a real
    /// end; it comes in when enough servers know of no holder.
    pub(super) async fn end_lease(&mut self) -> anyhow::Result<()> {
        let user = self.lease_that_can_end().await?;
        let user = user.context("there is no lock whose lease could end")?;
        let server = self.leases_ended;
        self.driver.scheduler.expire(user, server).await?;
        self.leases_ended += 1;
        self.driver.scheduler.log.say(Event::LeaseEndsOn { redis: self.leases_ended });
        self.moved(Mover::Lab);
        if self.leases_ended >= self.plan.rung.quorum() {
            self.driver.nobody_has_the_lock();
        }
        self.tell_waiters(server).await
    }

    /// The user whose lock has a lease on the server where the next one can end, if any has.
    pub(super) async fn lease_that_can_end(&self) -> anyhow::Result<Option<i64>> {
        let Some(redis) = self.redis.get(self.leases_ended) else { return Ok(None) };
        for user in 0..i64::from(self.plan.users) {
            let key = self.driver.scheduler.lock_key(user)?;
            if redis.query::<i64>(redis::cmd("PTTL").arg(key)).await? > 0 {
                return Ok(Some(user));
            }
        }
        Ok(None)
    }

    pub(super) async fn kill(&mut self, place: usize) -> anyhow::Result<()> {
        let node = match place {
            CONSUMER => FIRST_NODE,
            TIME => {
                self.driver.scheduler.nobody_else_pays();
                FIRST_NODE
            }
            nth => self.driver.node(nth),
        };
        self.driver.kill(node).await?;
        self.moved(Mover::Lab);
        Ok(())
    }

    /// The buyer who bought, unless the answer was lost already.
    pub(super) fn bought(&self) -> Option<usize> {
        let is_spent = self.steps.contains(&Step::SendAgain);
        let has_order = |nth: &usize| {
            matches!(self.driver.record(*nth).answer, Some(Act::Done(Answer::Ordered(_))))
        };
        (0..self.driver.count()).find(|nth| !is_spent && has_order(nth))
    }

    /// The answer to whoever bought is lost, and the client sends the request again.
    pub(super) async fn send_again(&mut self) -> anyhow::Result<()> {
        let nth = self.bought().context("nobody has bought")?;
        let ActorRecord { name, ref answer, .. } = *self.driver.record(nth);
        let (heard, node) = (answer.clone(), self.driver.node(nth));
        let (scheduler, user) = (&mut self.driver.scheduler, self.plan.user(nth));
        let voucher = *scheduler.vouchers.first().context("nothing is on sale")?;
        let request = Some(request_of(nth, voucher));
        scheduler.log.say(Event::AnswerLost { actor: name, again: AGAIN });
        let again = Attempt { request, ..Attempt::new(user, voucher) };
        let again = scheduler.enter(AGAIN, node, again).await?;
        let told = scheduler.finish(again).await?;
        if let (Some(Act::Done(first)), Act::Done(second)) = (heard, told)
            && first != second
        {
            scheduler.log.broken(Witness::OtherAnswer { first, second });
        }
        // It is the same order: nobody was told of two.
        scheduler.unheard(again);
        self.moved(Mover::Lab);
        Ok(())
    }

    pub(super) async fn pause(&mut self, nth: usize) -> anyhow::Result<()> {
        let node = self.driver.node(nth);
        self.driver.scheduler.pause(node)?;
        self.stopped = Some(node);
        self.lease_ends_by_itself(self.plan.user(nth)).await?;
        self.driver.nobody_has_the_lock();
        self.moved(Mover::Lab);
        Ok(())
    }

    /// After a kill the user comes again, for another voucher: also where somebody was served, a lock may be left
    /// that keeps it out.
    pub(super) async fn locked_out(&mut self, never_ends: bool) -> anyhow::Result<Option<Breach>> {
        let survivor = self.driver.those(|state| state != ActorState::Killed).next();
        let node = self.driver.node(survivor.context("no process is left")?);
        let scheduler = &mut self.driver.scheduler;
        let (user, voucher) = (self.plan.user(0), scheduler.voucher(1).await?);
        let again = Attempt { patience: PATIENCE / 10, ..Attempt::new(user, voucher) };
        let again = scheduler.enter(AGAIN, node, again).await?;
        scheduler.finish_all(&[again]).await?;
        let witness = Witness::locked_out(user + 1, never_ends);
        let breach = Breach { invariant: Invariant::NoLockout, witness };
        Ok((!scheduler.is_served(again)).then_some(breach))
    }

    /// The lease of the dead ends, and those that wait go on. Returns whether there is a lock that never ends.
    pub(super) async fn go_on_after_kill(&mut self) -> anyhow::Result<bool> {
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
    async fn tell_waiters(&self, server: usize) -> anyhow::Result<()> {
        for nth in self.driver.those(|state| state == ActorState::QueuedInProcess) {
            let key = self.driver.scheduler.lock_key(self.plan.user(nth))?;
            tell_waiters(&self.redis[server], &key).await?;
        }
        Ok(())
    }

    /// Waits until the leases of a process that does not run have ended on every server of the lock.
    async fn lease_ends_by_itself(&mut self, user: i64) -> anyhow::Result<()> {
        if self.plan.rung.lock == LockKind::ZooKeeper {
            if self.driver.scheduler.lease_over(user).await? != LeaseEnd::Ended {
                bail!("the session of a process that does not run was kept");
            }
            return Ok(());
        }
        let key = self.driver.scheduler.lock_key(user)?;
        for redis in &self.redis {
            // A waiter may have taken the lock at once, for longer than that.
            let is_over = || async {
                let left_ms: i64 = redis.query(redis::cmd("PTTL").arg(&key)).await?;
                Ok(left_ms < 0 || left_ms > LEASE_OF_THE_PAUSED.as_millis() as i64)
            };
            until("a lease does not end", is_over).await?;
        }
        self.driver.scheduler.log.say(Event::LeaseEnds);
        Ok(())
    }
}
