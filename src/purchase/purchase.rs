//! The story of a purchase.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use quick_cache::sync::Cache;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, instrument};

use super::admission::{Admitted, Declined};
use super::owners::OrderOwners;
use super::recent_orders::RecentOrders;
use super::sales::{Sale, Sales};
use super::{PurchaseError, PurchasesOptions, Strategy};
use crate::model::{
    Clock, Code, Member, Order, OrderId, Outcome, SharedClock, Shares, TokenBuckets, UserId,
    Voucher, VoucherId,
};
use crate::store::{
    Database, DatabaseClock, Keys, NewOrder, OrderIdError, OrderIds, OrderWriter, Placed, Service,
    StoreError, has_distributed_orders, orders, read_at_start, vouchers,
};
use crate::telemetry::{self, SPANS};
use redis_link::Redis;
use redisson_lock::{Guard, Lease, LockClient, LockError, LockOptions};

/// The pauses that are remembered. One that is forgotten is found by the database.
const MAX_PAUSES: usize = 10_000;

/// How many ids a purchase draws where other orders have the ones before.
const MAX_IDS: usize = 4;

/// Sells vouchers.
#[derive(Debug)]
pub struct Purchases {
    pub(super) strategy: Strategy,
    limit: usize,
    pub(super) clock: Arc<DatabaseClock>,
    pub(super) sales: Sales,
    pub(super) recent_orders: RecentOrders,
    pub(super) owners: OrderOwners,
    pub(super) permits: Arc<Semaphore>,
    began: Instant,
    pub(super) buyers: Shares<UserId>,
    buyer_rate: TokenBuckets<UserId>,
    /// Until when a buyer who cancelled, or did not pay, has to wait before buying again. A request before that time is refused
    /// here.
    pub(super) pauses: Cache<(UserId, VoucherId), DateTime<Utc>>,
    locks: LockClient,
    keys: Keys,
    order_ids: OrderIds,
    order_writer: OrderWriter,
    tasks: TaskTracker,
    /// Where purchases run, not on the threads of the connection that asks for one.
    runtime: Handle,
}

impl Purchases {
    /// Reads from the database what time it is and where the order ids continue. Purchases run on the
    /// runtime on which this is called.
    pub async fn start(
        database: Database,
        redis: Redis,
        keys: Keys,
        clock: SharedClock,
        options: PurchasesOptions,
    ) -> Result<Arc<Self>, StoreError> {
        let last = read_at_start(|| orders::last_id(database.pool())).await?;
        let order_ids = OrderIds::new(redis.clone(), keys.clone(), Arc::clone(&clock), last);
        let clock = Arc::new(DatabaseClock::new(clock));
        read_at_start(|| vouchers::read_clock(database.pool(), &clock)).await?;
        let lease = Lease::Renewed(options.lease);
        let is_distributed = read_at_start(|| has_distributed_orders(database.pool())).await?;
        let locks = LockClient::new(redis, LockOptions::default().lease(lease));
        Ok(Arc::new(Self {
            strategy: options.strategy,
            limit: options.burst,
            sales: Sales::new(&database, &clock),
            recent_orders: RecentOrders::new(),
            owners: OrderOwners::new(&database),
            permits: Arc::new(Semaphore::new(options.burst)),
            began: Instant::now(),
            buyers: Shares::default(),
            buyer_rate: TokenBuckets::new(options.buyer_rate),
            pauses: Cache::new(MAX_PAUSES),
            locks,
            keys,
            order_ids,
            order_writer: OrderWriter::new(
                database,
                Arc::clone(&clock),
                options.strategy.writer_limits(),
                is_distributed,
            ),
            clock,
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
        }))
    }

