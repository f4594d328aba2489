//! A sale that was cancelled as a whole: its unpaid orders are cancelled, and its paid ones are refunded. Which
//! orders are left is rows of the database, so that any server goes on where another one, or the shell, stopped.

use crate::model::{Order, OrderStatus, VoucherId};
use crate::store::order_steps::{self, Actor, AdministratorStep};
use crate::store::{Database, Stop, StoreError, cancelled_sales};
use crate::worker::{Chore, Worker};

/// Orders of one sale that are looked for at once.
const LOOK_FOR: i64 = 100;

/// Ends the orders of cancelled sales.
#[derive(Debug, Clone)]
pub struct WindingUp {
    database: Database,
    /// Sales of which no order could be ended lately. The others come first.
    failed: Vec<VoucherId>,
}

/// What a step has done with the orders of one sale.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WoundUp {
    /// Unpaid orders that it cancelled.
    pub cancelled: usize,
    /// Paid orders whose refund it began; of a free voucher: that it refunded.
    pub refunded: usize,
    /// Whether no order is left to be ended.
    pub is_complete: bool,
}

impl WindingUp {
    /// Of sales in `database`.
    pub fn new(database: Database) -> Self {
        Self { database, failed: Vec::new() }
    }

    /// Takes steps, in a task of its own.
    pub fn start(self) -> Worker {
        Worker::start(self)
    }

    /// Ends up to a hundred orders of `voucher`, whose sale was cancelled. A payment or a redemption may come first:
    /// then the next step finds the order in its new state.
    ///
    /// # Errors
    /// When no order could be ended: the database does not answer, or somebody holds the row of the sale.
    pub async fn step(&self, voucher: VoucherId) -> Result<WoundUp, StoreError> {
        let mut done = WoundUp::default();
        let open =
            cancelled_sales::list_open_orders(self.database.pool(), voucher, LOOK_FOR).await?;
        if open.is_empty() {
            cancelled_sales::close(&*self.database.steps_of(voucher).await?, voucher).await?;
            done.is_complete = true;
        }
        let mut failure = None;
        for order in open {
            let is_unpaid = order.status == OrderStatus::Unpaid;
            match self.end(&order, is_unpaid).await {
                Ok(_) if is_unpaid => done.cancelled += 1,
                Ok(_) => done.refunded += 1,
                Err(Stop::Refused(_)) => {}
                // An order that somebody holds, or a broken one, keeps no other order from its end.
                Err(Stop::Failed(error)) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if done.cancelled + done.refunded == 0 => Err(error),
            _ => Ok(done),
        }
    }

    async fn end(&self, order: &Order, is_unpaid: bool) -> Result<OrderStatus, Stop> {
        let turn = self.database.steps_of(order.voucher_id).await?;
        if is_unpaid {
            order_steps::cancel(&turn, order, Actor::Administrator(None)).await
        } else {
            order_steps::take(&turn, AdministratorStep::Refund, order, None).await
        }
    }
}

impl Chore for WindingUp {
    async fn step(&mut self) -> Result<bool, StoreError> {
        let found = cancelled_sales::find(self.database.pool(), &self.failed).await?;
        let Some(voucher) = found else {
            self.failed.clear();
            return Ok(false);
        };
        if let Err(error) = Self::step(self, voucher).await {
            self.failed.push(voucher);
            return Err(error);
        }
        Ok(true)
    }
}
