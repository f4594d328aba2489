//! Cancelling, refunding, redeeming: what people ask for.

use std::sync::Arc;

use crate::model::{Order, OrderStatus, UserId, VoucherId};
use crate::purchase::Purchases;
use crate::store::order_steps::{self, Actor, AdministratorStep, Step};
use crate::store::orders::{Found, OrderKey};
use crate::store::{Database, Service, StoreError, orders};
use crate::worker::Worker;

use super::PaymentGateway;
use super::expiry::Expiry;
use super::gateway_work::GatewayWork;
use super::line::{EntryBatcher, LineWork, entry_batcher};
use super::winding_up::WindingUp;

/// Takes the steps of orders after their purchase. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Orders {
    pub(super) database: Database,
    /// Told of what comes back on sale, so that this server sells it at once.
    pub(super) purchases: Arc<Purchases>,
    /// `None`: nothing takes payments.
    pub(super) gateway: Option<Arc<dyn PaymentGateway>>,
    pub(super) entries: EntryBatcher,
}

/// What became of the wish to take a step, and the order as it is after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepAnswer {
    /// This call did it.
    Done(Order),
    /// The order was in this state, which does not allow it. Nothing was changed.
    Refused(OrderStatus),
    /// There is no such order.
    NotFound,
    /// Orders of these vouchers have the id: the voucher has to be named.
    OfVouchers(Vec<VoucherId>),
}

impl Orders {
    /// Orders in `database`, of vouchers that `purchases` sells.
    pub fn new(
        database: Database,
        purchases: Arc<Purchases>,
        gateway: Option<Arc<dyn PaymentGateway>>,
    ) -> Self {
        let entries = entry_batcher(&database);
        Self { database, purchases, gateway, entries }
    }

    /// The work that nobody asks for, until what it returns is dropped.
    pub fn start_workers(&self) -> Vec<Worker> {
        let (database, purchases) = (&self.database, &self.purchases);
        let expiry = Expiry::new(database.clone(), Arc::clone(purchases)).start();
        let winding_up = WindingUp::new(database.clone()).start();
        let line = LineWork::new(database.clone(), Arc::clone(purchases)).start();
        let gateway = self.gateway.as_ref().map(|gateway| {
            GatewayWork::new(database.clone(), Arc::clone(purchases), Arc::clone(gateway)).start()
        });
        [Some(expiry), Some(winding_up), Some(line), gateway].into_iter().flatten().collect()
    }

    /// Cancels an unpaid order: its buyer's own, or anybody's for an administrator.
    pub async fn cancel(
        &self,
        key: impl Into<OrderKey>,
        actor: Actor,
    ) -> Result<StepAnswer, StoreError> {
        let buyer = match actor {
            Actor::Buyer(user) => Some(user),
            Actor::Administrator(_) => None,
        };
        let cancel = async |order: &Order| {
            let turn = match actor {
                Actor::Buyer(_) => self.database.buyers_steps_of(order.voucher_id).await?,
                Actor::Administrator(_) => self.database.steps_of(order.voucher_id).await?,
            };
            order_steps::cancel(&turn, order, actor).await
        };
        self.step(key.into(), OrderStatus::Unpaid, buyer, cancel).await
    }

    /// Takes a step that only an administrator does.
    pub async fn administer(
        &self,
        step: AdministratorStep,
        key: impl Into<OrderKey>,
        administrator: Option<UserId>,
    ) -> Result<StepAnswer, StoreError> {
        let take = async |order: &Order| {
            let turn = self.database.steps_of(order.voucher_id).await?;
            order_steps::take(&turn, step, order, administrator).await
        };
        self.step(key.into(), step.from(), None, take).await
    }

    /// Takes a step of the order that `key` names, if it is `buyer`'s and in the state `from`. A state that this cheap
    /// look finds to be another one locks no row: that is what a flood of such requests would cost everybody.
    async fn step(
        &self,
        key: OrderKey,
        from: OrderStatus,
        buyer: Option<UserId>,
        take: impl AsyncFnOnce(&Order) -> Result<Step, StoreError>,
    ) -> Result<StepAnswer, StoreError> {
        let order = match orders::find(self.database.pool(), key, buyer).await? {
            Found::Order(order) if order.status != from => {
                return Ok(StepAnswer::Refused(order.status));
            }
            Found::Order(order) => order,
            Found::Nothing => return Ok(StepAnswer::NotFound),
            Found::OfVouchers(vouchers) => return Ok(StepAnswer::OfVouchers(vouchers)),
        };
        match take(&order).await? {
            Step::NotFound => return Ok(StepAnswer::NotFound),
            Step::Refused(status) => return Ok(StepAnswer::Refused(status)),
            Step::Done => self.purchases.order_changed(order.user_id, order.voucher_id),
        }
        let pool = self.database.pool();
        match orders::find_of_voucher(pool, order.voucher_id, order.id).await {
            Ok(after) => Ok(after.map_or(StepAnswer::NotFound, StepAnswer::Done)),
            // The step was done, whatever becomes of this look: the caller must not hear that nothing was.
            Err(error) => Err(StoreError::unknown(Service::Postgres, error)),
        }
    }
}
