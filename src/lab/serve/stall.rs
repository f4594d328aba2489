//! One rung's stall: its design, built when the first buyer comes, and its vouchers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use moka::future::Cache;
use sqlx::postgres::PgPool;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::buyers::Register;
use super::problem::{Code, Problem};
use crate::lab::sale;
use crate::ladder::{Design, Rung, RungError, Shop, Visit};
use crate::model::{UserId, VoucherId};
use crate::seckill::audit::VoucherAudit;

/// Vouchers that one stall puts on sale in its life.
const MAX_VOUCHERS: usize = 10_000;

/// How long it may take until a rung is ready to sell.
const BUILT_WITHIN: Duration = Duration::from_secs(10);

/// How long a rung that could not be made ready is left alone: the thousands who came
/// meanwhile hear what the first heard, instead of each waiting for a try of his own.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long a rung may take to give back what it holds.
const SHUT_WITHIN: Duration = Duration::from_secs(10);

/// As long as the production lock's: nobody's purchase takes longer unless something happens
/// to it.
const LEASE: Duration = Duration::from_secs(30);

/// Where one rung sells.
pub(super) struct Stall {
    pub(super) rung: &'static Rung,
    shop: Shop,
    /// For what is not a purchase.
    looks: PgPool,
    register: Option<Register>,
    readiness: Mutex<Readiness>,
    /// Vouchers that are this rung's for certain.
    own: Cache<VoucherId, ()>,
    vouchers: AtomicUsize,
}

enum Readiness {
    NotTried,
    Ready(Arc<dyn Design>),
    Failed(Instant, Problem),
}

impl Stall {
    pub(super) fn new(
        rung: &'static Rung,
        shop: Shop,
        looks: PgPool,
        register: Option<Register>,
    ) -> Self {
        Self {
            rung,
            shop,
            looks,
            register,
            readiness: Mutex::new(Readiness::NotTried),
            own: Cache::new(MAX_VOUCHERS as u64),
            vouchers: AtomicUsize::new(0),
        }
    }

    /// Makes the rung ready to sell before anybody comes.
    ///
    /// # Errors
    /// When it cannot be built.
    pub(super) async fn open(&self) -> Result<(), RungError> {
        let design = self.build().await?;
        *self.readiness.lock().await = Readiness::Ready(design);
        Ok(())
    }

    async fn build(&self) -> Result<Arc<dyn Design>, RungError> {
        let built = timeout(BUILT_WITHIN, (self.rung.build)(self.shop.clone())).await;
        Ok(built.map_err(|_| RungError::Lacks("servers that answer"))??.into())
    }

    async fn design(&self) -> Result<Arc<dyn Design>, Problem> {
        let mut readiness = self.readiness.lock().await;
        match &*readiness {
            Readiness::Ready(design) => return Ok(Arc::clone(design)),
            Readiness::Failed(when, why) if when.elapsed() < TRIED_AGAIN_AFTER => {
                return Err(why.clone());
            }
            Readiness::Failed(..) | Readiness::NotTried => {}
        }
        match self.build().await {
            Ok(design) => {
                *readiness = Readiness::Ready(Arc::clone(&design));
                Ok(design)
            }
            Err(error) => {
                let why = Problem::from(error);
                *readiness = Readiness::Failed(Instant::now(), why.clone());
                Err(why)
            }
        }
    }

    /// Puts a voucher on sale.
    pub(super) async fn put_on_sale(&self, stock: i32) -> Result<VoucherId, Problem> {
        if self.vouchers.fetch_add(1, Ordering::Relaxed) >= MAX_VOUCHERS {
            return Err(Problem::unavailable(format!(
                "{MAX_VOUCHERS} vouchers are enough for one run of the lab: start it anew"
            )));
        }
        let voucher = sale::put_on_sale(&self.looks, self.rung, stock).await?;
        self.own.insert(voucher, ()).await;
        Ok(voucher)
    }

    /// What the books of one of the rung's vouchers say.
    pub(super) async fn books(&self, voucher: VoucherId) -> Result<VoucherAudit, Problem> {
        self.check(voucher).await?;
        let books = sale::books(&self.looks, voucher).await?;
        books.ok_or_else(|| self.no_such(voucher))
    }

    /// Whether the rung sells `voucher`.
    pub(super) async fn check(&self, voucher: VoucherId) -> Result<(), Problem> {
        let asked = self.own.try_get_with(voucher, async {
            match sale::is_of(&self.looks, self.rung, voucher).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(self.no_such(voucher)),
                Err(error) => Err(error.into()),
            }
        });
        asked.await.map_err(|problem: Arc<Problem>| Problem::clone(&problem))
    }

    fn no_such(&self, voucher: VoucherId) -> Problem {
        let problem = Problem::new(Code::VoucherNotFound);
        problem.detail(format!("voucher {voucher} is not on sale at {}", self.rung.id))
    }

    /// One attempt to buy.
    pub(super) async fn buy(&self, user: UserId, voucher: VoucherId) -> Result<i64, Problem> {
        let design = self.design().await?;
        let visit = Visit { user, voucher, lease: LEASE, also: None, director: None };
        let order = Problem::refusal(design.buy(&visit).await?)?;
        if let Some(register) = &self.register {
            register.bought(user).await;
        }
        Ok(order)
    }

    /// Has the rung give back what it holds.
    pub(super) async fn close(&self) {
        let readiness = self.readiness.lock().await;
        if let Readiness::Ready(design) = &*readiness
            && timeout(SHUT_WITHIN, design.shutdown()).await.is_err()
        {
            tracing::warn!(rung = self.rung.id, "the rung did not shut down in time");
        }
    }
}
