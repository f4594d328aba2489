//! Cancelling, refunding, redeeming: what people ask for.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{Code, Order, OrderStatus, Refusal, UserId};
use crate::purchase::Purchases;
use crate::store::order_steps::{self, Actor, AdministratorStep};
use crate::store::orders::OrderKey;
use crate::store::{Database, Service, Stop, StoreError, orders};
use crate::worker::Worker;

use super::PaymentGateway;
use super::expiry::Expiry;
use super::line::{CountedLines, EntryBatcher, LineWork, counted_lines, entry_batcher};
use super::outbox::Outbox;
use super::winding_up::WindingUp;

/// Takes the steps of orders after their purchase. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Orders {
    pub(super) database: Database,
    /// Told of what comes back on sale, so that this server sells it at once.
    pub(super) purchases: Arc<Purchases>,
    /// `None`: nothing takes payments.
    pub(super) gateway: Option<Arc<dyn PaymentGateway>>,
    ask_within: Duration,
    pub(super) entries: EntryBatcher,
    pub(super) lines: Arc<CountedLines>,
}

impl Orders {
    /// Orders in `database`, of vouchers that `purchases` sells. Before time cancels an order with a payment under way, the gateway
    /// is asked for at most `ask_within`; zero: it is not asked.
    pub fn new(
        database: Database,
        purchases: Arc<Purchases>,
        gateway: Option<Arc<dyn PaymentGateway>>,
        ask_within: Duration,
    ) -> Self {
        let entries = entry_batcher(&database, purchases.clock());
        let lines = Arc::new(counted_lines(&database, purchases.clock()));
        Self { database, purchases, gateway, ask_within, entries, lines }
    }

    /// The work that nobody asks for, until what it returns is dropped.
    pub fn start_workers(&self) -> Vec<Worker> {
        let (database, purchases) = (&self.database, &self.purchases);
        let ask_within = self.gateway.as_ref().map_or(Duration::ZERO, |_| self.ask_within);
        let expiry = Expiry::new(database.clone(), Arc::clone(purchases), ask_within).start();
        let winding_up = WindingUp::new(database.clone()).start();
        let line = LineWork::new(database.clone(), Arc::clone(purchases)).start();
        let gateway = self.gateway.as_ref().map(|gateway| {
            Outbox::of_gateway(database.clone(), Arc::clone(purchases), Arc::clone(gateway)).start()
        });
        [Some(expiry), Some(winding_up), Some(line), gateway].into_iter().flatten().collect()
    }

    /// Cancels an unpaid order: its buyer's own, or anybody's for an administrator.
    pub async fn cancel(&self, key: impl Into<OrderKey>, actor: Actor) -> Result<Order, Stop> {
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
    ) -> Result<Order, Stop> {
        let take = async |order: &Order| {
            let turn = self.database.steps_of(order.voucher_id).await?;
            order_steps::take(&turn, step, order, administrator).await
        };
        self.step(key.into(), step.from(), None, take).await
    }

    /// Takes a step of the order that `key` names, if it is `buyer`'s and in the state `from`. A state that this cheap
    /// look finds to be another one locks no row: that is what a flood of such requests would cost everybody. Returns the order
    /// as it is after the step.
    async fn step(
        &self,
        key: OrderKey,
        from: OrderStatus,
        buyer: Option<UserId>,
        take: impl AsyncFnOnce(&Order) -> Result<OrderStatus, Stop>,
    ) -> Result<Order, Stop> {
        let pool = self.database.pool();
        let order = orders::find(pool, key, buyer).await?;
        if order.status != from {
            return Err(Refusal::order_state(order.status).into());
        }
        take(&order).await?;
        self.purchases.order_changed(order.user_id, order.voucher_id);
        // The step was done, whatever becomes of this look: the caller must not be told that nothing was.
        let after = orders::find_of_voucher(pool, order.voucher_id, order.id).await;
        let after = after.map_err(|error| StoreError::unknown(Service::Postgres, error))?;
        after.ok_or_else(|| Code::OrderNotFound.into())
    }
}
