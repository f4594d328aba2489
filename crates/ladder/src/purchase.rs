//! A buyer's attempt, as a rung sees it.

use std::error::Error;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;

use super::{Awaited, Detail};
use crate::named;
use group_commit::BatchError;
use redis_link::LinkError;
use redisson_lock::LockError;
use seckill::model::{UserId, VoucherId};
use seckill::purchase::PurchaseError;
use seckill::store::StoreError;
use uuid::Uuid;

/// One attempt to buy.
#[derive(Clone)]
pub struct Purchase {
    /// The buyer.
    pub user: UserId,
    /// What.
    pub voucher: VoucherId,
    /// The lease of the lock that is taken for it, where there is one.
    pub lease: Duration,
    /// How long a second request of a user waits for the first, where it waits.
    pub patience: Duration,
    /// Another voucher that is bought on the way, by code that takes the same lock.
    pub also: Option<VoucherId>,
    /// The key of the request: the same when it is sent again.
    pub request: Uuid,
    /// Says when it goes on; `None` in a real rush.
    pub director: Option<Arc<dyn Director>>,
}

/// Decides when an attempt goes on from a pause point.
#[async_trait]
pub trait Director: Send + Sync {
    /// The attempt is at `point`; returns when it may go on.
    async fn at(&self, point: Point, detail: Detail);

    /// The attempt was polled, and has to wait for `what`; `waker` polls it again.
    fn waits(&self, what: Awaited, waker: &Waker);
}

impl Purchase {
    /// How long a request waits for another one, unless somebody says otherwise.
    pub const PATIENCE: Duration = Duration::from_secs(20);

    /// A pause point: nothing at all in a real rush.
    pub async fn at(&self, point: Point, detail: impl Into<Detail>) {
        if let Some(director) = &self.director {
            director.at(point, detail.into()).await;
        }
    }

    /// Awaits `turn`, and says so where it is not there yet.
    pub async fn waiting<T>(&self, what: Awaited, turn: impl Future<Output = T>) -> T {
        let mut turn = pin!(turn);
        poll_fn(|context| {
            let polled = turn.as_mut().poll(context);
            if let (Poll::Pending, Some(director)) = (&polled, &self.director) {
                director.waits(what, context.waker());
            }
            polled
        })
        .await
    }

    /// The attempt that is made on the way, if there is one.
    pub fn inner(&self) -> Option<Self> {
        let voucher = self.also?;
        Some(Self { voucher, also: None, request: Uuid::new_v4(), ..self.clone() })
    }
}

named! {
    /// The pause points: where a schedule can hold an attempt.
    Point {
        /// It has read the stock.
        StockRead = "stock_read",
        /// It has counted the user's orders of the voucher.
        OrdersCounted = "orders_counted",
        /// It has sent the first of two commands that take a lock.
        KeySet = "key_set",
        /// It holds the lock.
        Locked = "locked",
        /// The lock is somebody else's; it is about to wait for it.
        Missed = "missed",
        /// It has checked for the last time that it holds the lock, and is about to write.
        LastCheck = "last_check",
        /// The attempt made on the way has come back.
        InnerDone = "inner_done",
        /// It is about to commit.
        Committing = "committing",
        /// It is about to give back the lock (between compare and delete where these are two).
        Releasing = "releasing",
        /// It has taken one voucher in Redis, and was not answered yet.
        TakenInRedis = "taken_in_redis",
        /// A consumer has an entry of the queue or the stream in hand, and has done nothing with it.
        EntryRead = "entry_read",
        /// A consumer has committed, and is about to acknowledge the entry.
        Acknowledging = "acknowledging",
        /// A relay has published an order, and not marked it as published.
        Published = "published",
        /// A payment handler has read that the order is unpaid, and written nothing yet.
        UnpaidRead = "unpaid_read",
        /// It has read that an order is unpaid and its time over, and written nothing yet.
        OrderDue = "order_due",
        /// It has cancelled an order, and not given the voucher back.
        Cancelled = "cancelled",
        /// It is about to commit a cancellation together with the voucher given back.
        Cancelling = "cancelling",
        /// A payment handler finds no unpaid order, and has not decided yet what becomes of the money.
        PaymentLate = "payment_late",
        /// It is about to commit what becomes of the money.
        Settling = "settling",
        /// It has deleted the stock in the cache, and not written yet.
        CacheDeleted = "cache_deleted",
        /// It has added stock, and has yet to delete the cached entry (again).
        StockAdded = "stock_added",
        /// It is let in, and has not asked the database yet.
        LetIn = "let_in",
        /// It is about to commit its entry: in a draw, or in line.
        Entering = "entering",
        /// It has looked who is first in line, and offered nothing yet.
        FirstInLine = "first_in_line",
    }
}

