//! The owners of live orders. The owner of an order of a voucher is told of it before any refusal, on every
//! server, also after a restart.
//!
//! Where memory does not know the owners of a sale, one query asks the database for all buyers who wait.
//! When a sale has sold out, is paused, is held for a draw or a line, or has ended, and so many have asked that a load would have cost
//! less, a task loads all of its owners into memory; the refusals after that need no store. Nobody waits
//! for a load. Memory is exact for one revision of the voucher: in such a sale no order is placed and none
//! comes back without a new revision (`place_orders` in migrations/0002_functions.sql says why).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::model::{OrderId, UserId, Voucher, VoucherId};
use crate::store::orders::{self, FinishedSale};
use crate::store::{Database, Service, StoreError};
use group_commit::{Batcher, Limits};

/// Owners of one sale kept in memory, 16 bytes each. For a larger sale the database is asked.
pub const MAX_OWNERS_OF_SALE: u64 = 250_000;
/// The same over all sales: those of other sales make room for new ones.
const MAX_OWNERS: u64 = 400_000;
/// Sales whose owners may be in memory.
const MAX_SALES: usize = 1_000;

/// One question costs the database about as much as the load of so many owners.
const OWNERS_PER_QUESTION: u64 = 16;
/// A sale with fewer owners is loaded only after so many questions, too.
const MIN_QUESTIONS: u64 = 16;
/// How long a load may take.
const LOADED_WITHIN: Duration = Duration::from_secs(5);

/// One query asks for all waiting buyers of a voucher.
const LOOKUPS: Limits = Limits::batches_of(1024);
/// Vouchers whose buyers are asked for at once: a quarter of the connections for purchases.
const VOUCHERS_AT_ONCE: usize = 2;

/// All owners of a sale, by user.
struct SaleOwners {
    /// The revision of the voucher that they were loaded for. They are of no use for another one.
    revision: i64,
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
    /// How often the database was asked about a voucher since its owners were last loaded.
    questions: Cache<VoucherId, Arc<AtomicU64>>,
    /// The permit of a load: one at a time.
    loading: Arc<Semaphore>,
}

impl OwnersMemory {
    fn new() -> Self {
        // In one shard: the cache splits its weight over shards, and does not keep an item that is heavier
        // than a shard takes.
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(MAX_SALES)
            .weight_capacity(MAX_OWNERS)
            .build();
        let Ok(options) = options else { unreachable!("both capacities are set") };
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self {
            owners: Cache::with_options(options, ByCount, hasher, lifecycle),
            questions: Cache::new(MAX_SALES),
            loading: Arc::new(Semaphore::new(1)),
        }
    }

    fn owners_of(&self, voucher: &Voucher) -> Option<Arc<SaleOwners>> {
        self.owners.get(&voucher.id).filter(|owners| owners.revision == voucher.revision)
    }

    /// Counts a question about a voucher with at most `max_orders` owners. Returns true when the questions so
    /// far cost the database more than one load of all owners; the count then begins again at zero. Owners of a
    /// larger sale are not loaded.
    fn is_load_due(&self, voucher: VoucherId, max_orders: u64) -> bool {
        if max_orders > MAX_OWNERS_OF_SALE {
            return false;
        }
        let Ok(asked) = self.questions.get_or_insert_with(&voucher, || Ok::<_, ()>(Arc::default()))
        else {
            unreachable!("it is made without an error")
        };
        let due = (max_orders / OWNERS_PER_QUESTION).max(MIN_QUESTIONS);
        let is_due = asked.fetch_add(1, Ordering::Relaxed) + 1 >= due;
        if is_due {
            asked.store(0, Ordering::Relaxed);
        }
        is_due
    }

    fn insert(&self, voucher: VoucherId, owners: SaleOwners) {
        self.owners.insert(voucher, Arc::new(owners));
    }
}

/// Finds the orders that buyers own.
pub struct OrderOwners {
    database: Database,
    memory: Arc<OwnersMemory>,
    /// Where loads run.
    runtime: Handle,
    lookups: Batcher<(UserId, VoucherId), Result<Option<OrderId>, StoreError>, StoreError>,
}

impl std::fmt::Debug for OrderOwners {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OrderOwners").finish_non_exhaustive()
    }
}

