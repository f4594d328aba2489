//! The owners of orders. The owner of an order of a voucher hears of it before any refusal, on every
//! server, also after a restart.
//!
//! When a sale sells out or ends, the first refusal loads its owners into memory, and the refusals after
//! it need no store. Memory is exact as long as the voucher stays as it was read: no order of a sale that
//! is over is placed any more (`place_orders` in migrations/0002_functions.sql says why). Where the owners
//! cannot be loaded, because they are too many or the sale is on after all, one query asks for all buyers
//! who wait.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::time::Instant;

use crate::model::{OrderId, UserId, Voucher, VoucherId};
use crate::store::orders::{self, FinishedSale};
use crate::store::{Database, Service, StoreError};
use group_commit::{BatchError, Batcher, Limits};

/// Owners kept in memory, over all sales: 16 bytes each. Those of other sales make room for new ones.
const MAX_OWNERS: u64 = 250_000;
/// Sales whose owners may be in memory.
const MAX_SALES: usize = 1_000;

/// For so long after the owners of a sale could not be loaded, the database is asked for each buyer.
const POSTPONED_FOR: Duration = Duration::from_secs(1);

/// One query asks for all waiting buyers of a voucher.
const LOOKUPS: Limits = Limits { batch: 1024, waiting: 16_384, leaders: 1 };
/// Vouchers whose buyers are asked for at once: a quarter of the connections for purchases.
const VOUCHERS_AT_ONCE: usize = 2;
/// One sale after the other is loaded. A sale whose row another session holds delays the next by 500 ms.
const LOADS: Limits = Limits { batch: 1024, waiting: 16_384, leaders: 1 };

/// All owners of a sale that is over, by user.
struct SaleOwners {
    /// The voucher as it was when they were loaded. They are of no use once it has changed.
    voucher: Voucher,
    orders: Box<[(UserId, OrderId)]>,
}

impl SaleOwners {
    fn order_of(&self, user: UserId) -> Option<OrderId> {
        let found = self.orders.binary_search_by_key(&user, |(owner, _)| *owner);
        found.ok().map(|index| self.orders[index].1)
    }
}

#[derive(Clone)]
struct ByCount;

impl Weighter<VoucherId, Arc<SaleOwners>> for ByCount {
    fn weight(&self, _: &VoucherId, owners: &Arc<SaleOwners>) -> u64 {
        owners.orders.len() as u64 + 1
    }
}

struct OwnersMemory {
    owners: Cache<VoucherId, Arc<SaleOwners>, ByCount>,
    /// Vouchers whose owners are not loaded before this instant.
    postponed: Cache<VoucherId, Instant>,
}

impl OwnersMemory {
    fn owners_of(&self, voucher: &Voucher) -> Option<Arc<SaleOwners>> {
        self.owners.get(&voucher.id).filter(|owners| owners.voucher == *voucher)
    }

    fn is_postponed(&self, voucher: VoucherId) -> bool {
        self.postponed.get(&voucher).is_some_and(|until| Instant::now() < until)
    }
}

/// Finds the orders that buyers own.
pub struct OrderOwners {
    memory: Arc<OwnersMemory>,
    lookups: Batcher<(UserId, VoucherId), Result<Option<OrderId>, StoreError>, StoreError>,
    loads: Batcher<Voucher, (), StoreError>,
}

impl std::fmt::Debug for OrderOwners {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OrderOwners").finish_non_exhaustive()
    }
}

impl OrderOwners {
    pub(super) fn new(database: &Database) -> Self {
        let memory = Arc::new(OwnersMemory {
            owners: Cache::with_weighter(MAX_SALES, MAX_OWNERS, ByCount),
            postponed: Cache::new(MAX_SALES),
        });
        let asked = database.clone();
        let lookups = Batcher::new(LOOKUPS, move |buyers: Vec<(UserId, VoucherId)>| {
            let database = asked.clone();
            async move { find_owned(&database, &buyers).await }
        });
        let (database, shared) = (database.clone(), Arc::clone(&memory));
        let loads = Batcher::new(LOADS, move |vouchers: Vec<Voucher>| {
            let (database, memory) = (database.clone(), Arc::clone(&shared));
            async move {
                let mut tried = HashSet::new();
                for voucher in &vouchers {
                    if tried.insert(voucher.id) {
                        load(&database, &memory, voucher).await;
                    }
                }
                Ok(vec![(); vouchers.len()])
            }
        });
        Self { memory, lookups, loads }
    }