/// With what an attempt works at a pause point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointStore {
    /// PostgreSQL.
    Database,
    /// The keeper of the rung's lock.
    Lock,
    /// The Redis that decides.
    Redis,
    /// The keeper of what is still to be done: a queue, a stream, an outbox.
    Queue,
}

impl Point {
    /// Whether what a rung says there is the number of an order.
    pub const fn names_an_order(self) -> bool {
        matches!(
            self,
            Self::Committing
                | Self::TakenInRedis
                | Self::EntryRead
                | Self::Acknowledging
                | Self::Published
                | Self::UnpaidRead
                | Self::OrderDue
                | Self::Cancelled
                | Self::Cancelling
                | Self::PaymentLate
                | Self::Settling
        )
    }

    /// With what an attempt works there, where a diagram can show it.
    pub const fn store(self) -> Option<PointStore> {
        match self {
            Self::StockRead
            | Self::OrdersCounted
            | Self::Committing
            | Self::UnpaidRead
            | Self::OrderDue
            | Self::Cancelled
            | Self::Cancelling
            | Self::PaymentLate
            | Self::Settling
            | Self::Entering
            | Self::FirstInLine => Some(PointStore::Database),
            Self::KeySet | Self::Locked | Self::Missed | Self::LastCheck | Self::Releasing => {
                Some(PointStore::Lock)
            }
            Self::TakenInRedis | Self::LetIn => Some(PointStore::Redis),
            Self::EntryRead | Self::Acknowledging | Self::Published => Some(PointStore::Queue),
            _ => None,
        }
    }

    /// Whether what it names is still to be done: the attempt stands before it.
    pub const fn is_before_the_step(self) -> bool {
        matches!(
            self,
            Self::Committing
                | Self::Releasing
                | Self::Acknowledging
                | Self::Cancelling
                | Self::Settling
                | Self::Entering
        )
    }
}

/// An attempt that came to no answer.
#[derive(Debug, thiserror::Error)]
pub enum RungError {
    /// The database.
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    /// A store of the server's own code.
    #[error("a store: {0}")]
    Store(#[from] StoreError),
    /// Redis.
    #[error("Redis: {0}")]
    Redis(#[from] LinkError),
    /// The production lock.
    #[error("the lock: {0}")]
    Lock(#[from] LockError),
    /// The production strategy.
    #[error("the purchase: {0}")]
    Purchase(#[from] PurchaseError),
    /// The rung found that it does not hold its lock any more, and wrote nothing.
    #[error("the lock was lost before the write")]
    LockLost,
    /// The resources lack what the rung needs.
    #[error("this rung needs {0}")]
    Lacks(&'static str),
    /// The queue between the answer and the database has no room.
    #[error("the queue is full")]
    QueueFull,
    /// The batch that the purchase was a part of.
    #[error("{0}: {cause}", cause = .0.source().map(ToString::to_string).unwrap_or_default())]
    Batch(#[from] BatchError<Arc<sqlx::Error>>),
    /// An entry of a stream that no program of today writes.
    #[error("an entry that is no order")]
    NoOrder,
    /// ZooKeeper.
    #[error("ZooKeeper: {0}")]
    ZooKeeper(#[from] zookeeper_client::Error),
}
