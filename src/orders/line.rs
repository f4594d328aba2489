//! Draws, and lines for vouchers that come back: who enters, and who is served.
//!
//! Buyers who enter at once enter together, in one transaction. Every server looks for what is due; which entries wait
//! is rows of the database, so that any server goes on where another one stopped.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use uuid::Uuid;

use super::Orders;
use crate::model::{Clock, Code, Entry, HeldFor, UserId, VoucherId};
use crate::purchase::Purchases;
use crate::store::entries::{self, Granted, InBlock, LineCounts, Served, Wish};
use crate::store::{Database, DatabaseClock, ReadCache, Service, Stop, StoreError, order_steps};
use crate::worker::{Chore, Worker};
use group_commit::{Answer, Batcher, Limits, Slots};

/// Buyers who enter in one transaction.
const ENTER: Limits = Limits::batches_of(256);
/// Vouchers that are entered at once: each holds a connection.
const ENTERED_AT_ONCE: NonZero<usize> = NonZero::new(2).unwrap();
/// Orders that are offered in one transaction.
const OFFERS: i64 = 256;
/// How often an offer that one of the first in line cannot have is tried, at most twice a second.
const TRIES_OF_AN_OFFER: u32 = 10;
/// Lines whose counts are kept: the count of a line of a million takes 250 kB.
const COUNTED_LINES: usize = 128;
/// How old a count may be that a buyer sees while the line is counted anew.
const COUNTED_WITHIN: Duration = Duration::from_secs(5);
/// Requests that may wait for a count: as many as `http/limits.rs` lets in.
const WAITING_FOR_COUNTS: usize = 8_192;

/// Takes buyers in, and out.
pub(super) type EntryBatcher = Batcher<Wish, Granted, StoreError, VoucherId>;

pub(super) fn entry_batcher(database: &Database, clock: &Arc<DatabaseClock>) -> EntryBatcher {
    let (database, clock) = (database.clone(), Arc::clone(clock));
    let slots = Slots::new(ENTERED_AT_ONCE).keys(NonZero::<usize>::MIN);
    Batcher::keyed(ENTER, slots, move |wishes: Vec<(VoucherId, Wish)>, _| {
        let (database, clock) = (database.clone(), Arc::clone(&clock));
        async move {
            let voucher = wishes[0].0;
            let wishes: Vec<Wish> = wishes.into_iter().map(|(_, wish)| wish).collect();
            let turn = database.buyers_steps_of(voucher).await?;
            let granted = entries::enter(&turn, &clock, voucher, &wishes).await?;
            Ok(granted.into_iter().map(Answer::Done).collect())
        }
    })
}

/// The counts of lines, less than a second old. One line is counted at a time, on one connection.
pub(super) type CountedLines = ReadCache<VoucherId, Arc<LineCounts>>;

pub(super) fn counted_lines(database: &Database, clock: &Arc<DatabaseClock>) -> CountedLines {
    let (database, clock) = (database.clone(), Arc::clone(clock));
    let count = move |voucher: VoucherId, _| {
        let (database, now) = (database.clone(), clock.now());
        async move { entries::count_line(database.pool(), voucher, now).await.map(Arc::new) }
    };
    ReadCache::new(Service::Postgres, COUNTED_LINES, WAITING_FOR_COUNTS, count)
}

impl Orders {
    /// The latest entry of `buyer` for `voucher`.
    pub async fn find_entry(
        &self,
        voucher: VoucherId,
        buyer: UserId,
    ) -> Result<Option<Entry>, StoreError> {
        let found = entries::find(self.database.pool(), voucher, buyer).await?;
        let Some(entry) = found else { return Ok(None) };
        self.counted(voucher, entry).await.map(Some)
    }

    /// The entry as its buyer sees it. Only a buyer who is in line waits for a count of the line.
    async fn counted(&self, voucher: VoucherId, found: InBlock) -> Result<Entry, StoreError> {
        if found.entry.place.is_none() {
            return Ok(found.entry);
        }
        Ok(self.lines.get_or_recent(voucher, COUNTED_WITHIN).await?.complete(found))
    }

