//! Why a purchase could not be judged. An expected "no" is a
//! [`Refusal`](crate::model::Refusal), not an error.

use crate::store::{OrderIdError, StoreError};
use redisson_lock::LockError;

/// A purchase failed.
#[derive(Debug, thiserror::Error)]
pub enum PurchaseError {
    /// As many purchases as may be are under way. Nothing was done.
    #[error("too many purchases are under way")]
    Overloaded,
    /// Orders of this voucher could not be written a moment ago. Nothing was done.
    #[error("orders of this voucher could not be written a moment ago")]
    CircuitOpen,
    /// Other orders had each id that was drawn. Nothing was done.
    #[error("other orders have the ids that were drawn")]
    NoFreeId,
    /// The purchase panicked: a defect. Its lock is released.
    #[error("the purchase failed on a defect")]
    Panicked,
    /// The voucher could not be read or the order not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lock failed.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// No order id could be made.
    #[error(transparent)]
    OrderId(#[from] OrderIdError),
}

impl PurchaseError {
    /// Whether the same request may succeed a little later.
    pub fn retry_may_help(&self) -> bool {
        match self {
            Self::Overloaded | Self::CircuitOpen | Self::NoFreeId | Self::Panicked => true,
            Self::Store(error) => error.retry_may_help(),
            Self::Lock(error) => error.retry_may_help(),
            Self::OrderId(error) => error.retry_may_help(),
        }
    }

    /// Whether there may be an order all the same. The same buyer's next attempt settles it: the answer
    /// is `already_bought` with the order, also after a sell-out, or what a new purchase brings.
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::Panicked => true,
            Self::Store(error) => error.outcome_unknown(),
            // Nothing was written.
            Self::Overloaded
            | Self::CircuitOpen
            | Self::NoFreeId
            | Self::Lock(_)
            | Self::OrderId(_) => false,
        }
    }
}
