//! What a rung does after the answer: its consumer, turn by turn, and what becomes of an order that has
//! to be paid.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};

use super::{Answer, Detail, Director, Point};

/// What the payment gateway says: it has taken the money for an order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PaymentNotice {
    /// The order.
    pub order: i64,
    /// The gateway's own name of the money.
    pub transaction: String,
    /// How much it is.
    pub amount: i64,
}

/// One turn of a consumer, which takes one entry and carries it out; or of what ends unpaid orders, or of
/// what is told of a payment.
#[derive(Clone, Default)]
pub struct Work {
    /// Says when it goes on; `None` in a real rush.
    pub director: Option<Arc<dyn Director>>,
}

impl Work {
    /// A pause point: nothing at all in a real rush.
    pub async fn at(&self, point: Point, detail: impl Into<Detail>) {
        if let Some(director) = &self.director {
            director.at(point, detail.into()).await;
        }
    }

    /// Until `time` has come. Under a schedule it has come when the schedule has this turn taken.
    pub async fn sleep_until(&self, time: Instant) {
        if self.director.is_none() {
            sleep_until(time).await;
        }
    }
}

/// What came of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkTurn {
    /// There was nothing to do.
    Idle,
    /// The entry is done with; this is what became of the purchase.
    Settled(Answer),
    /// So many entries are done with.
    Batch(usize),
    /// The entry was put aside, for a human to look at.
    PutAside,
    /// An order was published.
    Published,
    /// What comes after an order was done.
    FollowedUp,
    /// An order was not paid in time: it is cancelled, its voucher back on sale.
    Cancelled,
    /// An order that was to be cancelled is not unpaid any more.
    Outrun,
    /// The payment is that of an order, which is paid now.
    Paid,
    /// The same, of an order that time had cancelled.
    Revived,
    /// The payment came too late; its money is given back.
    GivenBack,
    /// The payment was known already.
    Repeated,
    /// There is no such order; the money is written down, and somebody looks at it.
    Unmatched,
    /// The payment came too late, and a line in a log says so.
    TooLate,
    /// More is on sale.
    Restocked,
    /// The entries are drawn, and the first of them have orders.
    Drawn,
    /// The first in line has an order.
    Offered,
    /// There was something for the first in line, and somebody else has it.
    NothingToOffer,
}
