//! Strategy `group-commit`: the same lock and the same ids as `locked`, but purchases that wait
//! for the database go there together, in one transaction and with ids from one `INCRBY`. One
//! transaction after another at a row is what limits `locked`; here each carries many.
//!
//! A purchase that finds the way free is not kept waiting for company: it draws lock and id
//! side by side and runs the single statement, exactly as `locked` does. Only who comes while
//! others are in the database joins whoever else came meanwhile.
//!
//! Together they fail only where the database failed. A batch that the database refuses is
//! judged one by one, so that whatever is wrong with one purchase is that purchase's alone.
//! Where the connection is lost and nobody knows whether the commit came through, the same
//! batch is sent again with the same ids until the database says what is there.
//!
//! `group-commit-unlocked` is the same without the lock, and so without Redis but for the
//! ids: the constraints alone make "once" true. Whoever clicks twice at once is told of the
//! one order by the database, not by the lock.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::line::{Answer, Line, Member};
use super::seller::{ABANDON_AFTER, Again, MAX_ATTEMPTS, PATIENCE, Seller, judge};
use super::{PurchaseError, Request, Strategy};
use crate::lock::Guard;
use crate::model::{OrderId, Outcome, Refusal, VoucherId};
use crate::store::orders::{self, Placed, Purchase};
use crate::store::patience::within;
use crate::store::{Commit, Database, OrderIdError, Service, StoreError, order_batch};

/// How long a purchase stands in line. A client that waits longer has given up.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A connection that is silent for so long may be dead without anybody having noticed: another
/// one is asked.
const RESEND_AFTER: Duration = Duration::from_secs(2);

/// Between two tries to learn what became of a batch.
const RESEND_PAUSE: Duration = Duration::from_millis(50);

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct GroupCommit {
    seller: Arc<Seller>,
    line: Arc<Line>,
    with_lock: bool,
}

impl GroupCommit {
    pub(super) fn new(seller: Seller, max_in_line: usize, with_lock: bool) -> Self {
        Self { seller: Arc::new(seller), line: Arc::new(Line::new(max_in_line)), with_lock }
    }

    /// The lock, where there is one; `None`: another purchase of the user is under way.
    async fn enter(&self, request: &Request) -> Result<Option<Option<Guard>>, PurchaseError> {
        if !self.with_lock {
            return Ok(Some(None));
        }
        Ok(self.seller.lock(request.user).await?.map(Some))
    }

    async fn draw_if(&self, now: bool) -> Result<Option<OrderId>, OrderIdError> {
        if !now {
            return Ok(None);
        }
        // Boxed: in a rush few draw for themselves, and all would carry it.
        Box::pin(self.seller.order_ids.next()).await.map(Some)
    }
}

#[async_trait]
impl Strategy for GroupCommit {
    async fn purchase(self: Arc<Self>, request: Request) -> Result<Outcome, PurchaseError> {
        self.seller.breaker.check()?;
        let at_once = self.line.check(request.sale.voucher.id)?;
        if !self.with_lock && !at_once {
            // In line before it waits for anything, and whoever leads carries it along whether
            // there is still somebody to tell or not: it needs no task of its own.
            return self.stand_in_line(request, None, None).await;
        }
        let seller = Arc::clone(&self.seller);
        let purchase = seller.spawn(async move { self.enter_line(request, at_once).await });
        // In a panic what it held is given back.
        purchase.await.unwrap_or(Err(PurchaseError::Panicked))
    }

    async fn shutdown(&self) {
        self.seller.shutdown().await;
    }
}

impl GroupCommit {
    async fn enter_line(&self, request: Request, at_once: bool) -> Result<Outcome, PurchaseError> {
        // Side by side, which takes one round trip. In line, the leader draws for all.
        let (entered, order_id) = tokio::join!(self.enter(&request), self.draw_if(at_once));
        let Some(guard) = entered? else {
            return Ok(Outcome::Refused(Refusal::OrderInProgress));
        };
        // On an error the guard is dropped, and so given back in the background: a Redis that
        // did not answer this would keep the buyer waiting once more.
        self.stand_in_line(request, order_id?, guard).await
    }

    async fn stand_in_line(
        &self,
        request: Request,
        order_id: Option<OrderId>,
        guard: Option<Guard>,
    ) -> Result<Outcome, PurchaseError> {
        let (reply, answer) = oneshot::channel();
        let member = Member { request, order_id, guard, reply, since: Instant::now() };
        if let Some(batch) = self.line.join(member) {
            let (seller, line) = (Arc::clone(&self.seller), Arc::clone(&self.line));
            // Whoever leads may leave, and the purchases of the others not with him.
            self.seller.spawn(Turn { seller, line }.lead(batch));
        }
        // Without an answer the leader panicked; what it held is given back.
        let Answer { outcome, guard } = answer.await.map_err(|_| PurchaseError::Panicked)?;
        if let Some(guard) = guard {
            self.seller.let_go(guard).await;
        }
        outcome
    }
}