    /// One attempt of `user` to buy `voucher`.
    ///
    /// Dropping this future (the buyer left) does not leave half a purchase: what has begun runs to
    /// its end in a task of its own.
    ///
    /// # Errors
    /// See [`PurchaseError`]; never for an expected "no", which is `Outcome::Refused`.
    pub async fn buy(
        self: &Arc<Self>,
        user: UserId,
        voucher: VoucherId,
    ) -> Result<Outcome, PurchaseError> {
        match self.admit_purchase(user, voucher).await {
            Ok(admitted) => {
                // From here on the purchase runs to its end, whether its buyer waits for it or not.
                let purchase = Arc::clone(self).lock_and_place(user, admitted);
                let task = self.tasks.spawn_on(purchase.in_current_span(), &self.runtime);
                task.await.unwrap_or(Err(PurchaseError::Panicked))
            }
            Err(Declined::Refused(refusal)) => Ok(Outcome::Refused(refusal)),
            Err(Declined::Failed(error)) => Err(error),
        }
    }

    /// Takes the lock and an id, places the order, and releases the lock.
    async fn lock_and_place(
        self: Arc<Self>,
        user: UserId,
        Admitted { sale, at, _permits }: Admitted,
    ) -> Result<Outcome, PurchaseError> {
        // The buyer's lock and an order id, at the same time. Where the lock is not granted, a number is
        // skipped: numbers have gaps.
        let (lock, order_id) = tokio::join!(self.lock(user), self.order_ids.next());
        let lock = match lock? {
            BuyerLock::Held => {
                return Ok(Outcome::Refused(self.in_progress(user, sale.voucher.id).await));
            }
            BuyerLock::Granted(guard) => Some(guard),
            BuyerLock::NotUsed => None,
        };
        // Without an id the guard is dropped, as in a panic: the lock's clean-up worker releases it.
        let order_id = order_id?;
        // Place the order. It is committed when this returns `Ordered`.
        let outcome = self.place_order(user, &sale, at, order_id).await;
        // Release the lock only now, whatever became of the order.
        if let Some(guard) = lock {
            release(guard).await;
        }
        outcome
    }

    #[instrument(target = SPANS, level = "debug", skip_all)]
    async fn place_order(
        &self,
        user: UserId,
        sale: &Sale,
        at: DateTime<Utc>,
        mut id: OrderId,
    ) -> Result<Outcome, PurchaseError> {
        let voucher = sale.voucher.id;
        for _ in 0..MAX_IDS {
            let asked_at = Instant::now();
            let placed = self.order_writer.place(voucher, NewOrder { id, user, at }).await;
            let placed = placed.map_err(PurchaseError::Order);
            sale.breaker.record(&placed);
            let refusal = match placed? {
                Placed::Ordered(due) => {
                    self.recent_orders.remember(user, &sale.voucher, id, asked_at);
                    return Ok(Outcome::Ordered(Order::placed(id, user, voucher, at, due)));
                }
                Placed::Refused(refusal) => refusal,
                Placed::IdTaken => {
                    tracing::warn!(%id, "another order has this id, taking another one");
                    id = self.order_ids.next().await?;
                    continue;
                }
            };
            // What the next attempt can be told from memory.
            match (refusal.code, &refusal.member) {
                (Code::AlreadyBought, Some(Member::OrderId(order))) => {
                    self.recent_orders.remember(user, &sale.voucher, *order, asked_at);
                }
                (Code::SoldOut, _) => sale.mark_sold_out(),
                (Code::TooManyRequests, Some(Member::RetryAfter(wait))) => {
                    telemetry::rate_limited("pause", &user);
                    self.pauses.insert((user, voucher), self.clock.now() + *wait);
                }
                _ => {}
            }
            return Ok(Outcome::Refused(refusal));
        }
        Err(PurchaseError::NoFreeId)
    }

