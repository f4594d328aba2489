//! What a process remembers of the vouchers, so that most requests of a rush cost neither
//! store a thing. Nothing is remembered for longer than a second: a refusal from memory
//! is wrong for no longer than that, whatever happens to the stock behind our back. What is asked
//! for is read anew before that, so that nobody waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use moka::future::Cache;
use tokio::time::Instant;

use super::admission::HotRow;
use crate::model::{SaleStatus, Voucher, VoucherId};
use crate::store::{Database, Service, StoreError, vouchers};

/// Below the promised second, for the reading itself takes a moment.
const REMEMBERED_FOR: Duration = Duration::from_millis(900);

/// What is asked for at this age is read anew meanwhile, so that of a voucher that sells nobody
/// waits for the reading.
const READ_ANEW_AFTER: Duration = Duration::from_millis(500);

/// Vouchers remembered at once; also bounds what a flood of made-up ids can occupy.
const MAX_REMEMBERED: u64 = 10_000;

/// Vouchers of which what was read last is at hand.
const SLOTS: usize = 256;

/// A voucher as the process knows it.
#[derive(Debug)]
pub struct Sale {
    /// The voucher as it was read, its stock included.
    pub voucher: Voucher,
    /// Lets few purchases of this voucher touch its row at once. Survives the reading
    /// anew of the voucher.
    pub hot_row: Arc<HotRow>,
    sold_out: AtomicBool,
    /// Just before it was read.
    read_at: Instant,
    is_read_anew: AtomicBool,
}

impl Sale {
    pub(super) fn new(voucher: Voucher, hot_row: Arc<HotRow>, read_at: Instant) -> Self {
        let (sold_out, is_read_anew) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { voucher, hot_row, sold_out, read_at, is_read_anew }
    }

    /// Says yes to one who asks. Only he writes: the others come by the ten thousand a second.
    fn is_to_be_read_anew(&self) -> bool {
        !self.is_read_anew.load(Ordering::Relaxed)
            && !self.is_read_anew.swap(true, Ordering::Relaxed)
    }

    /// The database said that nothing is left.
    pub fn mark_sold_out(&self) {
        self.sold_out.store(true, Ordering::Relaxed);
    }

    /// Where the sale stands at `now`, with what was learnt since it was read.
    pub fn status_at(&self, now: chrono::DateTime<chrono::Utc>) -> SaleStatus {
        match self.voucher.status_at(now) {
            SaleStatus::OnSale if self.sold_out.load(Ordering::Relaxed) => SaleStatus::SoldOut,
            status => status,
        }
    }
}

/// Remembers vouchers for up to a second, and that there is none by some id.
#[derive(Debug, Clone)]
pub struct Catalog {
    database: Database,
    hot_row_width: usize,
    sales: Cache<VoucherId, Option<Arc<Sale>>>,
    /// What was read last of what, for who asks by the ten thousand a second: to ask the cache
    /// costs as much as half of all else that a refusal from memory takes.
    recent: Arc<[RwLock<Option<Arc<Sale>>>]>,
    hot_rows: Cache<VoucherId, Arc<HotRow>>,
}

impl Catalog {
    /// A catalog of what `database` holds; `hot_row_width` purchases of a voucher may be
    /// in the database at once.
    pub fn new(database: Database, hot_row_width: usize) -> Self {
        let sales =
            Cache::builder().max_capacity(MAX_REMEMBERED).time_to_live(REMEMBERED_FOR).build();
        let hot_rows = Cache::builder()
            .max_capacity(MAX_REMEMBERED)
            .time_to_idle(Duration::from_secs(600))
            .build();
        let recent = (0..SLOTS).map(|_| RwLock::default()).collect();
        Self { database, hot_row_width, sales, recent, hot_rows }
    }

    /// The voucher's sale, if memory has it.
    ///
    /// # Panics
    /// Outside a runtime: what is old soon is read anew on it.
    pub fn known(&self, id: VoucherId) -> Option<Arc<Sale>> {
        let slot = self.slot(id).read().unwrap_or_else(PoisonError::into_inner);
        let known = slot.clone().filter(|sale| sale.voucher.id == id)?;
        drop(slot);
        // Its time counts from before the reading, which may have been a slow one.
        let age = known.read_at.elapsed();
        if age > READ_ANEW_AFTER && known.is_to_be_read_anew() {
            let catalog = self.clone();
            tokio::spawn(async move {
                // If the database does not answer, whoever comes when this is too old hears so.
                if let Ok(read) = catalog.read(id).await {
                    catalog.sales.insert(id, read).await;
                }
            });
        }
        (age <= REMEMBERED_FOR).then_some(known)
    }

    /// The voucher's sale. Requests that miss together read together.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn sale(&self, id: VoucherId) -> Result<Option<Arc<Sale>>, Arc<StoreError>> {
        if let Some(sale) = self.sales.get(&id).await {
            // Its time counts from before the reading, which may have been a slow one.
            match &sale {
                Some(known) if known.read_at.elapsed() > REMEMBERED_FOR => {
                    self.sales.invalidate(&id).await;
                }
                _ => return Ok(sale),
            }
        }
        // In a task of its own: a buyer who hangs up must not take along the reading that
        // others wait for, and make them wait for another from its beginning.
        let catalog = self.clone();
        let read = async move { catalog.sales.try_get_with(id, catalog.read(id)).await };
        tokio::spawn(read).await.unwrap_or_else(|panic| {
            Err(Arc::new(StoreError::defect(Service::Postgres, panic.to_string())))
        })
    }

    async fn read(&self, id: VoucherId) -> Result<Option<Arc<Sale>>, StoreError> {
        let read_at = Instant::now();
        let Some(voucher) = vouchers::find(self.database.pool(), id).await? else {
            return Ok(None);
        };
        let new = async { Arc::new(HotRow::new(self.hot_row_width)) };
        let hot_row = self.hot_rows.get_with(id, new).await;
        let sale = Arc::new(Sale::new(voucher, hot_row, read_at));
        let mut slot = self.slot(id).write().unwrap_or_else(PoisonError::into_inner);
        // A reading that took longer than one that was begun after it says less.
        let newer = slot.iter().find(|other| other.voucher.id == id && other.read_at > read_at);
        let sale = newer.cloned().unwrap_or(sale);
        *slot = Some(Arc::clone(&sale));
        Ok(Some(sale))
    }

    fn slot(&self, id: VoucherId) -> &RwLock<Option<Arc<Sale>>> {
        &self.recent[id.get() as usize % SLOTS]
    }
}
