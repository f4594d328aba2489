//! Unpaid orders whose time is over are cancelled, and their vouchers are on sale again.
//!
//! Every server looks every half a second to a second, by the database's clock. There is no timer for an order: what is due
//! is rows of the database, and a server that dies leaves them to the others. If a payment is under way, the gateway is asked
//! before (`gateway_messages`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::model::{OrderId, VoucherId};
use crate::purchase::Purchases;
use crate::store::{Database, StoreError, order_steps};
use crate::telemetry::name;
use crate::worker::{Chore, Worker};

/// Orders looked for at once.
const LOOK_FOR: i64 = 1_000;
/// Orders cancelled in one transaction. It holds the row of their voucher for as long as it takes to cancel
/// them: 2 ms on the development machine.
const BATCH: usize = 100;
/// After a batch the worker rests this many times as long as the batch took: each server takes about a fifth of
/// a voucher's time from its buyers, however long the backlog is.
const REST: u32 = 4;

/// After so many failures a step ends: the database may be away.
const MAX_FAILURES: usize = 3;

/// Cancels orders that were not paid in time.
#[derive(Debug)]
pub struct Expiry {
    database: Database,
    purchases: Arc<Purchases>,
    /// How long an order waits at most for what the gateway says of its payment. Zero: the gateway is not asked.
    ask_within: Duration,
    /// Vouchers that failed lately. The others come first: a row that somebody holds, with however many
    /// orders, delays no other voucher.
    failed: Vec<VoucherId>,
}

impl Expiry {
    /// Of orders in `database`; `purchases` is told of what comes back on sale. The gateway is asked about payments under way
    /// for at most `ask_within`; zero: it is not asked.
    pub fn new(database: Database, purchases: Arc<Purchases>, ask_within: Duration) -> Self {
        Self { database, purchases, ask_within, failed: Vec::new() }
    }

    /// Takes steps, in a task of its own.
    pub fn start(self) -> Worker {
        Worker::start(self)
    }

    /// Cancels what is due now, up to a thousand orders. Returns how many it found, and how many of them it
    /// cancelled: another server may have been first, and the gateway is asked about some.
    ///
    /// # Errors
    /// When the database does not answer, or the row of a voucher cannot be had. What was cancelled stays so.
    pub async fn step(&mut self) -> Result<(usize, i64), StoreError> {
        let pool = self.database.pool();
        let now = order_steps::time(pool).await?;
        let due = order_steps::list_overdue(pool, now, &self.failed, LOOK_FOR).await?;
        let found = due.len();
        let mut of_vouchers: BTreeMap<VoucherId, Vec<OrderId>> = BTreeMap::new();
        for (voucher, order) in due {
            of_vouchers.entry(voucher).or_default().push(order);
        }
        let (mut cancelled, mut errors) = (0, Vec::new());
        for (voucher, orders) in of_vouchers {
            match self.expire(voucher, &orders).await {
                Ok(count) => cancelled += count,
                Err(error) => {
                    self.failed.push(voucher);
                    errors.push(error);
                }
            }
            if errors.len() == MAX_FAILURES {
                break;
            }
        }
        if let Some(error) = errors.pop() {
            return Err(error);
        }
        if found < LOOK_FOR as usize {
            self.failed.clear();
        }
        Ok((found, cancelled))
    }

    async fn expire(&self, voucher: VoucherId, orders: &[OrderId]) -> Result<i64, StoreError> {
        let mut cancelled = 0;
        let mut batches = orders.chunks(BATCH).peekable();
        while let Some(batch) = batches.next() {
            let turn = self.database.steps_of(voucher).await?;
            let begun = Instant::now();
            let count = order_steps::expire(&turn, voucher, batch, self.ask_within).await?;
            drop(turn);
            if count > 0 {
                self.purchases.voucher_changed(voucher);
                metrics::counter!(name::ORDERS_EXPIRED).increment(count.unsigned_abs());
                cancelled += count;
            }
            if batches.peek().is_some() {
                sleep(begun.elapsed() * REST).await;
            }
        }
        Ok(cancelled)
    }
}

impl Chore for Expiry {
    async fn step(&mut self) -> Result<bool, StoreError> {
        let (found, _) = Self::step(self).await?;
        Ok(found == LOOK_FOR as usize)
    }
}
