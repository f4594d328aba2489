//! The table of failures: how a purchase can fail, what its buyer is told, and what is in the database.
//!
//! [`Failure`] lists the ways, in the order of the story, and [`Failure::row`] is the table. The answer
//! of the API, the circuit breaker, the metrics and the log derive from it. An expected "no" (sold out,
//! bought before) is a [`Refusal`](crate::model::Refusal) and no failure.
//!
//! At a moment that no row names, the death of a store costs the buyer nothing. Redis is not needed once
//! lock and id are granted; a release that fails is tried again in the background, and the lease ends the
//! lock in any case. When an answer of PostgreSQL is lost, the server asks it again for 800 ms with the same
//! ids: an answer that comes in that time is the buyer's answer.

use std::time::Duration;

use crate::store::{OrderIdError, StoreError};
use crate::telemetry;
use redisson_lock::LockError;
use strum::VariantArray;

/// A purchase failed, with its cause.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // `Failure` says what each is
pub enum PurchaseError {
    #[error(transparent)]
    Read(StoreError),
    #[error("too many purchases are under way")]
    Overloaded,
    #[error("orders of this voucher could not be written a moment ago")]
    CircuitOpen,
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    OrderId(#[from] OrderIdError),
    #[error(transparent)]
    Order(StoreError),
    #[error("other orders have the ids that were drawn")]
    NoFreeId,
    #[error("the purchase failed on a defect")]
    Panicked,
}

/// A way in which a purchase can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray)]
pub enum Failure {
    /// Memory does not know the voucher, or whether the buyer has an order of it, and PostgreSQL does
    /// not say so: it is away or silent, or too many ask.
    ReadUnavailable,
    /// PostgreSQL answers that read with something that it never should.
    ReadDefect,
    /// As many purchases as may be are under way in this process.
    Overloaded,
    /// An order of the voucher failed less than 250 ms ago in a way that opens the circuit, or the one
    /// purchase that may try in this quarter of a second has begun.
    CircuitOpen,
    /// Redis is away or silent when it is asked for the buyer's lock. If the lock was granted unheard,
    /// the lock's clean-up worker releases it.
    LockUnavailable,
    /// Redis does not let the server take the lock, or the key is something else.
    LockDefect,
    /// Redis is away or silent when it is asked for an order id, or its counter keeps falling back. Also
    /// where another order has the first id, and Redis dies before a second one is drawn.
    IdUnavailable,
    /// The order ids of the day are used up. The next day (UTC) has new ones.
    IdsUsedUp,
    /// The clock of the server is outside the years 2022 to 2090, or the counter is no number.
    IdDefect,
    /// The order was not written: no connection to PostgreSQL in 700 ms; another session has the
    /// voucher's row for 600 ms; the server turned the statement away; the queue is full; no transaction
    /// slot was free within a second; or the batch before failed, and this one was not sent.
    OrderUnavailable,
    /// PostgreSQL died or fell silent after the order was sent, or the batch panicked. The commit may
    /// have been made, and the answer lost.
    OrderUnknown,
    /// PostgreSQL refuses the order by itself, without the others of its batch: a constraint, say.
    OrderDefect,
    /// Other orders had each id that was drawn: Redis lost its counter.
    NoFreeId,
    /// The task of the purchase panicked. Its lock is released in the background.
    Panicked,
}

/// What is in the database after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Books {
    /// No order, and the stock as it was.
    Nothing,
    /// The whole order, with one less in stock, or nothing of it. The next attempt that the database answers
    /// settles it: it names the order, also after a sell-out, or it is a new purchase. (A 503 without a
    /// detail says that its own attempt did nothing, and says nothing of an attempt before it.)
    OrderOrNothing,
}

/// Whether a failure opens the circuit of its voucher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Circuit {
    /// The next buyer tries.
    Stays,
    /// Buyers get `CircuitOpen`, but for one purchase every 250 ms, until one ends without such a
    /// failure.
    Opens,
}

/// What the buyer is told: "unavailable" if a retry may help, and else that the server failed on a defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// A sentence for the buyer, where the code does not say it all.
    pub detail: Option<&'static str>,
    /// When the same request may succeed.
    pub retry_after: Option<Duration>,
}

impl Answer {
    /// The outcome that the metrics count.
    pub const fn outcome(self) -> &'static str {
        match self.retry_after {
            Some(_) => telemetry::UNAVAILABLE,
            None => telemetry::INTERNAL_ERROR,
        }
    }
}

const RETRY: Answer = Answer { detail: None, retry_after: Some(Duration::from_secs(1)) };

const RETRY_TO_LEARN: Answer = Answer {
    detail: Some(
        "it is not known whether the order was placed: ask again, and an order that was placed is \
         named, also when the voucher is sold out meanwhile",
    ),
    ..RETRY
};

/// A client need not wait for midnight: once a minute it may ask whether the next day has begun.
const RETRY_TOMORROW: Answer = Answer { retry_after: Some(Duration::from_secs(60)), ..RETRY };

const DEFECT: Answer = Answer { detail: None, retry_after: None };

