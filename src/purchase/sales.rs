//! The vouchers as this process knows them, so that most requests of a rush need no store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use quick_cache::sync::Cache;
use tokio::time::{Instant, sleep};

use super::breaker::Breaker;
use crate::model::{Code, Member, Refusal, SaleStatus, Voucher, VoucherId};
use crate::store::{Database, DatabaseClock, FRESH_FOR, Service, StoreError, vouchers};
use group_commit::{Batcher, Limits};

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

/// A sale and when it was read: just before, so that its age is never underestimated.
#[derive(Debug, Clone)]
struct RecentSale {
    sale: Arc<Sale>,
    /// `None`: it has changed since.
    read_at: Option<Instant>,
    /// When it was known to have changed.
    changed_at: Option<Instant>,
}

impl RecentSale {
    fn is_fresh(&self) -> bool {
        self.read_at.is_some_and(|read_at| read_at.elapsed() <= FRESH_FOR)
    }
}

type Memory = Arc<Cache<VoucherId, RecentSale>>;
type SaleRead = Result<Option<Arc<Sale>>, StoreError>;
type Reads = Batcher<VoucherId, SaleRead, StoreError>;

/// Remembers sales for [`FRESH_FOR`].
#[derive(Debug)]
pub struct Sales {
    memory: Memory,
    refreshes: Reads,
    lookups: Reads,
}

impl Sales {
    /// The sales that `database` holds. Each read tells `clock` the database's time.
    pub fn new(database: &Database, clock: &Arc<DatabaseClock>) -> Self {
        let memory: Memory = Arc::new(Cache::new(MAX_REMEMBERED));
        let reads = |limits: Limits| -> Reads {
            let (database, clock) = (database.clone(), Arc::clone(clock));
            let memory = Arc::clone(&memory);
            Batcher::new(limits, move |ids: Vec<VoucherId>| {
                let (database, clock) = (database.clone(), Arc::clone(&clock));
                let memory = Arc::clone(&memory);
                async move { read(&database, &clock, &memory, &ids).await }
            })
        };
        let refreshes = reads(REFRESHES);
        let lookups = reads(LOOKUPS);
        Self { memory, refreshes, lookups }
    }

    /// The voucher was changed: what memory knows of it is read anew.
    pub fn forget(&self, id: VoucherId) {
        // Not removed: its circuit breaker stays, and those who wait for it are no look-ups of an unknown id.
        if let Some(RecentSale { sale, .. }) = self.memory.get(&id) {
            let changed_at = Some(Instant::now());
            self.memory.insert(id, RecentSale { sale, read_at: None, changed_at });
        }
    }

    /// Whether memory has the voucher, old or new. What it does not have may be made up.
    pub fn remembers(&self, id: VoucherId) -> bool {
        self.memory.get(&id).is_some()
    }

    /// The voucher's sale; `None`: there is no such voucher. Requests that miss together read
    /// together.
    ///
    /// # Errors
    /// When the database does not answer, or too many ask for ids that memory does not have.
    pub async fn find(&self, id: VoucherId) -> Result<Option<Arc<Sale>>, StoreError> {
        let reads = match self.memory.get(&id) {
            Some(remembered) if remembered.is_fresh() => return Ok(Some(remembered.sale)),
            Some(_) => &self.refreshes,
            None => &self.lookups,
        };
        StoreError::of_read(Service::Postgres, reads.submit(id).await)
    }
}

/// The sales of `ids`, in their order: from memory where another batch has just read them, else from the
/// database.
async fn read(
    database: &Database,
    clock: &DatabaseClock,
    memory: &Cache<VoucherId, RecentSale>,
    ids: &[VoucherId],
) -> Result<Vec<SaleRead>, StoreError> {
    let mut sales: HashMap<VoucherId, SaleRead> = HashMap::new();
    let mut missing = HashSet::new();
    for id in ids {
        match memory.get(id).filter(RecentSale::is_fresh) {
            Some(remembered) => _ = sales.insert(*id, Ok(Some(remembered.sale))),
            None => _ = missing.insert(*id),
        }
    }
    if !missing.is_empty() {
        let read_at = Some(Instant::now());
        let missing: Vec<VoucherId> = missing.into_iter().collect();
        let found = find_each(database, clock, &missing).await?;
        if found.is_empty() {
            sleep(PAUSE_AFTER_NOTHING).await;
        }
        for (id, voucher) in found {
            let sale = voucher.map(|voucher| {
                let earlier = memory.get(&id);
                let changed_at = earlier.as_ref().and_then(|earlier| earlier.changed_at);
                // What was read before a change is of no use after it.
                let read_at = read_at.filter(|_| changed_at <= read_at);
                let earlier = earlier.map(|earlier| earlier.sale);
                let sale = Arc::new(Sale::new(voucher, earlier.as_deref()));
                memory.insert(id, RecentSale { sale: Arc::clone(&sale), read_at, changed_at });
                Some(sale)
            });
            sales.insert(id, sale);
        }
    }
    Ok(ids.iter().map(|id| sales.get(id).cloned().unwrap_or(Ok(None))).collect())
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
) -> Result<Vec<(VoucherId, Result<Voucher, StoreError>)>, StoreError> {
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
