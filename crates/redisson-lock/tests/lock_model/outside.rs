//! What happens to locks from outside: time, Redis, the network, and the end of a client.

use std::time::Duration;

use faults::Fault;
use redisson_lock::LockError;
use tokio::time::advance;

use super::model::Verdict;
use super::run::{Run, Waiter, client_on};
use super::steps::{SLICE, Step};

impl Run<'_> {
    pub(super) async fn happen(&mut self, step: Step) -> Verdict {
        match step {
            Step::Expire(name) => {
                let name = usize::from(name) % self.names.len();
                let mut command = redis::cmd("PEXPIRE");
                command.arg(&self.names[name]).arg(0);
                let existed: bool = self.ground.probe.query(&command).await.unwrap();
                if self.model.freed(name, true) != existed {
                    return Err(format!("in Redis the lock {name} is there: {existed}"));
                }
            }
            Step::ForceRelease(entry) => {
                let (name, lock) = self.asked(entry);
                let freed = self.driven(lock.force_release()).await?;
                let was_held = self.model.freed(name, false);
                if !freed.as_ref().is_ok_and(|freed| *freed == was_held) {
                    return Err(format!("freed: {freed:?}, was held: {was_held}"));
                }
            }
            Step::Ask(entry) => {
                let (name, lock) = self.asked(entry);
                let state = self.driven(lock.state()).await?.map_err(|error| error.to_string())?;
                let told = state.as_ref().map(|state| (state.owner.as_str(), state.holds as i64));
                let known = self.model.holder(name);
                if told != known.map(|(owner, holds)| (owner.unwrap_or_default(), holds)) {
                    return Err(format!("told {told:?}, known {known:?}"));
                }
            }
            _ => self.time_passes(SLICE).await?,
        }
        Ok(())
    }

    pub(super) async fn time_passes(&mut self, passed: Duration) -> Verdict {
        // A try that a waiter is making just now takes the leap for a server that is silent.
        self.was_shaky |= !self.waiters.is_empty();
        self.ground.age(&self.pattern, passed).await;
        self.model.redis_time(passed);
        self.tick(passed).await;
        self.ground.barrier().await;
        self.collect().await
    }

    /// The clients' clock moves.
    pub(super) async fn tick(&mut self, passed: Duration) {
        advance(passed).await;
        self.model.time(passed);
    }

    pub(super) async fn cut(&mut self, client: usize, for_good: bool) -> Verdict {
        if !self.ground.break_by(client, Fault::Down) {
            return Ok(());
        }
        (self.restless, self.shaky, self.was_shaky) = (true, true, true);
        self.model.connections_are_lost = true;
        // The proxy is told, and does it when it comes to it.
        while self.ground.ways[client].redis.ping().await.is_ok() {}
        if !for_good {
            self.ground.break_by(client, Fault::None);
            return Ok(());
        }
        let is_mine = |waiter: &mut Waiter| waiter.entering.client == client;
        let mine: Vec<Waiter> = self.waiters.extract_if(.., is_mine).collect();
        for waiter in mine {
            waiter.task.abort();
            if waiter.task.await.is_ok() {
                return Err("somebody entered where nobody could".to_owned());
            }
        }
        for held in self.guards.extract_if(.., |held| held.client == client) {
            self.model.abandoned(held.grant);
        }
        // Whatever the old client still tries, it tries in vain.
        self.ground.ways[client] = self.ground.new_way().await;
        self.clients[client] = client_on(self.ground, client);
        Ok(())
    }

    pub(super) async fn shut_down(&mut self, client: usize) -> Verdict {
        self.collect().await?;
        let locks = self.clients[client].clone();
        self.driven(locks.shutdown()).await?;
        let mine = |waiter: &Waiter| waiter.entering.client == client;
        for at in (0..self.waiters.len()).rev() {
            if !mine(&self.waiters[at]) {
                continue;
            }
            let waiter = self.waiters.remove(at);
            match self.driven(waiter.task).await?.map_err(|error| error.to_string())? {
                Err(LockError::ShutDown) => self.withdrawn(waiter.entering),
                other => self.answered(waiter.entering, other, false)?,
            }
        }
        self.guards
            .iter_mut()
            .filter(|held| held.client == client)
            .for_each(|held| held.is_orphan = true);
        self.clients[client] = client_on(self.ground, client);
        Ok(())
    }

    pub(super) fn lose(&mut self, client: usize, loss: Option<Fault>) {
        if loss.is_some_and(|fault| self.ground.break_by(client, fault)) {
            self.model.connections_are_lost = true;
            (self.restless, self.shaky, self.was_shaky) = (true, true, true);
        }
    }

    pub(super) fn recovered(&mut self, client: usize) {
        self.ground.break_by(client, Fault::None);
    }
}
