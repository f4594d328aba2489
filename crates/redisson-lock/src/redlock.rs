//! One lock on the majority of several Redis servers that know nothing of each other.

use std::time::Duration;

use tokio::time::Instant;

use super::client::LockClient;
use super::error::LockError;
use super::group::{LockGroup, Tries, give_back, pause_at_random, random_part, try_all};
use super::guard::Guard;
use super::handle::Lock;
use super::options::{Lease, setters};

/// The longest pause after a first miss that was granted something; it grows with each
/// further one.
const PAUSE: Duration = Duration::from_millis(25);
/// The same while too few nodes answer.
const OUTAGE_PAUSE: Duration = Duration::from_millis(100);
/// The longest wait for one node, and up to a half more; see [`QuorumLock::wait_for`].
const ONE_NODE: Duration = Duration::from_secs(2);

/// Settings of a [`RedLock`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RedLockOptions {
    /// The lease of a lock that names none. 30 s, renewed, by default.
    pub lease: Lease,
    /// How long one node may take to answer, 300 ms by default. It should be a small part of the lease: the
    /// time that the nodes take is taken off the lease, and a silent node costs each entry this long.
    pub node_timeout: Duration,
    /// How much faster than this machine's clock a node's may run in the course of a lease.
    /// By default a hundredth of the lease, and 2 ms for the grain of Redis' clock.
    pub drift: Option<Duration>,
    /// How long a wait goes on while too few nodes answer, before it fails. 30 s by default.
    /// (It replaces the patience of the nodes' clients.)
    pub outage_patience: Duration,
}

setters!(RedLockOptions: lease: Lease, node_timeout: Duration, drift: Option<Duration>, outage_patience: Duration);

impl Default for RedLockOptions {
    fn default() -> Self {
        Self {
            lease: Lease::Renewed(Duration::from_secs(30)),
            node_timeout: Duration::from_millis(300),
            drift: None,
            outage_patience: Duration::from_secs(30),
        }
    }
}

/// Takes locks on the majority of several Redis servers, each a master of its own (Redis
/// documentation, "Distributed Locks with Redis", the Redlock algorithm).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use redisson_lock::{LockClient, LockOptions, RedLock, RedLockOptions};
/// use redisson_lock::connection::Redis;
///
/// let mut nodes = Vec::new();
/// for url in ["redis://one/", "redis://two/", "redis://three/"] {
///     nodes.push(LockClient::new(Redis::new(url)?, LockOptions::default()));
/// }
/// let locks = RedLock::new(nodes, RedLockOptions::default())?;
/// if let Some(guard) = locks.lock("lock:order:1").try_acquire().await? {
///     println!("held for {:?} at least", guard.validity());
///     guard.release().await?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// Of N nodes N/2+1 must grant the lock, so that N − (N/2+1) may fail: one of 3, two of 5, none of 1. An
/// even number gains nothing: 4 nodes bear the failure of one, as 3 do.
///
/// What it does **not** promise. A node that comes back without what it had granted (no
/// `appendfsync always`), or whose clock leaps, may grant again what somebody still holds:
/// then two hold a majority until the first one's next renewal finds out. And a holder that
/// sleeps past its lease is as blind as with one node. There are no fencing tokens against
/// that: the nodes' counters know nothing of each other, and the largest of one majority may
/// be smaller than that of the majority before. Where it matters, the database must refuse.
#[derive(Debug, Clone)]
pub struct RedLock {
    nodes: Vec<LockClient>,
    options: RedLockOptions,
}

impl RedLock {
    /// Over `nodes`, each a client of another server. The clients stay the caller's: to use
    /// alone, and to shut down. Nothing is sent yet.
    ///
    /// # Errors
    /// `NothingToLock` for no nodes. `Twice` where a client is in the list twice; two clients
    /// of one server are not found out, and would never both grant. `FairTogether` where the locks of a
    /// client are fair.
    pub fn new(nodes: Vec<LockClient>, options: RedLockOptions) -> Result<Self, LockError> {
        if nodes.is_empty() {
            return Err(LockError::NothingToLock);
        }
        if nodes.iter().any(LockClient::is_fair) {
            return Err(LockError::FairTogether);
        }
        for (place, node) in nodes.iter().enumerate() {
            if nodes[..place].iter().any(|other| node.is(other)) {
                return Err(LockError::Twice(None));
            }
        }
        Ok(Self { nodes, options })
    }

    /// The lock of this name. Nothing is sent yet.
    pub fn lock(&self, name: impl Into<String>) -> QuorumLock {
        let (name, options) = (name.into(), self.options);
        let lock = |node: &LockClient| node.lock(name.clone()).lease(options.lease);
        QuorumLock { nodes: self.nodes.iter().map(lock).collect(), name, options }
    }
}

