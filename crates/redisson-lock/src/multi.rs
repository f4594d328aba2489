//! All of several locks, as one.

use std::time::Duration;

use tokio::time::Instant;

use super::error::LockError;
use super::group::{LockGroup, Tries, give_back, pause_at_random, try_all};
use super::guard::Guard;
use super::handle::Lock;

/// The longest pause after a second miss; it grows with each further one.
const PAUSE: Duration = Duration::from_millis(5);

/// All of several locks, as one: held when every one of them is, and lost when one is. Each
/// may be of another client (another Redis), with a lease, an owner and an acknowledgement
/// of its own.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use redisson_lock::{LockClient, LockOptions, MultiLock};
/// use redisson_lock::connection::Redis;
///
/// let locks = LockClient::new(Redis::new("redis://127.0.0.1/")?, LockOptions::default());
/// let accounts = ["account:1", "account:2"].map(|name| locks.lock(name).fenced());
/// let both = MultiLock::new(accounts.into())?;
/// let guard = both.acquire().await?;
/// for (lock, guard) in ["account:1", "account:2"].iter().zip(guard.guards()) {
///     println!("{lock} by the token {:?}", guard.fence());
/// }
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// A caller that waits for one of the locks holds none of the others, so that two multi-locks over the
/// same names, in whatever order, cannot wait for each other. It waits, asleep, for the lock that it
/// missed (as C++'s `std::lock` does).
#[derive(Debug, Clone)]
#[must_use = "a `MultiLock` only describes locks: acquire it"]
pub struct MultiLock {
    locks: Vec<Lock>,
}

impl MultiLock {
    /// All of `locks`. Nothing is sent yet.
    ///
    /// # Errors
    /// `NothingToLock` for an empty list. `Twice` where a name is in it twice on one client, even with one
    /// owner, which could enter twice: the caller is mistaken. `FairTogether` where one of the locks is fair.
    /// Two clients of one Redis are not found out: one name on both waits for itself, as long as it may.
    pub fn new(locks: Vec<Lock>) -> Result<Self, LockError> {
        if locks.is_empty() {
            return Err(LockError::NothingToLock);
        }
        if locks.iter().any(Lock::is_fair) {
            return Err(LockError::FairTogether);
        }
        for (place, lock) in locks.iter().enumerate() {
            if locks[..place].iter().any(|other| lock.is_same(other)) {
                return Err(LockError::Twice(Some(lock.name().to_owned())));
            }
        }
        Ok(Self { locks })
    }