/// To lead the line. Dropped, also in a panic, it passes to the next.
struct Turn {
    seller: Arc<Seller>,
    line: Arc<Line>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let batch = self.line.next();
        // Without a runtime the process ends, and what is dropped here with it.
        if let (false, Ok(runtime)) = (batch.is_empty(), Handle::try_current()) {
            let (seller, line) = (Arc::clone(&self.seller), Arc::clone(&self.line));
            let next = Self { seller, line };
            self.seller.tasks.spawn_on(next.lead(batch), &runtime);
        }
    }
}

/// Brings what became of purchases, in their order.
type Work = Pin<Box<dyn Future<Output = Result<Vec<Placed>, StoreError>> + Send>>;

impl Turn {
    /// Gives everybody in `batch` an answer.
    async fn lead(self, mut batch: Vec<Member>) {
        let gate = &self.seller.gate;
        let overdue = batch.extract_if(.., |member| {
            member.since.elapsed() > MAX_WAIT || gate.is_too_long(member.since)
        });
        overdue.for_each(|member| member.tell(Err(PurchaseError::Overloaded)));
        if batch.len() > 1 {
            self.judge_together(batch).await;
        } else {
            self.judge_singly(batch).await;
        }
    }

    async fn judge_together(self, mut batch: Vec<Member>) {
        if self.seller.breaker.check().is_err() {
            return self.send_away(batch, || PurchaseError::DatabaseResting);
        }
        if let Err(error) = self.draw_ids(&mut batch).await {
            return self.send_away(batch, || error.alike().into());
        }
        let purchases: Vec<Purchase> = batch.iter().filter_map(Member::purchase).collect();
        metrics::histogram!("seckill_group_size").record(purchases.len() as f64);
        let mut work = self.settle(purchases);
        match within(PATIENCE, &mut work).await {
            Ok(Ok(placed)) => {
                let outcomes = placed.into_iter().zip(&batch);
                let outcomes: Vec<_> =
                    outcomes.map(|(placed, one)| judge(placed, &one.request.sale)).collect();
                // The next batch goes before the answers are given out.
                let turn = outcomes.iter().any(Result::is_err).then_some(self);
                let mut unjudged = Vec::new();
                for (member, outcome) in batch.into_iter().zip(outcomes) {
                    match outcome {
                        Ok(outcome) => member.tell(Ok(outcome)),
                        Err(_) => unjudged.push(member),
                    }
                }
                if let Some(turn) = turn {
                    turn.judge_singly(unjudged).await;
                }
            }
            Ok(Err(error)) if error.retry_may_help() => {
                self.seller.breaker.trip();
                self.send_away(batch, || error.alike().into());
            }
            Ok(Err(error)) => {
                // Nothing was written. One of them is to blame, and the others are not.
                tracing::warn!(%error, size = batch.len(), "a batch failed, judging it singly");
                metrics::counter!("seckill_group_broken_up_total").increment(1);
                self.judge_singly(batch).await;
            }
            Err(_) => self.leave_behind(work, batch),
        }
    }

    /// One after the other, in transactions of their own.
    async fn judge_singly(self, batch: Vec<Member>) {
        let mut turn = Some(self);
        for member in batch {
            turn = match turn {
                Some(turn) if turn.seller.breaker.check().is_ok() => turn.judge_one(member).await,
                turn => {
                    member.tell(Err(PurchaseError::DatabaseResting));
                    turn
                }
            };
        }
    }

    /// `None` when the turn went along with a purchase that is stuck.
    async fn judge_one(self, mut member: Member) -> Option<Self> {
        for _ in 0..MAX_ATTEMPTS {
            if let Err(error) = self.draw_ids(std::slice::from_mut(&mut member)).await {
                member.tell(Err(error.into()));
                return Some(self);
            }
            let Some(purchase) = member.purchase() else { break };
            let mut work = self.settle(vec![purchase]);
            let placed = match within(PATIENCE, &mut work).await {
                Ok(Ok(mut placed)) => placed.pop(),
                Ok(Err(error)) => {
                    if error.retry_may_help() {
                        self.seller.breaker.trip();
                        self.line.send_away(|| PurchaseError::DatabaseResting);
                    }
                    member.tell(Err(error.into()));
                    return Some(self);
                }
                Err(_) => {
                    self.leave_behind(work, vec![member]);
                    return None;
                }
            };
            match placed.map(|placed| judge(placed, &member.request.sale)) {
                Some(Ok(outcome)) => {
                    member.tell(Ok(outcome));
                    return Some(self);
                }
                Some(Err(Again::OtherId)) => {
                    tracing::warn!(taken = %purchase.order_id, "an order id was taken, using another");
                    member.order_id = None;
                }
                Some(Err(Again::SameId)) | None => {}
            }
        }
        member.tell(Err(PurchaseError::Overloaded));
        Some(self)
    }