/// A lock by name, on the majority of the nodes of a [`RedLock`]. A description: making or
/// dropping it takes and frees nothing.
#[derive(Debug, Clone)]
#[must_use = "a `QuorumLock` only describes a lock: acquire it"]
pub struct QuorumLock {
    name: String,
    nodes: Vec<Lock>,
    options: RedLockOptions,
}

impl QuorumLock {
    /// With a lease of its own instead of that of [`RedLockOptions`].
    pub fn lease(mut self, lease: Lease) -> Self {
        self.options.lease = lease;
        self.nodes = self.nodes.into_iter().map(|node| node.lease(lease)).collect();
        self
    }

    /// Takes the lock if a majority of the nodes grants it. `None`: on so many nodes
    /// somebody else holds it that no majority is left. Cancellation-safe: dropped at any point, it leaves
    /// no hold.
    ///
    /// # Errors
    /// `NoQuorum`: nodes failed that the majority would have needed; it says which, and why: `TooLate` of a node whose
    /// own grant took as long as it lasts. `TooLate` when all grants together took so long. `InvalidName`, `InvalidLease`.
    /// All that was granted, or may have been, is given back.
    pub async fn try_acquire(&self) -> Result<Option<QuorumGuard>, LockError> {
        match self.attempt(None).await? {
            ServerAttempt::Granted(guard) => Ok(Some(guard)),
            ServerAttempt::Missed(missed) => missed.error.map_or(Ok(None), Err),
        }
    }

    /// Waits for the lock, without a limit. Cancellation-safe: dropped at any point, it leaves no hold.
    ///
    /// # Errors
    /// As [`QuorumLock::try_acquire`], when too few nodes answered for
    /// `RedLockOptions::outage_patience`; `TooManyWaiters` on one node's client.
    pub async fn acquire(&self) -> Result<QuorumGuard, LockError> {
        match self.wait(None).await? {
            Some(guard) => Ok(guard),
            None => unreachable!("a wait without a deadline ends with a guard or an error"),
        }
    }

    /// Waits for the lock for `limit`. `None`: somebody else held it all the while. A limit
    /// of zero tries once. Cancellation-safe: dropped at any point, it leaves no hold.
    ///
    /// # Errors
    /// As [`QuorumLock::acquire`], and `NoQuorum` when at the limit nodes were missing.
    pub async fn acquire_within(&self, limit: Duration) -> Result<Option<QuorumGuard>, LockError> {
        self.wait(Instant::now().checked_add(limit)).await
    }

    async fn wait(&self, deadline: Option<Instant>) -> Result<Option<QuorumGuard>, LockError> {
        let (mut had, mut misses) = (None, 0);
        let mut outage: Option<Instant> = None;
        loop {
            let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            let missed = match self.attempt(had.take()).await {
                Ok(ServerAttempt::Granted(guard)) => return Ok(Some(guard)),
                Ok(ServerAttempt::Missed(missed)) => missed,
                Err(error) => Missed::failed(error),
            };
            match missed.error {
                Some(error) if late || !error.retry_may_help() => return Err(error),
                Some(error) if !missed.enough_answered => {
                    let since = *outage.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.options.outage_patience {
                        return Err(error);
                    }
                }
                None if late => return Ok(None),
                _ => outage = None,
            }
            if missed.granted > 0 {
                // Several may each have had some. Not again at the same time.
                misses += 1;
                pause_at_random(PAUSE, misses, deadline).await;
            }
            match missed.held {
                Some(node) => had = self.wait_for(node, deadline).await?,
                None => pause_at_random(OUTAGE_PAUSE, 1, deadline).await,
            }
        }
    }

    /// Waits until the lock is free on this node, where another owner holds it, and takes it there.
    ///
    /// Redis' own advice is to try all nodes again after a random time. That either asks far too often or
    /// sleeps far too long. A node's own wait hears of the release. All waiters take the *first* such node, so
    /// they stand in one line, and the waiter that comes out of it is mostly alone in trying the other nodes.
    /// (The random pause is for waiters that do not see the same nodes, so that each has some.) The wait is
    /// never long: should this node fail, the lock may be free on the others.
    async fn wait_for(
        &self,
        node: usize,
        deadline: Option<Instant>,
    ) -> Result<Option<(usize, Guard)>, LockError> {
        let longest = ONE_NODE + random_part(ONE_NODE / 2);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let limit = left.map_or(longest, |left| left.min(longest));
        match self.nodes[node].acquire_within(limit).await {
            Ok(guard) => Ok(guard.map(|guard| (node, guard))),
            Err(error @ LockError::TooManyWaiters(_)) => Err(error),
            // The node failed: the next attempt says what that means.
            Err(_) => Ok(None),
        }
    }