    /// The order that `user` has of a voucher whose sale is not on. Where memory has no owners, it loads
    /// them, and if that fails, it looks for this user: two waits for the database, one after the other.
    pub async fn find(
        &self,
        user: UserId,
        voucher: &Voucher,
    ) -> Result<Option<OrderId>, StoreError> {
        if let Some(owners) = self.memory.owners_of(voucher) {
            return Ok(owners.order_of(user));
        }
        if !self.memory.is_postponed(voucher.id) {
            self.loads.submit(voucher.clone()).await.map_err(read_error)?;
            if let Some(owners) = self.memory.owners_of(voucher) {
                return Ok(owners.order_of(user));
            }
        }
        self.find_in_database(user, voucher.id).await
    }

    /// The order that `user` has of `voucher`. One query finds it for all who ask at once.
    pub async fn find_in_database(
        &self,
        user: UserId,
        voucher: VoucherId,
    ) -> Result<Option<OrderId>, StoreError> {
        let found = self.lookups.submit((user, voucher)).await.map_err(read_error)?;
        found.map_err(StoreError::into_read_error)
    }
}

fn read_error(error: BatchError<StoreError>) -> StoreError {
    StoreError::from_batch(Service::Postgres, error).into_read_error()
}

/// The order that each buyer has of the voucher beside it, in the order of `buyers`. Where a worker of
/// Citus is away, the questions about its vouchers fail, and no others.
///
/// # Errors
/// When the database itself does not answer: then it is asked for no further voucher.
async fn find_owned(
    database: &Database,
    buyers: &[(UserId, VoucherId)],
) -> Result<Vec<Result<Option<OrderId>, StoreError>>, StoreError> {
    let mut of_vouchers: HashMap<VoucherId, Vec<UserId>> = HashMap::new();
    for (user, voucher) in buyers {
        of_vouchers.entry(*voucher).or_default().push(*user);
    }
    let reads = stream::iter(of_vouchers).map(async |(voucher, users)| {
        match orders::find_owned(database.purchases(), voucher, &users).await {
            Err(error) if !error.is_about_one_worker() => Err(error),
            found => Ok((voucher, found)),
        }
    });
    let found: HashMap<_, _> = reads.buffer_unordered(VOUCHERS_AT_ONCE).try_collect().await?;
    let order_of = |(user, voucher): &(UserId, VoucherId)| match &found[voucher] {
        Ok(orders) => Ok(orders.get(user).copied()),
        Err(error) => Err(error.clone()),
    };
    Ok(buyers.iter().map(order_of).collect())
}

/// Loads the owners of `voucher`, or postpones that.
async fn load(database: &Database, memory: &OwnersMemory, voucher: &Voucher) {
    if memory.owners_of(voucher).is_some() || memory.is_postponed(voucher.id) {
        return;
    }
    let most = MAX_OWNERS as usize;
    match orders::owners_of_finished(database.purchases(), voucher.id, most).await {
        Ok(FinishedSale::Owners(mut owners)) => {
            owners.sort_unstable();
            let loaded = SaleOwners { voucher: voucher.clone(), orders: owners.into() };
            memory.owners.insert(voucher.id, Arc::new(loaded));
            return;
        }
        Ok(FinishedSale::NotFinished | FinishedSale::TooMany) => {}
        Err(error) => tracing::debug!(%error, "the owners of a sale could not be loaded"),
    }
    memory.postponed.insert(voucher.id, Instant::now() + POSTPONED_FOR);
}