    /// Takes all of the locks if all are free. `None`: somebody else holds one; none is held.
    /// Cancellation-safe: dropped at any point, it leaves no hold.
    ///
    /// # Errors
    /// `Together`: which of the locks failed, and why (see [`Lock::try_acquire`]); the others
    /// are given back. `TooLate` when the first lease ended before the last one began.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, LockError> {
        match self.round(None).await? {
            MultiRound::Granted(guard) => Ok(Some(guard)),
            MultiRound::Missed { failures, .. } if failures.is_empty() => Ok(None),
            MultiRound::Missed { failures, .. } => Err(LockError::Together(failures)),
        }
    }

    /// Waits for all of the locks, without a limit. Cancellation-safe: dropped at any point, it leaves no
    /// hold.
    ///
    /// # Errors
    /// As [`MultiLock::try_acquire`], where one cannot be reached for its client's
    /// `LockOptions::outage_patience`.
    pub async fn acquire(&self) -> Result<MultiGuard, LockError> {
        match self.wait(None).await? {
            Some(guard) => Ok(guard),
            None => unreachable!("a wait without a deadline ends with a guard or an error"),
        }
    }

    /// Waits for all of the locks for `limit`. `None`: it was not enough. A limit of zero
    /// tries once. Cancellation-safe: dropped at any point, it leaves no hold.
    ///
    /// # Errors
    /// As [`MultiLock::acquire`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<Option<MultiGuard>, LockError> {
        self.wait(Instant::now().checked_add(limit)).await
    }

    async fn wait(&self, deadline: Option<Instant>) -> Result<Option<MultiGuard>, LockError> {
        let mut had = None;
        let mut misses = 0;
        loop {
            let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            let (in_the_way, failures) = match self.round(had.take()).await? {
                MultiRound::Granted(guard) => return Ok(Some(guard)),
                MultiRound::Missed { in_the_way, failures } => (in_the_way, failures),
            };
            // A lock that failed is waited for like one that is held: the wait has patience.
            let hopeless = failures.iter().any(|(_, error)| !error.retry_may_help());
            if hopeless || (late && !failures.is_empty()) {
                return Err(LockError::Together(failures));
            }
            if late {
                return Ok(None);
            }
            // Two may each have what the other waits for, give it back, and get the other's:
            // for ever, if they go in step.
            pause_at_random(PAUSE, misses, deadline).await;
            misses += 1;
            let lock = &self.locks[in_the_way];
            let waited = match deadline {
                None => lock.acquire().await.map(Some),
                Some(deadline) => {
                    lock.acquire_within(deadline.saturating_duration_since(Instant::now())).await
                }
            };
            match waited {
                Ok(Some(guard)) => had = Some((in_the_way, guard)),
                Ok(None) => return Ok(None),
                Err(error) => return Err(LockError::Together(vec![(in_the_way, error)])),
            }
        }
    }

    /// One try of all locks but the one that is `had`. They are tried at once and not one after the other:
    /// it takes as long as the slowest, and of two callers one is more likely to get all.
    async fn round(&self, had: Option<(usize, Guard)>) -> Result<MultiRound, LockError> {
        let Tries { granted, held, failures } = try_all(&self.locks, had, None).await;
        let missed = held.first().copied().or_else(|| failures.first().map(|(place, _)| *place));
        if let Some(in_the_way) = missed {
            // Given back before the wait: after it, it would come too late for the other callers.
            give_back(granted, None).await;
            return Ok(MultiRound::Missed { in_the_way, failures });
        }
        let guards = LockGroup::new(granted, self.locks.len(), Duration::ZERO);
        if guards.validity().is_zero() {
            guards.release(None).await;
            return Err(LockError::TooLate);
        }
        Ok(MultiRound::Granted(MultiGuard { guards }))
    }
}

enum MultiRound {
    Granted(MultiGuard),
    /// Everything is given back.
    Missed {
        in_the_way: usize,
        failures: Vec<(usize, LockError)>,
    },
}

/// All of the locks of a [`MultiLock`], held. [`MultiGuard::release`] gives them back;
/// dropping it (in a panic, too) gives them back in the background.
#[derive(Debug)]
#[must_use = "dropping the guard releases the locks"]
pub struct MultiGuard {
    guards: LockGroup,
}

impl MultiGuard {
    /// The guard of each lock, in the order in which they were given to [`MultiLock::new`]:
    /// for their fencing tokens and owners.
    pub fn guards(&self) -> impl Iterator<Item = &Guard> {
        self.guards.guards()
    }

    /// How long all of them are surely held yet without another renewal: the smallest of
    /// [`Guard::validity`].
    #[must_use]
    pub fn validity(&self) -> Duration {
        self.guards.validity()
    }

    /// Whether one of them is lost; looks at the clock, as [`Guard::is_lost`] does.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.validity().is_zero()
    }

    /// A future that ends as soon as one of them is lost. The others are held on to until this guard ends.
    /// Cancellation-safe: it only waits.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        self.guards.lost()
    }

    /// Gives back all of them, at once, and waits for Redis to say so. Cancellation-safe: dropped at any
    /// point, it goes on in the background.
    ///
    /// # Errors
    /// `Together`: which could not be given back, and why (see [`Guard::release`]); all the
    /// others were.
    pub async fn release(self) -> Result<(), LockError> {
        let (_, failures) = self.guards.release(None).await;
        if failures.is_empty() { Ok(()) } else { Err(LockError::Together(failures)) }
    }
}
