//! The purchase service: what every strategy has in common.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::admission::Breaker;
use super::catalog::{Catalog, Sale};
use super::group_commit::GroupCommit;
use super::locked::Locked;
use super::seller::Seller;
use super::{PurchaseError, Request, Strategy, StrategyName};
use crate::lock::{Lease, LockClient, LockOptions};
use crate::model::{Outcome, Refusal, SaleStatus, SharedClock, UserId, VoucherId};
use crate::store::{Database, Keys, OrderIds, Redis, StoreError, orders};

/// Settings of the purchase service.
#[derive(Debug, Clone, Copy)]
pub struct PurchasesOptions {
    /// How to sell.
    pub strategy: StrategyName,
    /// The lease of a purchase's lock, renewed while the purchase runs: how long a killed
    /// process can lock its buyers out.
    pub lease: Duration,
    /// Purchases under way at once in this process; one more is refused.
    pub max_under_way: usize,
    /// Purchases of one voucher in the database at once. More than two only queue for the
    /// row's lock, and wake each other for nothing.
    pub hot_row_width: usize,
    /// Purchases of one voucher that wait to be committed together; one more is refused.
    pub max_in_line: usize,
}

impl Default for PurchasesOptions {
    fn default() -> Self {
        Self {
            strategy: StrategyName::default(),
            lease: Duration::from_secs(5),
            max_under_way: 10_000,
            hot_row_width: 2,
            max_in_line: 10_000,
        }
    }
}

/// Sells vouchers.
#[derive(Debug)]
pub struct Purchases {
    catalog: Catalog,
    clock: SharedClock,
    strategy: Arc<dyn Strategy>,
    under_way: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl Purchases {
    /// The service. Reads from the database where the order ids continue.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn start(
        database: Database,
        redis: Redis,
        keys: Keys,
        clock: SharedClock,
        options: PurchasesOptions,
    ) -> Result<Self, StoreError> {
        let last = orders::last_id(database.pool()).await?;
        let order_ids = OrderIds::new(redis.clone(), keys.clone(), Arc::clone(&clock), last);
        let lease = Lease::Renewed(options.lease);
        let locks = LockClient::new(redis, LockOptions { lease, ..LockOptions::default() });
        let tasks = TaskTracker::new();
        let catalog = Catalog::new(database.clone(), options.hot_row_width, options.max_in_line);
        let breaker = Arc::new(Breaker::default());
        let seller = Seller { database, locks, order_ids, keys, breaker, tasks: tasks.clone() };
        let strategy: Arc<dyn Strategy> = match options.strategy {
            StrategyName::Locked => Arc::new(Locked(seller)),
            StrategyName::GroupCommit => Arc::new(GroupCommit::new(seller, true)),
            StrategyName::GroupCommitUnlocked => Arc::new(GroupCommit::new(seller, false)),
        };
        let under_way = Arc::new(Semaphore::new(options.max_under_way));
        Ok(Self { catalog, clock, strategy, under_way, tasks })
    }

    /// One attempt of `user` to buy `voucher`.
    ///
    /// Once it is past what memory can answer it runs to its end in a task of its own:
    /// dropping this future (the buyer left) does not leave half a purchase.
    ///
    /// # Errors
    /// See [`PurchaseError`]; never for an expected "no", which is `Outcome::Refused`.
    pub async fn buy(&self, user: UserId, voucher: VoucherId) -> Result<Outcome, PurchaseError> {
        let outcome = self.judge(user, voucher).await;
        let code = match &outcome {
            Ok(outcome) => outcome.code(),
            Err(error) if error.retry_may_help() => "unavailable",
            Err(_) => "internal_error",
        };
        metrics::counter!("seckill_purchases_total", "outcome" => code).increment(1);
        outcome
    }

    async fn judge(&self, user: UserId, voucher: VoucherId) -> Result<Outcome, PurchaseError> {
        let Some(sale) = self.catalog.sale(voucher).await? else {
            return Ok(Outcome::Refused(Refusal::VoucherNotFound));
        };
        let at = self.clock.now();
        match sale.status_at(at) {
            SaleStatus::OnSale => {}
            SaleStatus::Upcoming => {
                let begin_time = sale.voucher.begin_time;
                return Ok(Outcome::Refused(Refusal::SaleNotStarted { begin_time }));
            }
            SaleStatus::SoldOut => return Ok(Outcome::Refused(Refusal::SoldOut)),
            SaleStatus::Ended => return Ok(Outcome::Refused(Refusal::SaleEnded)),
        }
        let under_way = Arc::clone(&self.under_way)
            .try_acquire_owned()
            .map_err(|_| PurchaseError::Overloaded)?;
        let strategy = Arc::clone(&self.strategy);
        let purchase = self.tasks.spawn(async move {
            let outcome = strategy.purchase(Request { user, sale, at }).await;
            drop(under_way);
            outcome
        });
        purchase.await.unwrap_or(Err(PurchaseError::Panicked))
    }

    /// A voucher as the process knows it, at most a second old.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn sale(&self, voucher: VoucherId) -> Result<Option<Arc<Sale>>, Arc<StoreError>> {
        self.catalog.sale(voucher).await
    }

    /// Waits until every purchase that began is over and every lock is given back.
    pub async fn shutdown(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.strategy.shutdown().await;
    }
}
