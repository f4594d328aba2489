//! Why an item has no answer.

use std::error::Error;

/// Why an item has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError<E> {
    /// [`Limits::waiting`](crate::Limits::waiting) items of its key waited already. Nothing was done for this one.
    Full,
    /// A batch failed with this error while the item waited for its own. Nothing was done for this item.
    NotStarted(E),
    /// The item waited for [`Slots::patience`](crate::Slots::patience), and no slot was free. Nothing was done for this
    /// item.
    NoSlot,
    /// The batcher's runtime stopped before a batch had the item. Nothing was done for this item.
    Stopped,
    /// The item was in the batch that failed with this error. The error says what may have been done.
    Failed(E),
    /// The work panicked in the item's batch, or the batcher's runtime stopped meanwhile. The work may have been
    /// done.
    Interrupted,
}

impl<E> std::fmt::Display for BatchError<E> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Full => "too many items wait already, nothing was done",
            Self::NotStarted(_) => "an earlier batch failed, nothing was done for this item",
            Self::NoSlot => "no slot was free in time, nothing was done",
            Self::Stopped => "the batcher's runtime has stopped, nothing was done",
            Self::Failed(_) => "the batch failed",
            Self::Interrupted => "the batch was interrupted, the work may have been done",
        })
    }
}

impl<E: Error + 'static> Error for BatchError<E> {
    /// The error of the batch, which the text leaves out.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotStarted(error) | Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}
