//! One rung's service: its design, built when the first buyer comes, and its vouchers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context;
use quick_cache::sync::Cache;
use sqlx::postgres::PgPool;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::buyers::Register;
use super::problem::{self, NO_PURCHASE};
use crate::lock_servers::LockServers;
use crate::sale;
use crate::world::World;
use faults::FaultError;
use ladder::{Design, Purchase, Resources, Rung, RungError, Work, WorkTurn};
use seckill::http::ApiError;
use seckill::http::problem::Code;
use seckill::model::{UserId, VoucherId};
use seckill::purchase::audit::VoucherAudit;

/// Vouchers that one service puts on sale in its life.
const MAX_VOUCHERS: usize = 10_000;

/// How long it may take until a rung is ready to sell, its servers included.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How long a rung that could not be made ready is left alone: the next thousand buyers hear
/// what the first one heard, instead of each waiting for another try.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long a rung may take to give back what it holds.
const SHUT_WITHIN: Duration = Duration::from_secs(10);

/// As long as the production lock's: nobody's purchase takes longer unless something happens
/// to it.
const LEASE: Duration = Duration::from_secs(30);

/// How long a consumer that found nothing waits before it looks again.
const IDLE: Duration = Duration::from_millis(10);

/// How long one that failed does.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Where one rung sells.
pub(super) struct RungService {
    pub(super) rung: &'static Rung,
    supply: Supply,
    /// For what is not a purchase.
    looks: PgPool,
    register: Option<Register>,
    readiness: Mutex<RungReadiness>,
    /// Vouchers that are this rung's for certain.
    own: Cache<VoucherId, ()>,
    vouchers: AtomicUsize,
    /// Whether a failure has been told aloud.
    told: AtomicBool,
}

/// Where a rung gets what it works with.
pub(super) enum Supply {
    /// It is there.
    Given(Resources),
    /// The lock's servers are started when the first buyer comes.
    Started {
        /// Gone when all is over.
        world: Weak<World>,
        /// The connections that the rung shares with those that have the same tables: a pool
        /// for each would be more than the server takes.
        database: PgPool,
        /// The same, as a URL.
        database_url: String,
        /// Names of its own: what one rung writes under a lock's name another cannot read.
        key_prefix: String,
    },
}

enum RungReadiness {
    NotTried,
    Ready(Ready),
    Failed(Instant, ApiError),
}

/// A rung that can sell.
struct Ready {
    design: Arc<dyn Design>,
    /// What writes later, where the rung does so.
    _consumer: Option<AbortOnDropHandle<()>>,
    /// They live as long as it does.
    _servers: LockServers,
}

impl RungService {
    pub(super) fn new(
        rung: &'static Rung,
        supply: Supply,
        looks: PgPool,
        register: Option<Register>,
    ) -> Self {
        Self {
            rung,
            supply,
            looks,
            register,
            readiness: Mutex::new(RungReadiness::NotTried),
            own: Cache::new(MAX_VOUCHERS),
            vouchers: AtomicUsize::new(0),
            told: AtomicBool::new(false),
        }
    }

    /// Makes the rung ready to sell before anybody comes.
    pub(super) async fn open(&self) -> anyhow::Result<()> {
        let ready = self.ready().await?;
        *self.readiness.lock().await = RungReadiness::Ready(ready);
        Ok(())
    }

    async fn ready(&self) -> anyhow::Result<Ready> {
        let (resources, servers) = match &self.supply {
            Supply::Given(resources) => (resources.clone(), LockServers::default()),
            Supply::Started { world, database, database_url, key_prefix } => {
                let world = world.upgrade().context("the lab is over")?;
                let servers = LockServers::start(&world, self.rung).await?;
                let (redis_urls, zookeeper) = (&servers.redis_urls, servers.zookeeper.clone());
                let resources = Resources::open(database_url, redis_urls, zookeeper, key_prefix)?;
                (Resources { database: database.clone(), ..resources }, servers)
            }
        };
        let design: Arc<dyn Design> = (self.rung.build)(resources).await?.into();
        let mut consumer = None;
        if self.rung.has_consumer() {
            design.start_consumer().await?;
            let consuming = consume(self.rung, Arc::clone(&design));
            consumer = Some(AbortOnDropHandle::new(tokio::spawn(consuming)));
        }
        Ok(Ready { design, _consumer: consumer, _servers: servers })
    }

    async fn design(&self) -> Result<Arc<dyn Design>, ApiError> {
        let mut readiness = self.readiness.lock().await;
        match &*readiness {
            RungReadiness::Ready(ready) => return Ok(Arc::clone(&ready.design)),
            RungReadiness::Failed(when, why) if when.elapsed() < TRIED_AGAIN_AFTER => {
                return Err(why.clone());
            }
            RungReadiness::Failed(..) | RungReadiness::NotTried => {}
        }
        let ready = timeout(READY_WITHIN, self.ready()).await;
        match ready.map_err(anyhow::Error::from).flatten() {
            Ok(ready) => {
                let design = Arc::clone(&ready.design);
                *readiness = RungReadiness::Ready(ready);
                Ok(design)
            }
            Err(error) => {
                let why = not_ready(&error);
                *readiness = RungReadiness::Failed(Instant::now(), why.clone());
                Err(why)
            }
        }
    }

