//! The owners of orders. The owner of an order of a voucher hears of it before any refusal, on every
//! server, also after a restart.
//!
//! When a sale sells out or ends, the first refusal loads its owners into memory, once, so that the
//! refusals after it need no store. They are exact from then on: no order of a sale that is over is
//! placed any more (migration 5 says why). Where there are too many to keep, the database is asked for
//! the buyers who wait, together.

use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::batch::{BatchError, Batcher, Limits};
use crate::model::{OrderId, UserId, VoucherId};
use crate::store::orders::{self, FinishedSale};
use crate::store::{Database, Service, StoreError};

/// OrderOwners kept in memory, over all sales: 16 bytes each.
const MAX_OWNERS: usize = 250_000;

/// One query asks for all buyers who wait.
const LOOKUPS: Limits = Limits { batch: 1024, waiting: 16_384, leaders: 1 };
/// One sale after the other is loaded.
const LOADS: Limits = Limits { batch: 64, waiting: 16_384, leaders: 1 };

/// The owners of one sale, once they are loaded.
#[derive(Debug, Default)]
pub struct KnownOwners(OnceLock<Loaded>);

#[derive(Debug)]
enum Loaded {
    /// All of them, by user.
    All {
        owners: Box<[(UserId, OrderId)]>,
        _room: OwnedSemaphorePermit,
    },
    TooMany,
}

/// Finds owners.
#[derive(Debug)]
pub struct OrderOwners {
    lookups: Batcher<(UserId, VoucherId), Option<OrderId>, StoreError>,
    loads: Batcher<(VoucherId, Arc<KnownOwners>), (), StoreError>,
}

impl OrderOwners {
    pub(super) fn new(database: &Database) -> Self {
        let asked = database.clone();
        let lookups = Batcher::new(LOOKUPS, move |buyers: Vec<(UserId, VoucherId)>| {
            let database = asked.clone();
            async move { orders::find_owned(database.purchases(), &buyers).await }
        });
        let (database, room) = (database.clone(), Arc::new(Semaphore::new(MAX_OWNERS)));
        let loads = Batcher::new(LOADS, move |sales: Vec<(VoucherId, Arc<KnownOwners>)>| {
            let (database, room) = (database.clone(), Arc::clone(&room));
            async move {
                for (voucher, known) in &sales {
                    load(&database, &room, *voucher, known).await?;
                }
                Ok(vec![(); sales.len()])
            }
        });
        Self { lookups, loads }
    }

    /// The order that `user` has of a voucher whose sale is not on; `known` are its owners.
    ///
    /// # Errors
    /// When the database has to be asked and does not answer: it is not known then.
    pub async fn find(
        &self,
        user: UserId,
        voucher: VoucherId,
        known: &Arc<KnownOwners>,
    ) -> Result<Option<OrderId>, StoreError> {
        if known.0.get().is_none() {
            self.loads.submit((voucher, Arc::clone(known))).await.map_err(of_a_read)?;
        }
        match known.0.get() {
            Some(Loaded::All { owners, .. }) => {
                let found = owners.binary_search_by_key(&user, |(owner, _)| *owner);
                Ok(found.ok().map(|index| owners[index].1))
            }
            Some(Loaded::TooMany) | None => self.ask(user, voucher).await,
        }
    }

    /// The order that `user` has of `voucher`, asked of the database.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn ask(
        &self,
        user: UserId,
        voucher: VoucherId,
    ) -> Result<Option<OrderId>, StoreError> {
        self.lookups.submit((user, voucher)).await.map_err(of_a_read)
    }
}

fn of_a_read(error: BatchError<StoreError>) -> StoreError {
    StoreError::from_batch(Service::Postgres, error).of_a_read()
}

/// Loads the owners of `voucher`, unless its sale is on after all.
async fn load(
    database: &Database,
    room: &Arc<Semaphore>,
    voucher: VoucherId,
    known: &KnownOwners,
) -> Result<(), StoreError> {
    if known.0.get().is_some() {
        return Ok(());
    }
    let free = room.available_permits();
    let loaded = match orders::owners_of_finished(database.purchases(), voucher, free).await? {
        FinishedSale::NotFinished => return Ok(()),
        FinishedSale::TooMany => Loaded::TooMany,
        FinishedSale::Owners(mut owners) => {
            owners.sort_unstable();
            let permits = u32::try_from(owners.len()).unwrap_or(u32::MAX);
            match Arc::clone(room).try_acquire_many_owned(permits) {
                Ok(room) => Loaded::All { owners: owners.into(), _room: room },
                Err(_more_than_were_free) => Loaded::TooMany,
            }
        }
    };
    let _ = known.0.set(loaded);
    Ok(())
}
