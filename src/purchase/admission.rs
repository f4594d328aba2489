//! Which attempts to buy may begin: all that is asked before the lock, and most of it answered from memory.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::sync::OwnedSemaphorePermit;

use super::PurchaseError;
use super::purchase::Purchases;
use super::sales::Sale;
use crate::model::{Clock, Code, OrderId, Refusal, Share, UserId, VoucherId};
use crate::telemetry;

/// An attempt that may go on.
pub(super) struct Admitted {
    pub sale: Arc<Sale>,
    pub at: DateTime<Utc>,
    /// Free when the purchase ends: the buyer may begin another one, and so may somebody else.
    pub _permits: (Share<UserId>, OwnedSemaphorePermit),
}

/// An attempt goes no further.
pub(super) enum Declined {
    Refused(Refusal),
    Failed(PurchaseError),
}

impl From<Refusal> for Declined {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<PurchaseError> for Declined {
    fn from(error: PurchaseError) -> Self {
        Self::Failed(error)
    }
}

/// A buyer who has an order gets this answer before any other refusal.
fn not_bought(owned: Option<OrderId>) -> Result<(), Refusal> {
    owned.map_or(Ok(()), |order| Err(Refusal::already_bought(order)))
}

impl Purchases {
    /// Everything that may turn an attempt away before it costs the stores something, in this order.
    pub(super) async fn admit_purchase(
        &self,
        user: UserId,
        voucher: VoucherId,
    ) -> Result<Admitted, Declined> {
        not_bought(self.recent_orders.find(user, voucher))?;
        // The first question to the database costs a token of the buyer's: here for a voucher that may be made up.
        let has_paid = !self.sales.remembers(voucher);
        if has_paid {
            self.charge(user)?;
        }
        let sale = self.sales.find(voucher).await.map_err(PurchaseError::Read)?;
        let sale = sale.ok_or(Refusal::from(Code::VoucherNotFound))?;
        let at = self.clock.now();
        not_bought(self.recent_orders.find_of(user, &sale.voucher))?;
        self.on_sale(user, &sale, at, has_paid).await?;
        self.not_pausing(user, voucher, at)?;
        if !has_paid {
            self.charge(user)?;
        }
        // Has the buyer too many purchases under way? Is there room for one more? Does the database write orders of
        // this voucher?
        let Some(share) = self.buyers.take(user, self.strategy.purchases_of_a_buyer()) else {
            return Err(self.in_progress(user, voucher).await.into());
        };
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let permit = permit.map_err(|_| PurchaseError::Overloaded)?;
        sale.breaker.check()?;
        Ok(Admitted { sale, at, _permits: (share, permit) })
    }

    /// Whether the sale is on. If it is not, an owner is told of the order before any refusal; until memory has the owners,
    /// that asks the database, for which the buyer pays unless the attempt `has_paid`.
    async fn on_sale(
        &self,
        user: UserId,
        sale: &Sale,
        at: DateTime<Utc>,
        has_paid: bool,
    ) -> Result<(), Declined> {
        let Some(refusal) = sale.refusal_at(at) else { return Ok(()) };
        let most = sale.max_orders(at);
        if most > 0 {
            if !has_paid && !self.owners.are_in_memory(&sale.voucher) {
                self.charge(user)?;
            }
            let owned = self.owners.find(user, &sale.voucher, most).await;
            not_bought(owned.map_err(PurchaseError::Read)?)?;
        }
        Err(refusal.into())
    }

    /// Whether the buyer, who cancelled or did not pay an order of the voucher, has waited.
    fn not_pausing(
        &self,
        user: UserId,
        voucher: VoucherId,
        at: DateTime<Utc>,
    ) -> Result<(), Refusal> {
        let until = self.pauses.get(&(user, voucher)).filter(|until| *until > at);
        let Some(until) = until else { return Ok(()) };
        telemetry::rate_limited("pause", &user);
        Err(Refusal::too_many_requests((until - at).to_std().unwrap_or_default()))
    }

    fn charge(&self, user: UserId) -> Result<(), Refusal> {
        self.admit(user).map_err(Refusal::too_many_requests)
    }

    /// The refusal while another purchase of the same buyer is under way: the order that the buyer has, or
    /// `order_in_progress`, also if the database does not answer which of the two it is.
    pub(super) async fn in_progress(&self, user: UserId, voucher: VoucherId) -> Refusal {
        let owned = self.owners.find_in_database(user, voucher).await.unwrap_or_default();
        owned.map_or(Code::OrderInProgress.into(), Refusal::already_bought)
    }
}
