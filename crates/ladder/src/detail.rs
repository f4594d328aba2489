//! What an attempt says of itself while it is held: values, which the lab puts into words.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Answer;

/// What a rung says at a pause point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Detail {
    /// The point says it all.
    Nothing,
    /// How many; where the point is about an order, its id.
    Number(i64),
    /// What the purchase made on the way was told.
    Answer(Answer),

    /// It holds the mutex of the process.
    Mutex,
    /// It holds the user's mutex.
    UserMutex,
    /// It holds a lock that ends with its transaction.
    UntilTransactionEnds,
    /// It stands first in the queue of a lock.
    FirstInQueue,
    /// By one command that sets no lease.
    Setnx,
    /// By two commands, of which the second sets this lease.
    SetnxPexpire(Duration),
    /// By one command, with this lease.
    SetWithLease(Duration),
    /// It holds the lock so many times at once, for a lease.
    Hold(i64, Duration),
    /// The same, and the lease is renewed.
    RenewedHold(i64, Duration),
    /// This lease is renewed whenever a third of it is over.
    RenewedEveryThird(Duration),
    /// It holds the lock on all of its servers, for a lease that is renewed.
    OnAllNodes(Duration),
    /// It holds the lock on so many of its servers, for a lease that is renewed.
    OnNodes(usize, Duration),
    /// It holds the lock for a lease, and the grant has this number.
    Fenced(Duration, i64),
    /// It still holds the lock.
    StillOwn,

    /// It will be told of the release.
    WillHearRelease,
    /// It will watch the one before it in the queue.
    WillWatchAhead,

    /// It gives back the lock by a command that does not look whose lock it is.
    Del,
    /// It has looked, and the next command deletes.
    GetThenDel,
    /// A script looks and deletes.
    CompareAndDelete,
    /// A script takes back one hold.
    OneHold,
    /// The same, and may run twice.
    OneHoldSafely,
    /// It gives the lock back on each of its servers.
    OnEveryNode,
    /// It leaves the queue.
    PlaceInQueue,

    /// It is so many-th of its user in this window.
    NthInWindow(i64),
    /// So many whole tokens are left in the bucket.
    TokensLeft(i64),
    /// Its user has this place in line.
    PlaceInLine(i64),
}

impl From<i32> for Detail {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<i64> for Detail {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<Answer> for Detail {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// What an attempt waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Awaited {
    /// The mutex of the process.
    Mutex,
    /// The mutex of the user.
    UserMutex,
    /// The release of a lock.
    Release,
    /// The batch that it is a part of.
    Batch,
    /// A row that another transaction has locked.
    LockedRow,
    /// An advisory lock of another transaction.
    AdvisoryLock,
}
