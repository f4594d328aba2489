//! A claim: a lock name, the owner that wants or has it, and the grant.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::owner::Owner;
use super::redisson_names::channel;

/// When an acquire may be granted.
#[derive(Debug, Clone)]
pub(super) enum Admission {
    /// A plain lock: when it is free.
    Plain,
    /// A fair lock, without a wait: when it is free and its queue is empty. The caller does not join the
    /// queue.
    FairTry,
    /// A fair lock, as part of a wait: when it is free and the caller is the first in its queue. The caller
    /// stands in the queue until its wait is over; the flag says that it is.
    FairWait(Arc<AtomicBool>),
}

/// A lock name, the owner that wants or has it, and the grant by which it does.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) name: String,
    pub(super) owner: Owner,
    pub(super) lease: Duration,
    /// Names this acquire, its renewals and its release in the record. Owners never leave
    /// their process, so a number of the process serves.
    pub(super) grant: u64,
    /// Whether the acquire goes into the record of its owner's grants. Where nobody else
    /// has the owner there is only one grant, and a record of it would tell nothing more
    /// than the lock does.
    pub(super) recorded: bool,
    /// Whether a fencing token is wanted. It stands in the record.
    pub(super) fenced: bool,
    pub(super) admission: Admission,
    /// Until when nobody may enter, however early the last hold is given back.
    pub(super) kept_until: OnceLock<Instant>,
}

impl Claim {
    pub(super) fn new(
        name: &str,
        owner: Owner,
        lease: Duration,
        fenced: bool,
        admission: Admission,
    ) -> Self {
        static GRANTS: AtomicU64 = AtomicU64::new(1);
        let grant = GRANTS.fetch_add(1, Ordering::Relaxed);
        // All tries of a fair wait are by the same owner: the record tells a late one from the next.
        if fenced || !matches!(admission, Admission::Plain) {
            owner.share();
        }
        let recorded = owner.is_shared();
        let (name, kept_until) = (name.to_owned(), OnceLock::new());
        Self { name, owner, lease, grant, recorded, fenced, admission, kept_until }
    }

    pub(super) fn lease_ms(&self) -> u64 {
        self.lease.as_millis() as u64
    }

    /// For how long nobody may enter after a release that is sent now. Less than a millisecond is one.
    pub(super) fn kept_ms(&self) -> u128 {
        let until = self.kept_until.get();
        let kept = until.map(|until| until.saturating_duration_since(Instant::now()));
        kept.unwrap_or_default().as_nanos().div_ceil(1_000_000)
    }

    /// Whether a place in the queue of a fair lock may stand in Redis because of it.
    pub(super) fn waits_in_redis(&self) -> bool {
        matches!(self.admission, Admission::FairWait(_))
    }

    /// Whether that place has to go: the wait is over.
    pub(super) fn has_waited(&self) -> bool {
        matches!(&self.admission, Admission::FairWait(over) if over.load(Ordering::Acquire))
    }

    /// The channel on which it hears that it may try.
    pub(super) fn channel(&self) -> String {
        match self.admission {
            Admission::Plain => channel(&self.name, None),
            Admission::FairTry | Admission::FairWait(_) => channel(&self.name, Some(&self.owner)),
        }
    }
}
