//! The vouchers as this process knows them, so that most requests of a rush need no store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::time::{Instant, sleep};

use super::breaker::Breaker;
use crate::model::{Code, Member, Refusal, SaleStatus, Voucher, VoucherId};
use crate::store::read_cache::{Found, Memory};
use crate::store::{Database, DatabaseClock, ReadCache, Service, StoreError, vouchers};
use group_commit::Limits;

/// Vouchers remembered at once. Ids without a voucher are not remembered: a flood of them evicts no
/// voucher, and a voucher is on sale everywhere as soon as it is there.
const MAX_REMEMBERED: usize = 10_000;

/// One query reads anew the vouchers of all requests that wait.
const REFRESHES: Limits = Limits::batches_of(1024);

/// The same for ids that memory does not have. They have a queue of their own, so that a flood of made-up
/// ids delays no refresh. The queue is long (64 batches): a process that has just started knows no
/// voucher, and a whole crowd may come for one.
const LOOKUPS: Limits = Limits::batches_of(256);
/// Where each voucher is read by itself, so many are read at once: a quarter of the purchases' connections.
const READS_AT_ONCE: usize = 2;
/// A look-up that found nothing waits this long before the next one begins: it bounds how often a flood
/// of made-up ids makes the database look.
const PAUSE_AFTER_NOTHING: Duration = Duration::from_millis(5);

/// A voucher as the process knows it.
#[derive(Debug)]
pub struct Sale {
    /// The voucher as it was read, its stock included.
    pub voucher: Voucher,
    /// Whether orders of this voucher can be written. It stays when the voucher is read again.
    pub breaker: Arc<Breaker>,
    sold_out: AtomicBool,
}

impl Sale {
    /// The sale of `voucher`, which was read when memory had `earlier`.
    fn new(voucher: Voucher, earlier: Option<&Self>) -> Self {
        let breaker = earlier.map(|earlier| Arc::clone(&earlier.breaker)).unwrap_or_default();
        Self { voucher, breaker, sold_out: AtomicBool::new(false) }
    }

    /// The database said that nothing is left.
    pub fn mark_sold_out(&self) {
        self.sold_out.store(true, Ordering::Relaxed);
    }

    /// Where the sale stands at `now`, with what was learnt since it was read.
    pub fn status_at(&self, now: DateTime<Utc>) -> SaleStatus {
        match self.voucher.status_at(now) {
            SaleStatus::OnSale if self.sold_out.load(Ordering::Relaxed) => SaleStatus::SoldOut,
            status => status,
        }
    }

    /// How many live orders there may be at `now`. A sale that has not begun has none unless its beginning
    /// was moved.
    pub(super) fn max_orders(&self, now: DateTime<Utc>) -> u64 {
        let Voucher { stock, initial_stock, begin_time, .. } = self.voucher;
        let most = if begin_time <= now { initial_stock } else { initial_stock - stock };
        most.max(0).unsigned_abs().into()
    }

    /// Why the voucher cannot be bought at `now`; `None`: the sale is on.
    pub fn refusal_at(&self, now: DateTime<Utc>) -> Option<Refusal> {
        match self.status_at(now) {
            SaleStatus::OnSale => None,
            SaleStatus::SoldOut => Some(Code::SoldOut.into()),
            SaleStatus::Ended => Some(Code::SaleEnded.into()),
            SaleStatus::Paused => Some(Code::SalePaused.into()),
            SaleStatus::DrawOpen => Some(Code::DrawOpen.into()),
            SaleStatus::LineOpen => Some(Code::LineOpen.into()),
            SaleStatus::Upcoming => {
                let begins = Member::BeginTime(self.voucher.begin_time);
                Some(Refusal::from(Code::SaleNotStarted).with(begins))
            }
        }
    }
}

/// Remembers sales for [`FRESH_FOR`](crate::store::FRESH_FOR).
#[derive(Debug)]
pub struct Sales(ReadCache<VoucherId, Arc<Sale>>);

impl Sales {
    /// The sales that `database` holds. Each read tells `clock` the database's time.
    pub fn new(database: &Database, clock: &Arc<DatabaseClock>) -> Self {
        let (database, clock) = (database.clone(), Arc::clone(clock));
        let limits = [REFRESHES, LOOKUPS];
        let read = move |memory: Arc<Memory<VoucherId, Arc<Sale>>>, ids: Vec<VoucherId>| {
            let (database, clock) = (database.clone(), Arc::clone(&clock));
            async move {
                let read_at = Instant::now();
                let found = find_each(&database, &clock, &ids).await?;
                if found.is_empty() {
                    sleep(PAUSE_AFTER_NOTHING).await;
                }
                let keep = |(id, voucher): (VoucherId, Result<Voucher, StoreError>)| {
                    let sale = voucher.map(|voucher| {
                        let sale = Arc::new(Sale::new(voucher, memory.get(&id).as_deref()));
                        memory.keep(id, Arc::clone(&sale), read_at);
                        sale
                    });
                    (id, sale)
                };
                Ok(found.into_iter().map(keep).collect())
            }
        };
        Self(ReadCache::of_many(Service::Postgres, MAX_REMEMBERED, limits, read))
    }

    /// The voucher was changed: what memory knows of it is read anew. Its circuit breaker stays, and those who wait for it
    /// are no look-ups of an unknown id.
    pub fn forget(&self, id: VoucherId) {
        self.0.forget(id);
    }

    /// Whether memory has the voucher, old or new. What it does not have may be made up.
    pub fn remembers(&self, id: VoucherId) -> bool {
        self.0.remembers(&id)
    }

    /// The voucher's sale; `None`: there is no such voucher.
    ///
    /// # Errors
    /// When the database does not answer, or too many ask for ids that memory does not have.
    pub async fn find(&self, id: VoucherId) -> Result<Option<Arc<Sale>>, StoreError> {
        self.0.find(id).await
    }
}

/// The vouchers with these `ids`, read together. Where a worker of Citus is away, each is read by itself,
/// and the vouchers on the other workers sell on.
///
/// # Errors
/// When the database itself does not answer: then no further voucher is asked for.
async fn find_each(
    database: &Database,
    clock: &DatabaseClock,
    ids: &[VoucherId],
) -> Result<Found<VoucherId, Voucher>, StoreError> {
    let find = async |ids: &[VoucherId]| {
        let found = vouchers::find_all(database.purchases(), ids, clock).await?;
        Ok(found.into_iter().map(|voucher| (voucher.id, Ok(voucher))).collect::<Vec<_>>())
    };
    match find(ids).await {
        Err(error) if ids.len() > 1 && StoreError::is_about_one_worker(&error) => {}
        found => return found,
    }
    let reads = stream::iter(ids.to_vec()).map(async |id| match find(&[id]).await {
        Err(error) if error.is_about_one_worker() => Ok(vec![(id, Err(error))]),
        found => found,
    });
    reads.buffer_unordered(READS_AT_ONCE).try_concat().await
}
