//! What an asynchronous rung does after the answer: its consumer, turn by turn.

use std::fmt::{self, Display};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Answer, Director, Point};

/// One turn of a consumer, which takes one entry and carries it out.
#[derive(Clone, Default)]
pub struct Work {
    /// Says when it goes on; `None` in a real rush.
    pub director: Option<Arc<dyn Director>>,
}

impl Work {
    /// A pause point: nothing at all in a real rush.
    pub async fn at(&self, point: Point, detail: impl Display) {
        if let Some(director) = &self.director {
            director.at(point, detail.to_string()).await;
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
    /// The entry was put aside, for a human to look at.
    PutAside,
    /// An order was published.
    Published,
    /// What comes after an order was done.
    FollowedUp,
}

impl Display for WorkTurn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => formatter.pad("finds nothing to do"),
            Self::Settled(answer) => write!(formatter, "is done with it: {answer}"),
            Self::PutAside => formatter.pad("puts it aside, among the dead letters"),
            Self::Published => formatter.pad("is done with it: published, and marked as such"),
            Self::FollowedUp => formatter.pad("is done with it: the payment is begun, a mail sent"),
        }
    }
}
