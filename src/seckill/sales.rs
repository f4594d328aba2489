//! What a process remembers of the vouchers, so that most requests of a rush cost no store a thing.
//! Nothing is remembered for longer than a second: a refusal from memory is wrong for no longer than
//! that, whatever others do to the stock.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use quick_cache::sync::Cache;
use tokio::time::Instant;

use super::breaker::Breaker;
use crate::batch::{Batcher, Limits};
use crate::model::{Refusal, SaleStatus, Voucher, VoucherId};
use crate::store::{Database, Service, StoreError, vouchers};

/// Below the promised second, for the reading itself takes a moment.
const REMEMBERED_FOR: Duration = Duration::from_millis(900);

/// Vouchers remembered at once; also bounds what a flood of made-up ids can occupy.
const MAX_REMEMBERED: usize = 10_000;

/// One query reads the vouchers of all requests that wait.
const READS: Limits = Limits { batch: 1024, waiting: 16_384, leaders: 1 };

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
    fn new(voucher: Voucher, breaker: Arc<Breaker>) -> Self {
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

    /// Why the voucher cannot be bought at `now`; `None`: the sale is on.
    pub fn refusal_at(&self, now: DateTime<Utc>) -> Option<Refusal> {
        match self.status_at(now) {
            SaleStatus::OnSale => None,
            SaleStatus::SoldOut => Some(Refusal::SoldOut),
            SaleStatus::Ended => Some(Refusal::SaleEnded),
            SaleStatus::Upcoming => {
                Some(Refusal::SaleNotStarted { begin_time: self.voucher.begin_time })
            }
        }
    }
}

/// The result of a read: a sale, or that there is none. Its age counts from just before it was read.
#[derive(Debug, Clone)]
struct Known {
    sale: Option<Arc<Sale>>,
    read_at: Instant,
}

impl Known {
    fn is_fresh(&self) -> bool {
        self.read_at.elapsed() <= REMEMBERED_FOR
    }
}

type Cached = Arc<Cache<VoucherId, Known>>;

/// Remembers sales for up to a second, and that there is none by some id.
#[derive(Debug)]
pub struct Sales {
    cache: Cached,
    reads: Batcher<VoucherId, Option<Arc<Sale>>, StoreError>,
}

impl Sales {
    /// The sales that `database` holds.
    pub fn new(database: Database) -> Self {
        let cache: Cached = Arc::new(Cache::new(MAX_REMEMBERED));
        let shared = Arc::clone(&cache);
        let reads = Batcher::new(READS, move |ids: Vec<VoucherId>| {
            let (database, cache) = (database.clone(), Arc::clone(&shared));
            async move { read(&database, &cache, &ids).await }
        });
        Self { cache, reads }
    }

    /// The voucher's sale; `None`: there is no such voucher. Requests that miss together read
    /// together.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn find(&self, id: VoucherId) -> Result<Option<Arc<Sale>>, StoreError> {
        if let Some(known) = self.cache.get(&id).filter(Known::is_fresh) {
            return Ok(known.sale);
        }
        let read = self.reads.submit(id).await;
        read.map_err(|error| StoreError::from_batch(Service::Postgres, error))
    }
}

/// The sales of `ids`: from memory where another batch has just read them, else from the database.
async fn read(
    database: &Database,
    cache: &Cache<VoucherId, Known>,
    ids: &[VoucherId],
) -> Result<Vec<Option<Arc<Sale>>>, StoreError> {
    let mut sales: HashMap<VoucherId, Option<Arc<Sale>>> = HashMap::new();
    let mut unknown = HashSet::new();
    for id in ids {
        match cache.get(id).filter(Known::is_fresh) {
            Some(known) => _ = sales.insert(*id, known.sale),
            None => _ = unknown.insert(*id),
        }
    }
    if !unknown.is_empty() {
        let read_at = Instant::now();
        let unknown: Vec<VoucherId> = unknown.into_iter().collect();
        for voucher in vouchers::find_all(database.pool(), &unknown).await? {
            let earlier = cache.get(&voucher.id).and_then(|known| known.sale);
            let breaker = earlier.map(|sale| Arc::clone(&sale.breaker)).unwrap_or_default();
            sales.insert(voucher.id, Some(Arc::new(Sale::new(voucher, breaker))));
        }
        for id in unknown {
            let sale = sales.get(&id).cloned().flatten();
            cache.insert(id, Known { sale, read_at });
        }
    }
    Ok(ids.iter().map(|id| sales.get(id).cloned().flatten()).collect())
}