    /// Puts a voucher on sale.
    pub(super) async fn put_on_sale(&self, stock: i32) -> Result<VoucherId, ApiError> {
        if self.vouchers.fetch_add(1, Ordering::Relaxed) >= MAX_VOUCHERS {
            return Err(problem::unavailable(format!(
                "{MAX_VOUCHERS} vouchers are enough for one run of the lab: start it anew"
            )));
        }
        let voucher =
            sale::put_on_sale(&self.looks, self.rung, stock).await.map_err(problem::of_database)?;
        self.own.insert(voucher, ());
        Ok(voucher)
    }

    /// What the books of one of the rung's vouchers say.
    pub(super) async fn books(&self, voucher: VoucherId) -> Result<VoucherAudit, ApiError> {
        self.check(voucher).await?;
        let books = sale::books(&self.looks, voucher).await?;
        books.ok_or_else(|| self.no_such(voucher))
    }

    /// Whether the rung sells `voucher`.
    pub(super) async fn check(&self, voucher: VoucherId) -> Result<(), ApiError> {
        let asked = self.own.get_or_insert_async(&voucher, async {
            match sale::is_of(&self.looks, self.rung, voucher).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(self.no_such(voucher)),
                Err(error) => Err(problem::of_database(error)),
            }
        });
        asked.await
    }

    fn no_such(&self, voucher: VoucherId) -> ApiError {
        ApiError::new(Code::VoucherNotFound)
            .detail(format!("voucher {voucher} is not on sale at {}", self.rung.id))
    }

    /// One attempt to buy.
    pub(super) async fn buy(
        &self,
        user: UserId,
        voucher: VoucherId,
    ) -> Result<Option<i64>, ApiError> {
        let design = self.design().await?;
        let purchase = purchase(user, voucher);
        let answer = design.buy(&purchase).await.map_err(|error| self.unanswered(&error))?;
        let order = problem::order_of(answer)?;
        if let Some(register) = &self.register {
            register.bought(user).await;
        }
        Ok(order)
    }

    /// What became of an attempt: what the rung says to a buyer it has accepted, or the order in the
    /// database.
    pub(super) async fn status(
        &self,
        user: UserId,
        voucher: VoucherId,
    ) -> Result<Option<i64>, ApiError> {
        let design = self.design().await?;
        let told = design.status(&purchase(user, voucher)).await;
        match told.map_err(|error| self.unanswered(&error))? {
            Some(answer) => problem::order_of(answer),
            None => {
                let order = sale::order_of(&self.looks, user, voucher).await;
                let order = order.map_err(problem::of_database)?;
                order.map(Some).ok_or_else(|| ApiError::new(&NO_PURCHASE))
            }
        }
    }

    /// Logs why there is no answer: aloud once, because the next thousand have the same reason.
    fn unanswered(&self, error: &RungError) -> ApiError {
        if self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(rung = self.rung.id, %error, "answered 503");
        } else {
            tracing::error!(rung = self.rung.id, %error, "the first to be answered 503");
        }
        problem::of_rung(error)
    }

    /// Has the rung give back what it holds.
    pub(super) async fn close(&self) {
        let readiness = self.readiness.lock().await;
        if let RungReadiness::Ready(ready) = &*readiness
            && timeout(SHUT_WITHIN, ready.design.shutdown()).await.is_err()
        {
            tracing::warn!(rung = self.rung.id, "the rung did not shut down in time");
        }
    }
}

fn purchase(user: UserId, voucher: VoucherId) -> Purchase {
    Purchase {
        user,
        voucher,
        lease: LEASE,
        patience: Purchase::PATIENCE,
        also: None,
        request: Uuid::new_v4(),
        director: None,
    }
}

/// A rung's consumer, turn by turn.
async fn consume(rung: &'static Rung, design: Arc<dyn Design>) {
    loop {
        match design.write_next(&Work::default()).await {
            Ok(WorkTurn::Idle) => sleep(IDLE).await,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(rung = rung.id, %error, "a consumer failed");
                sleep(AFTER_FAILURE).await;
            }
        }
    }
}

/// Why nobody can buy here. What a rung lacks, and how to come by it, is said in a sentence.
fn not_ready(error: &anyhow::Error) -> ApiError {
    tracing::warn!(%error, "a rung is not ready to sell");
    if let Some(error) = error.downcast_ref::<RungError>() {
        return problem::of_rung(error);
    }
    match error.downcast_ref::<FaultError>() {
        Some(error) => problem::unavailable(error.to_string()),
        None => problem::unavailable("the rung could not be made ready to sell"),
    }
}
