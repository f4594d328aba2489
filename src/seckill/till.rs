//! What becomes of purchases in the database and on its disk: not guessed, but asked for until it
//! is known.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::PurchaseError;
use super::line::{Line, Member};
use super::seller::{ABANDON_AFTER, Seller};
use crate::lock::Guard;
use crate::model::VoucherId;
use crate::store::orders::{self, Placed, Purchase};
use crate::store::patience::within;
use crate::store::{Commit, Database, Service, StoreError, order_batch};

/// A connection that is silent for so long may be dead without anybody having noticed: another
/// one is asked.
const RESEND_AFTER: Duration = Duration::from_secs(2);

/// Between two tries to learn what became of a batch.
const RESEND_PAUSE: Duration = Duration::from_millis(50);

/// Brings what became of purchases, in their order.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<Vec<Placed>, StoreError>> + Send>>;

/// A line, and the seller at its head.
#[derive(Debug, Clone)]
pub(super) struct Till {
    pub(super) seller: Arc<Seller>,
    pub(super) line: Arc<Line>,
}

impl Till {
    /// Places `purchases`, all in one transaction, and does not rest until it is known what
    /// became of them: where the answer is lost, they are sent again with the same ids. That
    /// waits for the row behind the first transaction, or makes it find their orders written;
    /// in whatever order the two come to the row, each order is written once.
    pub(super) fn settle(&self, purchases: Vec<Purchase>, commit: Commit) -> Work {
        let till = self.clone();
        Box::pin(async move {
            match place(&till.seller.database, &purchases, false, commit).await {
                Err(lost) if lost.outcome_unknown() => till.send_again(&purchases, lost).await,
                known => known,
            }
        })
    }

    /// Waits until `placed`, what became of `purchases`, is on disk. Where that is not known the
    /// database may have forgotten them: they are sent again.
    pub(super) fn flush(&self, purchases: Vec<Purchase>, placed: Vec<Placed>) -> Work {
        let till = self.clone();
        Box::pin(async move {
            match till.seller.database.flush().await {
                Ok(()) => Ok(placed),
                Err(lost) => {
                    let unknown = lost.alike();
                    till.send_again(&purchases, lost).await.map_err(|_| unknown)
                }
            }
        })
    }

    /// What became of `purchases`, of which an answer was `lost`. It is on disk: the vouchers' rows
    /// are locked for it, and so this, too, is a commit that writes, and behind all it has read.
    async fn send_again(
        &self,
        purchases: &[Purchase],
        lost: StoreError,
    ) -> Result<Vec<Placed>, StoreError> {
        tracing::warn!(error = %lost, "an answer was lost, asking what became of the orders");
        metrics::counter!("seckill_group_settled_total").increment(1);
        loop {
            match place(&self.seller.database, purchases, true, Commit::Synchronous).await {
                Err(error) if error.retry_may_help() => {
                    // Whoever waits behind this waits in vain, for now.
                    self.seller.breaker.trip();
                    self.line.send_away(|| PurchaseError::DatabaseResting);
                    sleep(RESEND_PAUSE).await;
                }
                // Refused, and so not there; but the first may yet come through.
                Err(_) if purchases.len() == 1 => return Err(lost),
                known => return known,
            }
        }
    }

    /// `work` is stuck: its members hear "unknown" while it goes on, and whoever comes for the
    /// same vouchers that it is of no use. Their locks stay until it is over: it may still write.
    pub(super) fn leave_behind(self, work: Work, batch: Vec<Member>) {
        self.seller.breaker.trip();
        let vouchers = batch.iter().map(|member| member.request.sale.voucher.id).collect();
        let stuck = Stuck::new(&self.line, vouchers);
        let seller = self.seller;
        let guards: Vec<Guard> = batch.into_iter().filter_map(Member::tell_unknown).collect();
        let tasks = seller.tasks.clone();
        tasks.spawn(async move {
            let _ = timeout(ABANDON_AFTER, work).await;
            drop(stuck);
            join_all(guards.into_iter().map(|guard| seller.let_go(guard))).await;
        });
    }
}

/// Vouchers of which a batch is stuck, until this is dropped, also in a panic.
struct Stuck {
    line: Arc<Line>,
    vouchers: HashSet<VoucherId>,
}

impl Stuck {
    fn new(line: &Arc<Line>, vouchers: HashSet<VoucherId>) -> Self {
        line.stuck(&vouchers);
        Self { line: Arc::clone(line), vouchers }
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.line.freed(&self.vouchers);
    }
}

/// One try, and the last word unless the answer is lost. No order is named before it is on disk,
/// but for those that are to be flushed.
async fn place(
    database: &Database,
    purchases: &[Purchase],
    sent_before: bool,
    commit: Commit,
) -> Result<Vec<Placed>, StoreError> {
    let work = database.with_kept(async |connection| match purchases {
        [one] if !sent_before => Ok(vec![orders::place(connection, one, commit).await?]),
        all => order_batch::place_all(connection, all, sent_before, commit).await,
    });
    let placed = within(RESEND_AFTER, work).await.unwrap_or_else(|silence| {
        let (service, cause) = (Service::Postgres, silence.into());
        Err(StoreError::Unknown { service, cause })
    })?;
    if let [Placed::AlreadyBought(_)] = *placed {
        // By another node, perhaps, whose commit does not wait for the disk.
        database.flush().await?;
    }
    Ok(placed)
}
