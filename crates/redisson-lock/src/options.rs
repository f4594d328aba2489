//! Settings of locks, and what can be asked about them.

use std::time::Duration;

/// How long a shutdown waits for a Redis that does not answer.
pub(super) const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// How long a lock stays held unless it is released: 1 ms to 24 h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lease {
    /// This long at a time, renewed every third of it until the guard is gone.
    Renewed(Duration),
    /// This long and no longer.
    Fixed(Duration),
}

impl Lease {
    pub(super) fn duration(self) -> Duration {
        match self {
            Self::Renewed(duration) | Self::Fixed(duration) => duration,
        }
    }
}

/// Settings of a [`LockClient`](super::LockClient): each has a method of its name.
///
/// ```
/// use std::time::Duration;
///
/// use redisson_lock::{Lease, LockOptions};
///
/// let options = LockOptions::default()
///     .lease(Lease::Renewed(Duration::from_secs(10)))
///     .max_hold(Some(Duration::from_secs(600)));
/// assert_eq!(options.outage_patience, Duration::from_secs(30)); // as by default
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct LockOptions {
    /// The lease of a lock that names none. 30 s, renewed, by default.
    pub lease: Lease,
    /// How long a renewed lock may be held at all, so that work that hangs does not keep its lock for ever.
    /// After that the lease is not renewed any more; when it ends, the holder is told. Without a limit by
    /// default.
    pub max_hold: Option<Duration>,
    /// How long Redis may be out of reach before waits fail. One outage counts for all waiters together. 30 s
    /// by default: a restart or a failover fits in.
    pub outage_patience: Duration,
    /// Whether locks that do not say so are fair, see [`Lock::fair`](super::Lock::fair). `false` by
    /// default.
    pub fair: bool,
    /// How many may wait at once, on all locks of this client together. 65,536 by default;
    /// one more is refused with [`TooManyWaiters`](super::LockError::TooManyWaiters).
    pub max_waiters: usize,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            lease: Lease::Renewed(Duration::from_secs(30)),
            max_hold: None,
            outage_patience: Duration::from_secs(30),
            fair: false,
            max_waiters: 65_536,
        }
    }
}

/// One method for each setting, with its name. The settings may become more.
macro_rules! setters {
    ($options:ident: $($field:ident: $type:ty),+) => {
        impl $options {
            $(
                #[doc = concat!("With this [`", stringify!($options), "::", stringify!($field), "`].")]
                #[must_use]
                pub const fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
}
pub(super) use setters;

setters!(LockOptions: lease: Lease, max_hold: Option<Duration>, outage_patience: Duration, fair: bool, max_waiters: usize);

/// How many replicas must have a grant before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Acknowledged {
    /// How many replicas.
    pub(super) replicas: usize,
    /// How long to wait for them.
    pub(super) within: Duration,
}

/// The state of a held lock, as it stands in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockState {
    /// `<client uuid>:<number>`, of this program or another one.
    pub owner: String,
    /// How often the owner has entered.
    pub holds: u64,
    /// How long until the lease ends, unless it is renewed. `None`: it has no end.
    pub remaining: Option<Duration>,
    /// How many stand in the queue, if the lock is a fair one.
    pub queued: u64,
}

impl LockState {
    /// Whether it is held by nobody any more, and only kept for a while: see
    /// [`Guard::keep_at_least`](super::Guard::keep_at_least).
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.owner.contains(":-")
    }
}
