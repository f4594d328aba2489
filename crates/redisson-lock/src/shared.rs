//! The parts that the locks and guards of one client share.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::Calls;
use super::cleanup::Cleanup;
use super::options::LockOptions;
use super::outage_clock::OutageClock;
use super::owner::Owners;
use super::waiters::Waiters;
use super::watchdog::Watchdogs;
use redis_link::Redis;

#[derive(Debug)]
pub(super) struct LockShared {
    pub(super) redis: Redis,
    pub(super) cleanup: Cleanup,
    pub(super) waiters: Waiters,
    pub(super) watchdogs: Watchdogs,
    /// `None` in a cluster.
    pub(super) calls: Option<Calls>,
    pub(super) owners: Owners,
    pub(super) options: LockOptions,
    /// Ends all waits.
    pub(super) stop: CancellationToken,
    pub(super) outage_clock: OutageClock,
    /// Calls that were begun: a shutdown waits until each is answered, or dropped and with it
    /// handed to the clean-up.
    pub(super) under_way: TaskTracker,
}

impl LockShared {
    /// Starts the workers of a client.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(super) fn start(redis: Redis, options: LockOptions) -> Self {
        let stop = CancellationToken::new();
        let waiters = Waiters::new(redis.clone(), options.max_waiters, stop.clone());
        let cleanup = Cleanup::start(redis.clone(), waiters.clone());
        let calls = redis.is_one_server().then(|| Calls::start(redis.clone(), cleanup.queue()));
        Self {
            cleanup,
            calls,
            waiters,
            watchdogs: Watchdogs::start(redis.clone()),
            redis,
            owners: Owners::new(),
            options,
            stop,
            outage_clock: OutageClock::default(),
            under_way: TaskTracker::new(),
        }
    }
}

impl LockShared {
    /// What takes this call to Redis together with others, if there are any: for a call that is alone under way it
    /// would be a detour through another task.
    pub(super) fn pipeline(&self) -> Option<&Calls> {
        let is_alone = self.under_way.len() <= 1;
        self.calls.as_ref().filter(|_| !is_alone && !self.watchdogs.have_ended())
    }
}

impl Drop for LockShared {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