    /// Tries to take the lock under which `user` buys, whatever the voucher. It keeps a second click
    /// out while the first is under way. That nobody buys twice does not depend on it: the database's
    /// constraints see to that, also when a lease is lost.
    #[instrument(target = SPANS, level = "debug", skip_all)]
    async fn lock(&self, user: UserId) -> Result<BuyerLock, LockError> {
        if !self.strategy.takes_lock() {
            return Ok(BuyerLock::NotUsed);
        }
        let guard = self.locks.lock(self.keys.order_lock(user)).try_acquire().await?;
        Ok(guard.map_or(BuyerLock::Held, BuyerLock::Granted))
    }

    /// Lets one request of `user` ask the database, also one that is no purchase.
    ///
    /// # Errors
    /// The user asks too often, and may again after this time.
    pub fn admit(&self, user: UserId) -> Result<(), Duration> {
        let taken = self.buyer_rate.take(user);
        taken.inspect_err(|_| telemetry::rate_limited("buyer", &user))
    }

    /// The id of an order that is offered to somebody who did not ask for it now.
    ///
    /// # Errors
    /// When no id can be made at the moment.
    pub async fn new_order_id(&self) -> Result<OrderId, StoreError> {
        self.order_ids.next().await.map_err(|error| match error {
            OrderIdError::Store(error) => error,
            error => StoreError::unavailable(Service::Redis, error),
        })
    }

    /// The clock by which sales begin and end.
    pub fn clock(&self) -> &Arc<DatabaseClock> {
        &self.clock
    }

    /// Whether memory has the voucher: of one that it does not have the database is asked.
    pub fn remembers(&self, voucher: VoucherId) -> bool {
        self.sales.remembers(voucher)
    }

    /// A voucher as the process knows it, at most a second old.
    pub async fn sale(&self, voucher: VoucherId) -> Result<Option<Arc<Sale>>, StoreError> {
        self.sales.find(voucher).await
    }

    /// Memory of `voucher` is read anew: it was changed, or one of it came back.
    pub fn voucher_changed(&self, voucher: VoucherId) {
        self.sales.forget(voucher);
    }

    /// `user` may have no live order of `voucher` any more: its buyer may buy again at once.
    pub fn order_changed(&self, user: UserId, voucher: VoucherId) {
        self.recent_orders.forget(user, voucher);
        self.sales.forget(voucher);
    }

    /// Whether memory has the owners of `voucher`, as it is now.
    pub fn knows_owners_of(&self, voucher: &Voucher) -> bool {
        self.owners.are_in_memory(voucher)
    }

    /// How it sells.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// How busy it is.
    pub fn load(&self) -> PurchaseLoad {
        PurchaseLoad {
            in_flight: self.limit - self.permits.available_permits(),
            limit: self.limit,
            queue_depth: self.order_writer.waiting(),
            batches_in_flight: self.order_writer.batches_in_flight(),
            uptime: self.began.elapsed(),
        }
    }

    /// Waits until every purchase that began is over and every lock is released.
    pub async fn shutdown(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.locks.shutdown().await;
    }
}

/// How busy a purchase service is at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct PurchaseLoad {
    /// Purchases under way, of which there may be `limit`.
    pub in_flight: usize,
    pub limit: usize,
    /// Orders that wait for a transaction.
    pub queue_depth: usize,
    /// Transactions in flight.
    pub batches_in_flight: usize,
    /// Since it began to sell.
    pub uptime: Duration,
}

/// The lock of one buyer's purchases.
enum BuyerLock {
    Granted(Guard),
    /// Another purchase of the same buyer holds it.
    Held,
    /// The strategy does without it.
    NotUsed,
}

/// Releases the lock. If that fails, the lock's clean-up worker tries again, or the lease ends; the
/// buyer's answer is the same.
async fn release(guard: Guard) {
    match guard.release().await {
        Ok(()) => {}
        Err(error @ LockError::NotHeld(_)) => {
            tracing::warn!(%error, "a purchase outlived its lock; the constraints judged it");
        }
        Err(error) => tracing::debug!(%error, "a lock is released in the background"),
    }
}
