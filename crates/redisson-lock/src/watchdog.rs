//! The watchdog renews one grant's lease while its guard lives, and says when it is lost.
//!
//! Most locks are released long before their first renewal is due. Until then a grant is an entry in
//! its client's schedule ([`Watchdogs`]); only then a task of its own is started for it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::claim::Claim;
use super::options::Lease;
use super::reconnect;
use super::renewals::{Renewal, RenewalState};
use super::validity::Validity;
use redis_link::Redis;

/// The watchdogs of one client.
#[derive(Debug)]
pub(super) struct Watchdogs {
    state: Arc<RenewalState>,
    stopped: CancellationToken,
}

impl Watchdogs {
    pub(super) fn start(redis: Redis) -> Self {
        let (schedule, sooner) = (Mutex::default(), Notify::new());
        let state = Arc::new(RenewalState { redis, schedule, sooner });
        let stopped = CancellationToken::new();
        let (end, scheduler) = (stopped.clone(), Scheduler(Arc::clone(&state)));
        tokio::spawn(async move {
            tokio::select! {
                () = scheduler.0.run() => {}
                () = reconnect::watch(&scheduler.0) => {}
                () = end.cancelled() => {}
            }
        });
        Self { state, stopped }
    }

    /// Whether the runtime has ended on which leases were renewed.
    pub(super) fn have_ended(&self) -> bool {
        self.state.schedule().ended
    }

    /// Stops the scheduler. Guards that live on have tasks of their own from now on.
    pub(super) fn stop(&self) {
        let mut schedule = self.state.schedule();
        schedule.stopped = true;
        self.stopped.cancel();
        while let Some(((_, number), renewal)) = schedule.due.pop_first() {
            schedule.running.insert(number, renewal.start(&self.state));
        }
    }

    /// A watchdog for a new grant. `sent_at`: just before the acquire was sent; the lease
    /// surely began no earlier.
    pub(super) fn watch(
        &self,
        claim: Arc<Claim>,
        lease: Lease,
        max_hold: Option<Duration>,
        sent_at: Instant,
    ) -> Watchdog {
        let validity = Validity::new(sent_at, claim.lease);
        let renews = matches!(lease, Lease::Renewed(_));
        let until = max_hold.and_then(|most| sent_at.checked_add(most));
        let due_at = sent_at + if renews { claim.lease / 3 } else { claim.lease };
        let mut schedule = self.state.schedule();
        schedule.last_number += 1;
        let entry = (due_at, schedule.last_number);
        let renewal = Arc::new(Renewal { claim, validity: validity.clone(), renews, until, entry });
        if validity.left().is_zero() {
            // The answer came too late: nobody is told that it is held, nor that it is lost.
        } else if schedule.stopped {
            schedule.running.insert(entry.1, renewal.start(&self.state));
        } else {
            schedule.due.insert(entry, renewal);
            if schedule.wakes_at.is_none_or(|instant| due_at < instant) {
                self.state.sooner.notify_one();
            }
        }
        drop(schedule);
        Watchdog { validity, state: Arc::clone(&self.state), entry }
    }
}

impl Drop for Watchdogs {
    fn drop(&mut self) {
        self.state.schedule().stopped = true;
        self.stopped.cancel();
    }
}

/// The scheduler's hold of the schedule. When its runtime ends, nobody renews any more: all holders are told.
struct Scheduler(Arc<RenewalState>);

impl Drop for Scheduler {
    fn drop(&mut self) {
        let mut schedule = self.0.schedule();
        schedule.ended = !schedule.stopped;
        if !schedule.ended {
            return;
        }
        drop(schedule);
        for renewal in self.0.all() {
            self.0.lose(&renewal);
        }
    }
}

/// One grant's watchdog: bound to the grant, not to the name, so that it never renews the lock of
/// another owner.
#[derive(Debug)]
pub(super) struct Watchdog {
    validity: Validity,
    state: Arc<RenewalState>,
    entry: (Instant, u64),
}

impl Watchdog {
    pub(super) fn validity(&self) -> &Validity {
        &self.validity
    }

    /// No renewal is sent after this returns. One that is on its way already is checked against the owner, as
    /// all are.
    pub(super) fn stop(&self) {
        let mut schedule = self.state.schedule();
        if schedule.due.remove(&self.entry).is_none()
            && let Some((task, _)) = schedule.running.remove(&self.entry.1)
        {
            task.abort();
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop();
    }
}
