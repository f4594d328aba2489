//! The purchase service: what every strategy has in common.

use std::sync::Arc;
use std::time::Duration;

use metrics::Counter;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::admission::Breaker;
use super::benched::Benched;
use super::bought::Bought;
use super::catalog::{Catalog, Sale};
use super::gate::{Comer, Gate, GateOptions};
use super::group_commit::GroupCommit;
use super::line::MAX_BATCH;
use super::locked::Locked;
use super::seller::Seller;
use super::{PurchaseError, Request, Strategy, StrategyName};
use crate::lock::{Lease, LockClient, LockOptions};
use crate::model::{Outcome, Refusal, SaleStatus, SharedClock, UserId, VoucherId};
use crate::store::{Database, Keys, OrderIds, Redis, StoreError, orders};

/// Purchases that may come at once before it may be an overload.
pub const DEFAULT_BURST: usize = 3_000;

/// Settings of the purchase service.
#[derive(Debug, Clone)]
pub struct PurchasesOptions {
    /// How to sell.
    pub strategy: StrategyName,
    /// The lease of a purchase's lock, renewed while the purchase runs: how long a killed
    /// process can lock its buyers out.
    pub lease: Duration,
    /// What may be under way in this process; one more is refused.
    pub gate: GateOptions,
    /// Purchases of one voucher in the database at once. More than two only queue for the
    /// row's lock, and wake each other for nothing.
    pub hot_row_width: usize,
    /// Purchases that wait to be committed together, and as many that wait for their locks, besides
    /// those who go with a batch that is about to begin; one more is refused.
    pub max_in_line: usize,
    /// The runtime on which purchases are asked for, if it is not the one on which they run.
    pub connections: Option<Handle>,
}

impl Default for PurchasesOptions {
    fn default() -> Self {
        Self {
            strategy: StrategyName::default(),
            lease: Duration::from_secs(5),
            gate: GateOptions {
                least: 32,
                burst: DEFAULT_BURST,
                most: 10_000,
                wait: Duration::from_millis(10),
            },
            hot_row_width: 2,
            max_in_line: 10_000,
            connections: None,
        }
    }
}

/// Sells vouchers.
#[derive(Debug)]
pub struct Purchases {
    catalog: Catalog,
    clock: SharedClock,
    bought: Bought,
    strategy: Arc<dyn Strategy>,
    gate: Arc<Gate>,
    counted: Counted,
}

