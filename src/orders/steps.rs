//! Cancelling, refunding, redeeming: what people ask for.

use std::sync::Arc;

use crate::model::{Order, OrderId, UserId};
use crate::purchase::Purchases;
use crate::store::order_steps::{self, Canceller, Step};
use crate::store::{Database, StoreError, orders};

use super::PaymentGateway;
use super::expiry::Expiry;
use super::refunds::Refunds;
use super::worker::Worker;

/// Takes the steps of orders after their purchase. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Orders {
    pub(super) database: Database,
    /// Told of what comes back on sale, so that this server sells it at once.
    pub(super) purchases: Arc<Purchases>,
    /// `None`: nothing takes payments.
    pub(super) gateway: Option<Arc<dyn PaymentGateway>>,
}

/// A step, and the order as it is after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// The step was taken.
    Order(Order),
    /// The order is in a state that does not allow it. Nothing was changed.
    Refused(Order),
    /// There is no such order.
    NotFound,
}

impl Orders {
    /// Orders in `database`, of vouchers that `purchases` sells.
    pub fn new(
        database: Database,
        purchases: Arc<Purchases>,
        gateway: Option<Arc<dyn PaymentGateway>>,
    ) -> Self {
        Self { database, purchases, gateway }
    }

    /// The work that nobody asks for, until what it returns is dropped.
    pub fn start_workers(&self) -> Vec<Worker> {
        let (database, purchases) = (&self.database, &self.purchases);
        let expiry = Expiry::new(database.clone(), Arc::clone(purchases)).start();
        let refunds = self.gateway.as_ref().map(|gateway| {
            Refunds::new(database.clone(), Arc::clone(purchases), Arc::clone(gateway)).start()
        });
        [Some(expiry), refunds].into_iter().flatten().collect()
    }

    /// Cancels an unpaid order: its buyer's own, or anybody's for an administrator (`buyer` is `None`).
    pub async fn cancel(&self, id: OrderId, buyer: Option<UserId>) -> Result<Taken, StoreError> {
        let canceller = buyer.map_or(Canceller::Administrator, |_| Canceller::Buyer);
        let Some(order) = orders::find(self.database.pool(), id, buyer).await? else {
            return Ok(Taken::NotFound);
        };
        let step = order_steps::cancel(self.database.steps(), &order, canceller).await?;
        self.after(&order, step).await
    }

    /// Begins to give the money of a paid order back.
    pub async fn refund(&self, id: OrderId) -> Result<Taken, StoreError> {
        let Some(order) = orders::find(self.database.pool(), id, None).await? else {
            return Ok(Taken::NotFound);
        };
        let step = order_steps::refund(self.database.steps(), &order).await?;
        self.after(&order, step).await
    }

    /// Redeems a paid order.
    pub async fn redeem(&self, id: OrderId) -> Result<Taken, StoreError> {
        let Some(order) = orders::find(self.database.pool(), id, None).await? else {
            return Ok(Taken::NotFound);
        };
        let step = order_steps::redeem(self.database.steps(), &order).await?;
        self.after(&order, step).await
    }

    /// The order as it is after a step.
    async fn after(&self, before: &Order, step: Step) -> Result<Taken, StoreError> {
        if step == Step::NotFound {
            return Ok(Taken::NotFound);
        }
        if step == Step::Taken {
            self.purchases.order_ended(before.user_id, before.voucher_id);
        }
        let (pool, voucher) = (self.database.pool(), before.voucher_id);
        let order = orders::find_of_voucher(pool, voucher, before.id).await;
        // The step was taken, whatever becomes of this look.
        let order = order.map_err(StoreError::into_read_error)?;
        Ok(match (step, order) {
            (Step::Taken, Some(order)) => Taken::Order(order),
            (_, Some(order)) => Taken::Refused(order),
            (_, None) => Taken::NotFound,
        })
    }
}