impl Failure {
    /// Every way, in the order of the story.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The table: what the buyer is told, what is in the database, and what the circuit does.
    pub const fn row(self) -> (Answer, Books, Circuit) {
        use Books::{Nothing, OrderOrNothing};
        use Circuit::{Opens, Stays};
        match self {
            Self::ReadUnavailable => (RETRY, Nothing, Stays),
            Self::ReadDefect => (DEFECT, Nothing, Stays),
            Self::Overloaded => (RETRY, Nothing, Stays),
            Self::CircuitOpen => (RETRY, Nothing, Stays),
            Self::LockUnavailable => (RETRY, Nothing, Stays),
            Self::LockDefect => (DEFECT, Nothing, Stays),
            Self::IdUnavailable => (RETRY, Nothing, Stays),
            Self::IdsUsedUp => (RETRY_TOMORROW, Nothing, Stays),
            Self::IdDefect => (DEFECT, Nothing, Stays),
            Self::OrderUnavailable => (RETRY, Nothing, Opens),
            Self::OrderUnknown => (RETRY_TO_LEARN, OrderOrNothing, Opens),
            Self::OrderDefect => (DEFECT, Nothing, Stays),
            Self::NoFreeId => (RETRY, Nothing, Stays),
            Self::Panicked => (RETRY_TO_LEARN, OrderOrNothing, Stays),
        }
    }

    /// What the buyer is told.
    pub const fn answer(self) -> Answer {
        self.row().0
    }

    /// Whether there may be an order in spite of the failure.
    pub fn outcome_unknown(self) -> bool {
        self.row().1 == Books::OrderOrNothing
    }

    /// Whether the circuit of the voucher opens.
    pub fn opens_circuit(self) -> bool {
        self.row().2 == Circuit::Opens
    }

    /// Whether the program, and not a store or the crowd, is to blame.
    pub fn is_defect(self) -> bool {
        self == Self::Panicked || self.answer() == DEFECT
    }
}

impl PurchaseError {
    /// Its row of the table.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Read(error) if error.retry_may_help() => Failure::ReadUnavailable,
            Self::Read(_) => Failure::ReadDefect,
            Self::Overloaded => Failure::Overloaded,
            Self::CircuitOpen => Failure::CircuitOpen,
            Self::Lock(error) if error.retry_may_help() || error.is_misconfigured() => {
                Failure::LockUnavailable
            }
            Self::Lock(_) => Failure::LockDefect,
            Self::OrderId(OrderIdError::SequenceExhausted(_)) => Failure::IdsUsedUp,
            Self::OrderId(error) if error.retry_may_help() => Failure::IdUnavailable,
            Self::OrderId(_) => Failure::IdDefect,
            Self::Order(StoreError::Unavailable { .. }) => Failure::OrderUnavailable,
            Self::Order(StoreError::Unknown { .. }) => Failure::OrderUnknown,
            Self::Order(StoreError::Defect { .. }) => Failure::OrderDefect,
            Self::NoFreeId => Failure::NoFreeId,
            Self::Panicked => Failure::Panicked,
        }
    }

    /// Whether the same request may succeed a little later.
    pub fn retry_may_help(&self) -> bool {
        self.failure().answer().retry_after.is_some()
    }

    /// Whether there may be an order in spite of the failure.
    pub fn outcome_unknown(&self) -> bool {
        self.failure().outcome_unknown()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Service;

    #[test]
    fn every_row_has_its_answer() {
        for &failure in Failure::ALL {
            let (answer, books, circuit) = failure.row();
            // A buyer tells "nothing was done" from "unknown" by the detail.
            let unknown = books == Books::OrderOrNothing;
            assert_eq!(answer.detail.is_some(), unknown, "{failure:?}");
            // Only where the next buyer would meet the same store.
            assert!(circuit == Circuit::Stays || answer.retry_after.is_some(), "{failure:?}");
        }
    }

    #[test]
    fn every_row_is_the_answer_to_an_error() {
        let of_store = |make: fn(StoreError) -> PurchaseError| {
            let service = Service::Postgres;
            let errors = [
                StoreError::unavailable(service, "away"),
                StoreError::unknown(service, "silent"),
                StoreError::defect(service, "odd"),
            ];
            errors.map(make)
        };
        let of_ids = |error: StoreError| PurchaseError::OrderId(error.into());
        let errors: Vec<PurchaseError> = of_store(PurchaseError::Read)
            .into_iter()
            .chain(of_store(of_ids))
            .chain([OrderIdError::SequenceExhausted(1).into()])
            .chain([PurchaseError::Overloaded, PurchaseError::CircuitOpen])
            .chain([LockError::TooLate.into(), LockError::InvalidLease.into()])
            .chain(of_store(PurchaseError::Order))
            .chain([PurchaseError::NoFreeId, PurchaseError::Panicked])
            .collect();
        for &failure in Failure::ALL {
            assert!(errors.iter().any(|error| error.failure() == failure), "{failure:?}");
        }
        // Nothing is unknown of a read, whatever became of it.
        let read = PurchaseError::Read(StoreError::unknown(Service::Postgres, "silent"));
        assert!(read.retry_may_help() && !read.outcome_unknown());
    }
}
