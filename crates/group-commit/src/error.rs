//! Why an item has no answer.

use std::error::Error;
use std::fmt;

/// Why an item has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchError<E> {
    /// [`Limits::waiting`](crate::Limits::waiting) items of its key waited already. Nothing was done for this one.
    Full,
    /// A batch failed with this error while the item waited for its own. Nothing was done for this item.
    NotStarted(E),
    /// The item waited for [`SLOT_PATIENCE`](crate::SLOT_PATIENCE), and no slot was free. Nothing was done for this
    /// item.
    NoSlot,
    /// The item was in the batch that failed with this error. The error says what may have been done.
    Failed(E),
    /// The work panicked in the item's batch, or the batcher's runtime stopped. The work may have been
    /// done.
    Interrupted,
}

impl<E: fmt::Display> fmt::Display for BatchError<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => formatter.write_str("too many items wait already, nothing was done"),
            Self::NotStarted(error) => {
                write!(
                    formatter,
                    "an earlier batch failed, nothing was done for this item: {error}"
                )
            }
            Self::NoSlot => formatter.write_str("no slot was free in time, nothing was done"),
            Self::Failed(error) => write!(formatter, "the batch failed: {error}"),
            Self::Interrupted => {
                formatter.write_str("the batch was interrupted, the work may have been done")
            }
        }
    }
}

/// Without a source: the error of the batch is in the text already, and may be a mere `String`.
impl<E: fmt::Debug + fmt::Display> Error for BatchError<E> {}