    /// One try on all nodes but the one that is `had` already.
    async fn attempt(&self, had: Option<(usize, Guard)>) -> Result<ServerAttempt, LockError> {
        let (nodes, quorum) = (self.nodes.len(), quorum(self.nodes.len()));
        let patience = Some(self.options.node_timeout);
        let Tries { granted, held, mut failures } = try_all(&self.nodes, had, patience).await;
        if granted.len() >= quorum {
            if !failures.is_empty() {
                tracing::debug!(name = self.name, ?failures, "a lock without some of the nodes");
            }
            let guards = LockGroup::new(granted, quorum, self.drift());
            if guards.validity().is_zero() {
                guards.release(patience).await;
                return Err(LockError::TooLate);
            }
            let (name, options) = (self.name.clone(), self.options);
            return Ok(ServerAttempt::Granted(QuorumGuard { name, nodes, guards, options }));
        }
        let done = granted.len();
        give_back(granted, patience).await;
        // Every node says the same of these, since the request is at fault.
        let of_the_request = |error: &LockError| {
            matches!(error, LockError::InvalidName(_) | LockError::InvalidLease)
        };
        if let Some(place) = failures.iter().position(|(_, error)| of_the_request(error)) {
            return Err(failures.swap_remove(place).1);
        }
        let no_majority_left = nodes - held.len() < quorum;
        Ok(ServerAttempt::Missed(Missed {
            granted: done,
            held: held.first().copied(),
            enough_answered: nodes - failures.len() >= quorum,
            error: (!no_majority_left).then_some(LockError::NoQuorum {
                nodes,
                quorum,
                done,
                failures,
            }),
        }))
    }

    fn drift(&self) -> Duration {
        let usual = self.options.lease.duration() / 100 + Duration::from_millis(2);
        self.options.drift.unwrap_or(usual)
    }
}

/// Any two of them have a node in common.
fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

enum ServerAttempt {
    Granted(QuorumGuard),
    Missed(Missed),
}

/// An attempt without a majority. Everything is given back.
struct Missed {
    /// By how many nodes it was granted.
    granted: usize,
    /// The first node on which somebody else holds it.
    held: Option<usize>,
    /// Whether the nodes that answered were a majority.
    enough_answered: bool,
    /// What prevented the majority, unless it was only that other owners hold the lock.
    error: Option<LockError>,
}

impl Missed {
    fn failed(error: LockError) -> Self {
        Self { granted: 0, held: None, enough_answered: false, error: Some(error) }
    }
}

/// A lock held on a majority of nodes. [`QuorumGuard::release`] gives it back; dropping it
/// (in a panic, too) gives it back in the background. Each node's lease is renewed by itself,
/// and never made anew where the node has forgotten it.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct QuorumGuard {
    name: String,
    nodes: usize,
    guards: LockGroup,
    options: RedLockOptions,
}

impl QuorumGuard {
    /// How long a majority surely holds the lock yet without another renewal: counted on each
    /// node from before its grant or last renewal was sent, so that what the nodes took to
    /// answer is off, and less the drift of the clocks. Zero when it may be lost.
    #[must_use]
    pub fn validity(&self) -> Duration {
        self.guards.validity()
    }

    /// Whether the majority is lost; looks at the clock, as [`Guard::is_lost`] does.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.validity().is_zero()
    }

    /// A future that ends when fewer than a majority of the nodes hold the lock, or may hold it. Cancellation-safe:
    /// it only waits.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        self.guards.lost()
    }

    /// On how many nodes it was granted.
    #[must_use]
    pub fn granted(&self) -> usize {
        self.guards.guards().count()
    }

    /// Gives the lock back on all nodes at once, and waits for a majority of them to say so; the releases on
    /// the others go on in the background. Cancellation-safe: dropped, all of them do.
    ///
    /// # Errors
    /// `NotHeld` when it was not held on a majority any more; `NoQuorum` when too few nodes
    /// answered to know.
    pub async fn release(self) -> Result<(), LockError> {
        let (nodes, quorum) = (self.nodes, quorum(self.nodes));
        let (had, failures) = self.guards.release(Some(self.options.node_timeout)).await;
        let done = had - failures.len();
        if done >= quorum {
            return Ok(());
        }
        let not_held = |error: &LockError| matches!(error, LockError::NotHeld(_));
        let lost = failures.iter().filter(|(_, error)| not_held(error)).count();
        if had - lost < quorum {
            return Err(LockError::NotHeld(self.name));
        }
        Err(LockError::NoQuorum { nodes, quorum, done, failures })
    }
}