    /// Enters `buyer` into the draw of `voucher`, or at the end of its line. `None`: the buyer had entered before.
    pub async fn enter(&self, voucher: VoucherId, buyer: UserId) -> Result<Option<Entry>, Stop> {
        let wish = Wish { buyer, new_id: Some(Uuid::new_v4()) };
        let Granted::Entered(entry) = self.wish(voucher, wish).await? else { return Ok(None) };
        // The buyer has entered, whatever becomes of the count.
        let entry = self.counted(voucher, entry).await;
        let entry = entry.map_err(|error| StoreError::unknown(Service::Postgres, error))?;
        // With the first in line it changes who may buy.
        if entry.place == Some(1) {
            self.purchases.voucher_changed(voucher);
        }
        Ok(Some(entry))
    }

    /// Takes `buyer` out of the draw, or the line.
    pub async fn leave(&self, voucher: VoucherId, buyer: UserId) -> Result<(), Stop> {
        // With the last one who leaves it changes who may buy.
        if self.wish(voucher, Wish { buyer, new_id: None }).await? == Granted::Left {
            self.purchases.voucher_changed(voucher);
        }
        Ok(())
    }

    async fn wish(&self, voucher: VoucherId, wish: Wish) -> Result<Granted, Stop> {
        // A made-up voucher gets no batch: the batches of real vouchers would wait behind it.
        if self.purchases.sale(voucher).await?.is_none() {
            return Err(Code::VoucherNotFound.into());
        }
        let granted = self.entries.submit_to(voucher, wish).await;
        match granted.map_err(|error| StoreError::from_batch(Service::Postgres, error))? {
            Granted::Refused(refusal) => Err(refusal.into()),
            granted => Ok(granted),
        }
    }
}

/// Draws, and offers what comes back to those who are first in line.
#[derive(Debug)]
pub struct LineWork {
    database: Database,
    purchases: Arc<Purchases>,
    /// Vouchers that failed lately. The others come first.
    failed: Vec<VoucherId>,
    /// How often an offer was refused to one of the first in line.
    refused: HashMap<VoucherId, u32>,
}

impl LineWork {
    /// Of vouchers in `database`; `purchases` has the ids of orders.
    pub fn new(database: Database, purchases: Arc<Purchases>) -> Self {
        Self { database, purchases, failed: Vec::new(), refused: HashMap::new() }
    }

    /// Takes steps, in a task of its own.
    pub fn start(self) -> Worker {
        Worker::start(self)
    }

    /// One step for one voucher. Returns whether there may be more to do.
    ///
    /// # Errors
    /// When a store does not answer, or somebody holds the row of the sale.
    pub async fn step(&mut self) -> Result<bool, StoreError> {
        let pool = self.database.pool();
        let now = order_steps::time(pool).await?;
        let due = entries::find_due(pool, now, &self.failed, OFFERS).await?;
        let Some((voucher, held_for, count)) = due else {
            self.failed.clear();
            return Ok(false);
        };
        let served = match held_for {
            HeldFor::Draw => self.draw(voucher, count).await,
            _ => self.offer(voucher, count).await,
        };
        match served {
            Ok(Served::Idle | Served::SaleEnded | Served::Refused) => self.failed.push(voucher),
            Ok(Served::Drawn | Served::Offered) => self.purchases.voucher_changed(voucher),
            Ok(Served::IdTaken) => {
                tracing::warn!(%voucher, "another order has an id, taking others")
            }
            Err(error) => {
                self.failed.push(voucher);
                return Err(error);
            }
        }
        Ok(true)
    }

    async fn draw(&self, voucher: VoucherId, entries: i64) -> Result<Served, StoreError> {
        let turn = self.database.steps_of(voucher).await?;
        entries::draw_entries(&turn, voucher, entries).await
    }

    /// The line waits for those of the first who cannot have an order now, but not for long. The tries are counted here: the
    /// database's clock may be what is wrong.
    async fn offer(&mut self, voucher: VoucherId, count: i64) -> Result<Served, StoreError> {
        let ids = try_join_all((0..count).map(|_| self.purchases.new_order_id())).await?;
        let turn = self.database.steps_of(voucher).await?;
        let tries = self.refused.get(&voucher).copied().unwrap_or_default();
        let passes = tries >= TRIES_OF_AN_OFFER;
        let (served, passed) = entries::offer(&turn, voucher, &ids, passes).await?;
        match served {
            Served::Refused => _ = self.refused.insert(voucher, tries + 1),
            _ => _ = self.refused.remove(&voucher),
        }
        if !passed.is_empty() {
            tracing::warn!(%voucher, users = ?passed, "no order can be placed for the first in line: the next ones are served");
        }
        Ok(served)
    }
}

impl Chore for LineWork {
    async fn step(&mut self) -> Result<bool, StoreError> {
        Self::step(self).await
    }
}
