//! Strategy `group-commit`: the same lock and the same ids as `locked`, but purchases that wait
//! for the database go there together, in one transaction and with ids from one `INCRBY`. One
//! commit after another is what limits `locked`; here each carries many.
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

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::line::{Answer, Line, Member};
use super::seller::{Again, MAX_ATTEMPTS, PATIENCE, Seller, judge};
use super::till::{Till, Work};
use super::{PurchaseError, Request, Strategy};
use crate::lock::Guard;
use crate::model::{OrderId, Outcome, Refusal};
use crate::store::orders::{Placed, Purchase};
use crate::store::patience::within;
use crate::store::{Commit, OrderIdError};

/// How long a purchase stands in line. A client that waits longer has given up.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct GroupCommit {
    till: Till,
    with_lock: bool,
}

impl GroupCommit {
    pub(super) fn new(seller: Seller, max_in_line: usize, with_lock: bool) -> Self {
        let till = Till { seller: Arc::new(seller), line: Arc::new(Line::new(max_in_line)) };
        Self { till, with_lock }
    }

    /// The lock, where there is one; `None`: another purchase of the user is under way.
    async fn enter(&self, request: &Request) -> Result<Option<Option<Guard>>, PurchaseError> {
        if !self.with_lock {
            return Ok(Some(None));
        }
        Ok(self.till.seller.lock(request.user).await?.map(Some))
    }

    async fn draw_if(&self, now: bool) -> Result<Option<OrderId>, OrderIdError> {
        if !now {
            return Ok(None);
        }
        // Boxed: in a rush few draw for themselves, and all would carry it.
        Box::pin(self.till.seller.order_ids.next()).await.map(Some)
    }
}

#[async_trait]
impl Strategy for GroupCommit {
    async fn purchase(self: Arc<Self>, request: Request) -> Result<Outcome, PurchaseError> {
        self.till.seller.breaker.check()?;
        let at_once = self.till.line.check(request.sale.voucher.id)?;
        if !self.with_lock && !at_once {
            // In line before it waits for anything, and whoever leads carries it along whether
            // there is still somebody to tell or not: it needs no task of its own.
            return self.stand_in_line(request, None, None).await;
        }
        let seller = Arc::clone(&self.till.seller);
        let purchase = seller.spawn(async move { self.enter_line(request, at_once).await });
        // In a panic what it held is given back.
        purchase.await.unwrap_or(Err(PurchaseError::Panicked))
    }

    async fn shutdown(&self) {
        self.till.seller.shutdown().await;
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
        if let Some(batch) = self.till.line.join(member) {
            // Whoever leads may leave, and the purchases of the others not with him.
            self.till.seller.spawn(Turn { till: self.till.clone() }.lead(batch));
        }
        // Without an answer the leader panicked; what it held is given back.
        let Answer { outcome, guard } = answer.await.map_err(|_| PurchaseError::Panicked)?;
        if let Some(guard) = guard {
            self.till.seller.let_go(guard).await;
        }
        outcome
    }
}

/// To lead the line. Dropped, also in a panic, it passes to the next.
struct Turn {
    till: Till,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let batch = self.till.line.next();
        // Without a runtime the process ends, and what is dropped here with it.
        if let (false, Ok(runtime)) = (batch.is_empty(), Handle::try_current()) {
            let next = Self { till: self.till.clone() };
            self.till.seller.tasks.spawn_on(next.lead(batch), &runtime);
        }
    }
}

impl Turn {
    /// Gives everybody in `batch` an answer.
    async fn lead(self, mut batch: Vec<Member>) {
        let gate = &self.till.seller.gate;
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
        if self.till.seller.breaker.check().is_err() {
            return self.send_away(batch, || PurchaseError::DatabaseResting);
        }
        if let Err(error) = self.draw_ids(&mut batch).await {
            return self.send_away(batch, || error.alike().into());
        }
        let purchases: Vec<Purchase> = batch.iter().filter_map(Member::purchase).collect();
        metrics::histogram!("seckill_group_size").record(purchases.len() as f64);
        let till = self.till.clone();
        let mut work = till.settle(purchases.clone(), Commit::Asynchronous);
        match within(PATIENCE, &mut work).await {
            Ok(Ok(placed)) => {
                let is_open = |one: &Placed| matches!(one, Placed::StockCameBack | Placed::IdTaken);
                // The next batch has the rows while the disk writes this one.
                let turn = placed.iter().any(is_open).then_some(self);
                let flush = till.flush(purchases, placed);
                conclude(till, turn, batch, flush).await;
            }
            Ok(Err(error)) if error.retry_may_help() => {
                self.till.seller.breaker.trip();
                self.send_away(batch, || error.alike().into());
            }
            Ok(Err(error)) => {
                // Nothing was written. One of them is to blame, and the others are not.
                tracing::warn!(%error, size = batch.len(), "a batch failed, judging it singly");
                metrics::counter!("seckill_group_broken_up_total").increment(1);
                self.judge_singly(batch).await;
            }
            // The turn passes on, for other rows may be free.
            Err(_) => till.leave_behind(work, batch),
        }
    }

    /// One after the other, in transactions of their own.
    async fn judge_singly(self, batch: Vec<Member>) {
        let mut turn = Some(self);
        for member in batch {
            turn = match turn {
                Some(turn) if turn.till.seller.breaker.check().is_ok() => {
                    turn.judge_one(member).await
                }
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
            let mut work = self.till.settle(vec![purchase], Commit::Synchronous);
            let placed = match within(PATIENCE, &mut work).await {
                Ok(Ok(mut placed)) => placed.pop(),
                Ok(Err(error)) => {
                    if error.retry_may_help() {
                        self.till.seller.breaker.trip();
                        self.till.line.send_away(|| PurchaseError::DatabaseResting);
                    }
                    member.tell(Err(error.into()));
                    return Some(self);
                }
                Err(_) => {
                    self.till.clone().leave_behind(work, vec![member]);
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
        let ids = self.till.seller.order_ids.next_many(without as u32).await?;
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
        self.till.line.send_away(because);
    }
}

/// Tells everybody in `batch` what `flush` brings. Who has no outcome yet gets one in `turn`.
async fn conclude(till: Till, turn: Option<Turn>, batch: Vec<Member>, mut flush: Work) {
    let placed = match within(PATIENCE, &mut flush).await {
        Ok(Ok(placed)) => placed,
        Ok(Err(error)) => {
            return batch.into_iter().for_each(|member| member.tell(Err(error.alike().into())));
        }
        Err(_) => return till.leave_behind(flush, batch),
    };
    let mut unjudged = Vec::new();
    for (placed, member) in placed.into_iter().zip(batch) {
        match judge(placed, &member.request.sale) {
            Ok(outcome) => member.tell(Ok(outcome)),
            Err(_) => unjudged.push(member),
        }
    }
    match turn {
        Some(turn) => turn.judge_singly(unjudged).await,
        // They were sold to once, and nobody knew whether for good.
        None => unjudged.into_iter().for_each(|member| member.tell(Err(PurchaseError::Overloaded))),
    }
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