impl OrderOwners {
    pub(super) fn new(database: &Database) -> Self {
        let asked = database.clone();
        let lookups = Batcher::new(LOOKUPS, move |buyers: Vec<(UserId, VoucherId)>| {
            let database = asked.clone();
            async move { find_owned(&database, &buyers).await }
        });
        Self {
            database: database.clone(),
            memory: Arc::new(OwnersMemory::new()),
            runtime: Handle::current(),
            lookups,
        }
    }

    /// The live order that `user` has of a voucher whose sale is not on, and which has at most
    /// `max_orders` owners.
    pub async fn find(
        &self,
        user: UserId,
        voucher: &Voucher,
        max_orders: u64,
    ) -> Result<Option<OrderId>, StoreError> {
        if let Some(owners) = self.memory.owners_of(voucher) {
            return Ok(owners.order_of(user));
        }
        if self.memory.is_load_due(voucher.id, max_orders) {
            self.begin_load(voucher.id);
        }
        self.find_in_database(user, voucher.id).await
    }

    /// The live order that `user` has of `voucher`. One query finds it for all who ask at once.
    pub async fn find_in_database(
        &self,
        user: UserId,
        voucher: VoucherId,
    ) -> Result<Option<OrderId>, StoreError> {
        StoreError::of_read(Service::Postgres, self.lookups.submit((user, voucher)).await)
    }

    /// Whether memory knows the owners of `voucher`.
    pub fn are_in_memory(&self, voucher: &Voucher) -> bool {
        self.memory.owners_of(voucher).is_some()
    }

    /// Loads the owners of `voucher` in a task of its own, unless another load is under way.
    fn begin_load(&self, voucher: VoucherId) {
        let Ok(permit) = Arc::clone(&self.memory.loading).try_acquire_owned() else { return };
        let (database, memory) = (self.database.clone(), Arc::clone(&self.memory));
        self.runtime.spawn(async move {
            let _permit = permit;
            match orders::owners_of_finished(&database, voucher, LOADED_WITHIN).await {
                Ok(Some(FinishedSale { revision, mut owners })) => {
                    owners.sort_unstable();
                    memory.insert(voucher, SaleOwners { revision, orders: owners.into() });
                }
                // It sells, or somebody else has its row: they will ask again.
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(%error, "the owners of a sale could not be loaded");
                }
            }
        });
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> VoucherId {
        VoucherId::new(number.cast_signed()).unwrap_or_else(|| unreachable!("it is positive"))
    }

    fn owners(count: u64) -> SaleOwners {
        let owner = |number: u64| {
            let number = number.cast_signed();
            UserId::new(number).zip(OrderId::new(number))
        };
        SaleOwners { revision: 1, orders: (1..=count).filter_map(owner).collect() }
    }

    /// One below the bound, and at the bound; also where smaller sales have filled memory before, and
    /// were read often.
    #[test]
    fn a_sale_up_to_the_bound_is_kept_whatever_was_there_before() {
        for count in [MAX_OWNERS_OF_SALE - 1, MAX_OWNERS_OF_SALE] {
            let memory = OwnersMemory::new();
            for small in 1..=50 {
                memory.insert(id(small), owners(10_000));
                for read in 1..=small {
                    let _ = memory.owners.get(&id(read));
                }
            }
            memory.insert(id(100), owners(count));
            assert!(memory.owners.get(&id(100)).is_some(), "{count} owners are not kept");
            assert!(memory.owners.weight() <= MAX_OWNERS);
        }
    }

    #[test]
    fn a_load_is_due_when_it_would_have_cost_less_than_the_questions() {
        let memory = OwnersMemory::new();
        for (voucher, max_orders, questions) in [(1, 1, 16), (2, 100, 16), (3, 250_000, 15_625)] {
            for _ in 0..2 {
                let due = |_: &u64| memory.is_load_due(id(voucher), max_orders);
                assert_eq!((1..=questions).find(due), Some(questions), "{max_orders}");
            }
        }
        let is_due = |_| memory.is_load_due(id(4), MAX_OWNERS_OF_SALE + 1);
        assert!(!(1..=20_000).any(is_due));
    }
}