    /// An id for everybody who has none, from one round trip.
    async fn draw_ids(&self, members: &mut [Member]) -> Result<(), OrderIdError> {
        let without = members.iter().filter(|member| member.order_id.is_none()).count();
        // No more than `MAX_BATCH`.
        let ids = self.seller.order_ids.next_many(without as u32).await?;
        let without = members.iter_mut().filter(|member| member.order_id.is_none());
        for (member, id) in without.zip(ids) {
            member.order_id = Some(id);
        }
        Ok(())
    }

    /// Everybody in the batch and in the line hears that it is of no use.
    fn send_away(self, batch: Vec<Member>, because: impl Fn() -> PurchaseError) {
        for member in batch {
            member.tell(Err(because()));
        }
        self.line.send_away(because);
    }

    /// Places `purchases`, all in one transaction, and does not rest until it is known what
    /// became of them: where the answer is lost, they are sent again with the same ids. That
    /// waits for the row behind the first transaction, or makes it find their orders written;
    /// in whatever order the two come to the row, each order is written once.
    fn settle(&self, purchases: Vec<Purchase>) -> Work {
        let (seller, line) = (Arc::clone(&self.seller), Arc::clone(&self.line));
        Box::pin(async move {
            let lost = match place(&seller.database, &purchases, false).await {
                Err(error) if error.outcome_unknown() => error,
                known => return known,
            };
            tracing::warn!(error = %lost, "an answer was lost, asking what became of the orders");
            metrics::counter!("seckill_group_settled_total").increment(1);
            loop {
                match place(&seller.database, &purchases, true).await {
                    Err(error) if error.retry_may_help() => {
                        // Whoever waits behind this waits in vain, for now.
                        seller.breaker.trip();
                        line.send_away(|| PurchaseError::DatabaseResting);
                        sleep(RESEND_PAUSE).await;
                    }
                    // Refused, and so not there; but the first may yet come through.
                    Err(_) if purchases.len() == 1 => return Err(lost),
                    known => return known,
                }
            }
        })
    }

    /// `work` is stuck: its members hear "unknown" while it goes on, and whoever comes for the
    /// same vouchers that it is of no use. Their locks stay until it is over: it may still write.
    /// The turn passes on, for other rows may be free.
    fn leave_behind(self, work: Work, batch: Vec<Member>) {
        self.seller.breaker.trip();
        let vouchers = batch.iter().map(|member| member.request.sale.voucher.id).collect();
        let stuck = Stuck::new(&self.line, vouchers);
        let seller = Arc::clone(&self.seller);
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

/// One try, and the last word unless the answer is lost. Whatever it names is on disk: a batch is a
/// commit that writes, for it locks the rows of the vouchers that there are, and so behind all that
/// it has read.
async fn place(
    database: &Database,
    purchases: &[Purchase],
    sent_before: bool,
) -> Result<Vec<Placed>, StoreError> {
    let work = database.with_kept(async |connection| match purchases {
        [one] if !sent_before => {
            Ok(vec![orders::place(connection, one, Commit::Synchronous).await?])
        }
        all => order_batch::place_all(connection, all, sent_before).await,
    });
    let placed = within(RESEND_AFTER, work)
        .await
        .unwrap_or_else(|silence| Err(StoreError::unknown(Service::Postgres, silence)))?;
    if let (false, [Placed::AlreadyBought(order)]) = (sent_before, &*placed) {
        // It only read, what a node that sells by `locked` has not flushed yet, perhaps.
        database.flush(*order).await?;
    }
    Ok(placed)
}

impl Member {
    /// What to write down; once it has an id.
    fn purchase(&self) -> Option<Purchase> {
        let order_id = self.order_id?;
        let request = &self.request;
        let (user_id, voucher_id) = (request.user, request.sale.voucher.id);
        Some(Purchase { order_id, user_id, voucher_id, at: request.at })
    }
}
