//! What the strategies sell with, and what they have in common.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::PurchaseError;
use super::admission::Breaker;
use super::catalog::Sale;
use super::gate::Gate;
use crate::lock::{Guard, LockClient, LockError};
use crate::model::{OrderId, Outcome, Refusal, UserId};
use crate::store::orders::Placed;
use crate::store::{Database, Keys, OrderIds};

/// How long a buyer waits for the statement. It takes a millisecond; one that takes this
/// long is stuck, and the buyer hears "unknown" while it goes on.
pub(super) const PATIENCE: Duration = Duration::from_millis(800);

/// A statement that is not answered by now never will be: the server ends its statements
/// after five seconds.
pub(super) const ABANDON_AFTER: Duration = Duration::from_secs(10);

/// An order id that is taken, or stock that came back between two statements: tried again
/// this often.
pub(super) const MAX_ATTEMPTS: usize = 4;

/// What a strategy sells with.
#[derive(Debug)]
pub(super) struct Seller {
    pub(super) database: Database,
    pub(super) locks: LockClient,
    pub(super) order_ids: OrderIds,
    pub(super) keys: Keys,
    pub(super) breaker: Arc<Breaker>,
    pub(super) gate: Arc<Gate>,
    pub(super) tasks: TaskTracker,
    /// Where purchases run, wherever they are asked for: not behind ten thousand connections that
    /// are refused.
    pub(super) runtime: Handle,
    /// Where they are asked for, if it is another one.
    pub(super) connections: Option<Handle>,
}

/// Why a purchase has no outcome yet.
pub(super) enum Again {
    /// The stock came back meanwhile.
    SameId,
    /// Another order has the id.
    OtherId,
}

/// What the buyer is told of what became of the purchase.
pub(super) fn judge(placed: Placed, sale: &Sale) -> Result<Outcome, Again> {
    Ok(match placed {
        Placed::Ordered(order) => Outcome::Ordered(order),
        Placed::AlreadyBought(order_id) => Outcome::Refused(Refusal::AlreadyBought { order_id }),
        Placed::SoldOut => {
            sale.mark_sold_out();
            Outcome::Refused(Refusal::SoldOut)
        }
        Placed::NoVoucher => Outcome::Refused(Refusal::VoucherNotFound),
        Placed::StockCameBack => return Err(Again::SameId),
        Placed::IdTaken => return Err(Again::OtherId),
    })
}

impl Seller {
    /// Takes the lock of `user`'s purchases, if it is free. `None`: another one is under way.
    pub(super) fn lock(
        &self,
        user: UserId,
    ) -> impl Future<Output = Result<Option<Guard>, LockError>> + Send + use<> {
        self.locks.lock(self.keys.order_lock(user)).try_acquire()
    }

    /// Runs `work` in a task of its own, for which a shutdown waits.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.tasks.spawn_on(work, &self.runtime)
    }

    /// Another order has an id that was drawn: whoever draws next does not get one that was drawn
    /// with it.
    pub(super) fn is_taken(&self, taken: OrderId) {
        tracing::warn!(%taken, "an order id was taken, using another");
        self.order_ids.forget_spare();
    }

    /// Another id in place of one that is taken.
    pub(super) async fn other_id(&self, taken: OrderId) -> Result<OrderId, PurchaseError> {
        self.is_taken(taken);
        Ok(self.order_ids.next().await?)
    }

    /// Release that never costs the buyer the answer: what fails here is made good by the
    /// clean-up worker, or by the end of the lease.
    pub(super) async fn let_go(&self, guard: Guard) {
        match guard.release().await {
            Ok(()) => {}
            Err(error @ LockError::NotHeld(_)) => {
                tracing::warn!(%error, "a purchase outlived its lock; the constraints judged it");
            }
            Err(error) => tracing::debug!(%error, "a lock is released in the background"),
        }
    }

    /// Waits until nothing is under way.
    pub(super) async fn shutdown(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.locks.shutdown().await;
    }
}
