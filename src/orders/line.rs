//! Draws, and lines for vouchers that come back: who enters, and who is served.
//!
//! Buyers who enter at once enter together, in one transaction. Every server looks for what is due; which entries wait
//! is rows of the database, so that any server goes on where another one stopped.

use std::num::NonZero;
use std::sync::Arc;

use futures_util::future::try_join_all;
use uuid::Uuid;

use super::Orders;
use crate::model::{Code, HeldFor, UserId, VoucherId};
use crate::purchase::Purchases;
use crate::store::entries::{self, Granted, Served, Wish};
use crate::store::{Database, DatabaseClock, Service, StoreError, order_steps};
use crate::worker::{Chore, Worker};
use group_commit::{Answer, Batcher, Limits, Slots};

/// Buyers who enter in one transaction.
const ENTER: Limits = Limits::batches_of(256);
/// Vouchers that are entered at once: each holds a connection.
const ENTERED_AT_ONCE: NonZero<usize> = NonZero::new(2).unwrap();
/// Orders that are offered in one transaction.
const OFFERS: i64 = 256;

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

impl Orders {
    /// Enters `buyer` into the draw of `voucher`, or at the end of its line.
    pub async fn enter(&self, voucher: VoucherId, buyer: UserId) -> Result<Granted, StoreError> {
        self.wish(voucher, Wish { buyer, new_id: Some(Uuid::new_v4()) }).await
    }

    /// Takes `buyer` out of the draw, or the line.
    pub async fn leave(&self, voucher: VoucherId, buyer: UserId) -> Result<Granted, StoreError> {
        self.wish(voucher, Wish { buyer, new_id: None }).await
    }

    async fn wish(&self, voucher: VoucherId, wish: Wish) -> Result<Granted, StoreError> {
        // A made-up voucher costs no batch: those of vouchers that there are would wait behind it.
        if self.purchases.sale(voucher).await?.is_none() {
            return Ok(Granted::Refused(Code::VoucherNotFound.into()));
        }
        let granted = self.entries.submit_to(voucher, wish).await;
        let granted = granted.map_err(|error| StoreError::from_batch(Service::Postgres, error))?;
        // With the first in line, and with the last one who leaves, it changes who may buy.
        let may_change_the_sale = match &granted {
            Granted::Entered(entry) => entry.place == Some(1),
            granted => *granted == Granted::Left,
        };
        if may_change_the_sale {
            self.purchases.voucher_changed(voucher);
        }
        Ok(granted)
    }
}

/// Draws, and offers what comes back to those who are first in line.
#[derive(Debug)]
pub struct LineWork {
    database: Database,
    purchases: Arc<Purchases>,
    /// Vouchers that failed lately. The others come first.
    failed: Vec<VoucherId>,
}

impl LineWork {
    /// Of vouchers in `database`; `purchases` has the ids of orders.
    pub fn new(database: Database, purchases: Arc<Purchases>) -> Self {
        Self { database, purchases, failed: Vec::new() }
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
            HeldFor::Draw => self.draw(voucher).await,
            _ => self.offer(voucher, count).await,
        };
        match served {
            Ok(Served::Idle | Served::SaleEnded) => self.failed.push(voucher),
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

    async fn draw(&self, voucher: VoucherId) -> Result<Served, StoreError> {
        let turn = self.database.steps_of(voucher).await?;
        entries::draw_entries(&turn, voucher).await
    }

    async fn offer(&self, voucher: VoucherId, count: i64) -> Result<Served, StoreError> {
        let ids = try_join_all((0..count).map(|_| self.purchases.new_order_id())).await?;
        let turn = self.database.steps_of(voucher).await?;
        entries::offer(&turn, voucher, &ids).await
    }
}

impl Chore for LineWork {
    async fn step(&mut self) -> Result<bool, StoreError> {
        Self::step(self).await
    }
}