impl Purchases {
    /// The service. Reads from the database where the order ids continue. Purchases run on the
    /// runtime on which this is called.
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
        let catalog = Catalog::new(database.clone(), options.hot_row_width);
        let breaker = Arc::new(Breaker::default());
        let least = match options.strategy {
            StrategyName::Locked => options.gate.least,
            // A batch in the database, one that becomes full meanwhile, and half a one that comes
            // or goes. The limit is for the most at any time; in the mean half as many are there.
            _ => options.gate.least.max(MAX_BATCH * 5 / 2),
        };
        let gate = GateOptions { least: least.min(options.gate.most), ..options.gate };
        let gate = Arc::new(Gate::new(gate, Handle::current()));
        let seller = Seller {
            database,
            locks,
            order_ids,
            keys,
            breaker,
            gate: Arc::clone(&gate),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            connections: options.connections,
        };
        let strategy: Arc<dyn Strategy> = match options.strategy {
            StrategyName::Locked => Arc::new(Locked(seller)),
            StrategyName::GroupCommit => {
                Arc::new(GroupCommit::new(seller, options.max_in_line, true))
            }
            StrategyName::GroupCommitUnlocked => {
                Arc::new(GroupCommit::new(seller, options.max_in_line, false))
            }
        };
        let (bought, counted) = (Bought::new(), Counted::new());
        Ok(Self { catalog, clock, bought, strategy, gate, counted })
    }

    /// One attempt of `user` to buy `voucher`.
    ///
    /// Dropping this future (the buyer left) does not leave half a purchase: what has begun to
    /// be written is written.
    ///
    /// # Errors
    /// See [`PurchaseError`]; never for an expected "no", which is `Outcome::Refused`.
    pub async fn buy(&self, user: UserId, voucher: VoucherId) -> Result<Outcome, PurchaseError> {
        match self.find(user, voucher).await? {
            Ok(request) => self.sell(request).await,
            Err(refusal) => Ok(Outcome::Refused(refusal)),
        }
    }

    /// As [`Purchases::look`], but whose voucher is not in memory is looked up.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn find(
        &self,
        user: UserId,
        voucher: VoucherId,
    ) -> Result<Result<Request, Refusal>, PurchaseError> {
        if let Some(looked) = self.look(user, voucher) {
            return Ok(looked);
        }
        match self.catalog.sale(voucher).await {
            Ok(Some(sale)) => Ok(self.look_at(user, sale)),
            Ok(None) => Ok(Err(self.refused(Refusal::VoucherNotFound))),
            Err(error) => Err(self.failed(error.into())),
        }
    }

    /// What memory says of an attempt of `user` to buy `voucher`: a refusal, a request to
    /// [`Purchases::sell`] to, or nothing, and then [`Purchases::find`] asks the database.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn look(&self, user: UserId, voucher: VoucherId) -> Option<Result<Request, Refusal>> {
        self.catalog.known(voucher).map(|sale| self.look_at(user, sale))
    }

    fn look_at(&self, user: UserId, sale: Arc<Sale>) -> Result<Request, Refusal> {
        let at = self.clock.now();
        let refusal = match sale.status_at(at) {
            SaleStatus::OnSale => match self.bought.order(user, sale.voucher.id) {
                Some(order_id) => Refusal::AlreadyBought { order_id },
                None => return Ok(Request { user, sale, at, pass: None }),
            },
            SaleStatus::Upcoming => Refusal::SaleNotStarted { begin_time: sale.voucher.begin_time },
            SaleStatus::SoldOut => Refusal::SoldOut,
            SaleStatus::Ended => Refusal::SaleEnded,
        };
        Err(self.refused(refusal))
    }

    fn refused(&self, refusal: Refusal) -> Refusal {
        self.counted.count(refusal.code());
        refusal
    }

    /// Lets a request be under way, before it is sold to.
    ///
    /// # Errors
    /// When that would be one too many, or the buyer was told to come later than he did. With
    /// what is to be held for as long as he is not listened to, if he is not to be.
    pub fn admit(&self, request: &mut Request, comer: Comer) -> Result<(), Option<Benched>> {
        let pass = self.gate.enter(comer).inspect_err(|_| self.counted.count(UNAVAILABLE))?;
        request.pass = Some(pass);
        Ok(())
    }

    /// Sells to a request that memory had nothing against. As [`Purchases::buy`], of which it is
    /// the second half.
    ///
    /// # Errors
    /// See [`PurchaseError`].
    pub async fn sell(&self, mut request: Request) -> Result<Outcome, PurchaseError> {
        if request.pass.is_none() && self.admit(&mut request, Comer::default()).is_err() {
            return Err(PurchaseError::Overloaded);
        }
        let (user, voucher) = (request.user, request.sale.voucher.id);
        let outcome = Arc::clone(&self.strategy).purchase(request).await;
        if let Ok(outcome) = &outcome {
            self.bought.remember(user, voucher, outcome);
        }
        if !matches!(outcome, Err(PurchaseError::Overloaded)) {
            self.gate.served();
        }
        self.count(outcome)
    }

    fn count(&self, outcome: Result<Outcome, PurchaseError>) -> Result<Outcome, PurchaseError> {
        outcome
            .inspect(|outcome| self.counted.count(outcome.code()))
            .map_err(|error| self.failed(error))
    }

    fn failed(&self, error: PurchaseError) -> PurchaseError {
        self.counted.count(if error.retry_may_help() { UNAVAILABLE } else { INTERNAL_ERROR });
        error
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
        self.strategy.shutdown().await;
    }
}

const UNAVAILABLE: &str = "unavailable";
const INTERNAL_ERROR: &str = "internal_error";

/// The counters by outcome. To look one up costs more than to count, so they are at hand.
struct Counted(Vec<(&'static str, Counter)>);

impl std::fmt::Debug for Counted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Counted").finish_non_exhaustive()
    }
}

impl Counted {
    fn new() -> Self {
        let codes = Outcome::CODES.into_iter().chain([UNAVAILABLE, INTERNAL_ERROR]);
        let counter = |code| metrics::counter!("seckill_purchases_total", "outcome" => code);
        Self(codes.map(|code| (code, counter(code))).collect())
    }

    fn count(&self, code: &str) {
        if let Some((_, counter)) = self.0.iter().find(|(name, _)| *name == code) {
            counter.increment(1);
        }
    }
}
