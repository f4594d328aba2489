//! The owners of locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use uuid::Uuid;

/// An owner: code that has this value may enter a lock again while the owner holds it. Clones are the same
/// owner.
#[derive(Debug, Clone)]
pub struct Owner {
    identity: Arc<Identity>,
}

#[derive(Debug)]
struct Identity {
    field: String,
    /// Whether code outside this crate may have it, and so may have entered with it.
    shared: AtomicBool,
}

impl Owner {
    /// As it stands in the hash: `<client uuid>:<number>`.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.identity.field
    }

    pub(super) fn is_shared(&self) -> bool {
        self.identity.shared.load(Ordering::Acquire)
    }

    pub(super) fn share(&self) {
        self.identity.shared.store(true, Ordering::Release);
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.field() == other.field()
    }
}

impl Eq for Owner {}

/// Makes owners. Redisson numbers its owners by thread; any number serves.
#[derive(Debug)]
pub(super) struct Owners {
    client: Uuid,
    next: AtomicU64,
}

impl Owners {
    pub(super) fn new() -> Self {
        Self { client: Uuid::new_v4(), next: AtomicU64::new(1) }
    }

    /// An owner that nobody else has yet.
    pub(super) fn next(&self) -> Owner {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let field = format!("{}:{number}", self.client);
        Owner { identity: Arc::new(Identity { field, shared: AtomicBool::new(false) }) }
    }
}
