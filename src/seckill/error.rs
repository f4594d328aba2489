//! Why a purchase could not be judged. An expected "no" is a
//! [`Refusal`](crate::model::Refusal), not an error.

use crate::lock::LockError;
use crate::store::{OrderIdError, StoreError};

/// A purchase failed.
#[derive(Debug, thiserror::Error)]
pub enum PurchaseError {
    /// As many purchases as may be are under way. Nothing was done.
    #[error("too many purchases are under way")]
    Overloaded,
    /// The database failed a moment ago and is being given time. Nothing was done.
    #[error("the database was unavailable a moment ago")]
    DatabaseResting,
    /// The database has not answered in time; the purchase goes on and may succeed.
    #[error("the database has not answered yet, the outcome is unknown")]
    StillWaiting,
    /// The purchase panicked: a defect. What it held is given back.
    #[error("the purchase failed on a defect")]
    Panicked,
    /// The store of vouchers or orders failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lock failed.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// No order id could be made.
    #[error(transparent)]
    OrderId(#[from] OrderIdError),
    /// Another request's look-up, which this one shared, failed.
    #[error(transparent)]
    Shared(#[from] std::sync::Arc<StoreError>),
}

impl PurchaseError {
    /// Whether the same request may succeed a little later.
    pub fn retry_may_help(&self) -> bool {
        match self {
            Self::Overloaded | Self::DatabaseResting | Self::StillWaiting => true,
            Self::Panicked => false,
            Self::Store(error) => error.retry_may_help(),
            Self::Lock(error) => error.retry_may_help(),
            Self::OrderId(error) => error.retry_may_help(),
            Self::Shared(error) => error.retry_may_help(),
        }
    }

    /// Whether there may be an order all the same. Asking again settles it: the answer is
    /// then `already_bought` with the order, or a new purchase.
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::StillWaiting | Self::Panicked => true,
            Self::Store(error) => error.outcome_unknown(),
            // Before the transaction: there can be no order from this attempt.
            Self::Overloaded
            | Self::DatabaseResting
            | Self::Lock(_)
            | Self::OrderId(_)
            | Self::Shared(_) => false,
        }
    }
}
