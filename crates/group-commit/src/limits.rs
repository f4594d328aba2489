//! What bounds a batcher.

use std::num::NonZero;
use std::time::Duration;

/// The bounds of a batcher. Each number is at least 1.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub(crate) batch: usize,
    pub(crate) waiting: usize,
    pub(crate) leaders: usize,
    pub(crate) a_failure_is_for_all: bool,
}

impl Limits {
    /// Batches of at most so many items. 16,384 items may wait, and there is one leader.
    #[must_use]
    pub const fn batches_of(items: usize) -> Self {
        Self { batch: items, waiting: 16_384, leaders: 1, a_failure_is_for_all: true }
    }

    /// So many items of one key may wait; one more is refused.
    #[must_use]
    pub const fn waiting(self, items: usize) -> Self {
        Self { waiting: items, ..self }
    }

    /// So many leaders are at work (with keys: on one key); each has one batch in flight. One by default.
    #[must_use]
    pub const fn leaders(self, leaders: usize) -> Self {
        Self { leaders, ..self }
    }

    /// A batch that fails fails alone. Without this, the items that wait meanwhile (for the keys of the batch) are refused
    /// with [`BatchError::NotStarted`](crate::BatchError::NotStarted): where a resource is gone, they need not fail one batch after the other.
    #[must_use]
    pub const fn a_failure_is_of_its_batch(self) -> Self {
        Self { a_failure_is_for_all: false, ..self }
    }
}

/// The bounds over all keys, for [`Batcher::keyed`](crate::Batcher::keyed).
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    pub(crate) batches: NonZero<usize>,
    pub(crate) alone: NonZero<usize>,
    pub(crate) keys: NonZero<usize>,
    pub(crate) patience: Duration,
}

impl Slots {
    /// So many batches are in flight. One more may be, of items that came back; a batch has any number of keys, and an item
    /// waits for a second.
    #[must_use]
    pub const fn new(batches: NonZero<usize>) -> Self {
        let (alone, keys) = (NonZero::<usize>::MIN, NonZero::<usize>::MAX);
        Self { batches, alone, keys, patience: Duration::from_secs(1) }
    }

    /// So many further batches are in flight, of items that came back as [`Answer::Alone`](crate::Answer::Alone).
    #[must_use]
    pub const fn alone(self, alone: NonZero<usize>) -> Self {
        Self { alone, ..self }
    }

    /// So many keys are in one batch.
    #[must_use]
    pub const fn keys(self, keys: NonZero<usize>) -> Self {
        Self { keys, ..self }
    }

    /// So old an item gets, counted from its submission, before it is refused for want of a slot. A resource that answers
    /// nothing holds each slot until the batch there ends by a time-out of its own; the items behind must not
    /// wait for all of these.
    #[must_use]
    pub const fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}
