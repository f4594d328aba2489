//! Comes to rest, and compares.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::model::Verdict;
use super::run::{Run, TICK, Waiter};
use futures_util::FutureExt;

/// After a lost connection: as long as the client pauses before it makes another, and more
/// often than it tries.
const RECOVERY: Duration = Duration::from_millis(500);
const RECOVERIES: usize = 5;

/// Ticks for a pause that began late; too few for a waiter to wake by itself.
const LATE_ROUNDS: usize = 60;

/// As long as a waiter sleeps that nobody wakes.
const SLEEP: Duration = Duration::from_secs(10);

impl Run<'_> {
    /// Those who waited and got an answer.
    pub(super) async fn collect(&mut self) -> Verdict {
        while let Some(at) = self.waiters.iter().position(|waiter| waiter.task.is_finished()) {
            let waiter = self.waiters.remove(at);
            let answer = waiter.task.await.map_err(|error| error.to_string())?;
            self.answered(waiter.entering, answer, false)?;
        }
        Ok(())
    }

    /// Until nothing is under way, and all is as it must be.
    ///
    /// Nothing here needs time to pass: what is woken by a message is not helped by its
    /// lease's end. Only after a lost connection, and where Redis forgot a lock without a
    /// word, the clock is moved.
    pub(super) async fn settle(&mut self) -> Verdict {
        if self.restless || !self.waiters.is_empty() {
            // First what was under way, then what cleans up after it.
            self.ground.barrier().await;
            self.ground.barrier().await;
        }
        for _ in 0..if self.shaky { RECOVERIES } else { 0 } {
            self.tick(RECOVERY).await;
            self.ground.barrier().await;
        }
        let begun = Instant::now();
        for round in 0.. {
            self.collect().await?;
            let Err(problem) = self.compare().await else { break };
            if begun.elapsed() > self.ground.patience {
                return Err(problem);
            }
            self.ground.barrier().await;
            if round < 3 {
                continue;
            }
            if self.shaky {
                self.tick(TICK).await;
            } else if self.waiters.iter().any(|waiter| self.must_sleep(waiter)) {
                self.tick(SLEEP).await;
            } else if self.was_shaky && round < LATE_ROUNDS {
                // The loss of a connection on which nobody waited is noticed when it is.
                self.tick(TICK).await;
            }
        }
        (self.restless, self.shaky) = (false, false);
        self.model.settled();
        Ok(())
    }

    async fn compare(&mut self) -> Verdict {
        let seen = self.ground.look(&self.names).await;
        self.model.compare(&seen)?;
        if let Some(waiter) = self.waiters.iter().find(|waiter| self.is_awaited(waiter)) {
            let name = waiter.entering.name;
            let listeners = self.ground.listeners(&self.names).await;
            return Err(format!(
                "{:?} sleeps, and may enter; {listeners:?} listen; {:?}, told {}",
                waiter.entering,
                self.model.holder(name),
                self.model.is_told(name, waiter.entering.client),
            ));
        }
        for held in &self.guards {
            self.model.compare_loss(held.grant, held.guard.is_lost())?;
            self.model.compare_loss(held.grant, held.guard.lost().now_or_never().is_some())?;
        }
        self.compare_listeners().await
    }

    /// Each client listens to the names that somebody of it waits for, on one connection.
    async fn compare_listeners(&mut self) -> Verdict {
        if !self.listened {
            return Ok(());
        }
        let listeners = self.ground.listeners(&self.names).await;
        let waiting = |name: usize| {
            let there = self.waiters.iter().filter(move |waiter| waiter.entering.name == name);
            there.map(|waiter| waiter.entering.client).collect::<HashSet<_>>().len() as i64
        };
        let waited: Vec<i64> = (0..self.names.len()).map(waiting).collect();
        if waited != listeners {
            return Err(format!("{listeners:?} listen, {waited:?} have somebody who waits"));
        }
        self.listened = !self.waiters.is_empty();
        Ok(())
    }

    fn must_sleep(&self, waiter: &Waiter) -> bool {
        let (name, client) = (waiter.entering.name, waiter.entering.client);
        self.is_awaited(waiter) && !self.model.is_told(name, client)
    }

    fn is_awaited(&self, waiter: &Waiter) -> bool {
        self.model.may_enter(waiter.entering.name, waiter.entering.owner)
    }
}
