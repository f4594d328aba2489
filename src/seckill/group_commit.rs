//! Strategy `group-commit`: the same lock and the same ids as `locked`, but purchases that wait
//! for the database go there together, in one transaction. One transaction after another at a row is
//! what limits `locked`; here each carries many.
//!
//! They stand in two lines ([`super::line`]), one after the other: before Redis, where all who wait
//! are let in with locks tried together and ids from one `INCRBY` ([`super::entry`]), and before the
//! database.
//!
//! A purchase that finds the way free is not kept waiting for company: its lock and id are drawn
//! side by side and it runs the single statement, exactly as `locked` does. Only who comes while
//! others are at Redis, in the database, or just about to go there joins whoever else came meanwhile.
//!
//! Where other processes sell at the same time, a batch of a process that has several purchases under
//! way begins when those were heard who are just about to join it.
//!
//! Together they fail only where the database failed. A batch that the database refuses is
//! judged one by one, so that whatever is wrong with one purchase is that purchase's alone.
//! Where the connection is lost and nobody knows whether the commit came through, the same
//! batch is sent again with the same ids until the database says what is there.
//!
//! `group-commit-unlocked` is the same without the lock and the first line, and so without Redis but
//! for the ids: the constraints alone make "once" true. Whoever clicks twice at once is told of the
//! one order by the database, not by the lock.

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::care::Care;
use super::entry::Entry;
use super::line::{Answer, Line, MAX_BATCH, Member};
use super::seller::{ABANDON_AFTER, Again, MAX_ATTEMPTS, PATIENCE, Seller, judge};
use super::turn::{Leads, Turn, give_back_and_tell, tell};
use super::{PurchaseError, Request, Strategy};
use crate::lock::Guard;
use crate::model::{Outcome, VoucherId};
use crate::store::order_batch::{self, Sending};
use crate::store::orders::{self, Placed, Purchase};
use crate::store::patience::within;
use crate::store::{Commit, OrderIdError, Service, StoreError};

/// A connection that is silent for so long may be dead without anybody having noticed: another
/// one is asked.
const RESEND_AFTER: Duration = Duration::from_secs(2);

/// Between two tries to learn what became of a batch.
const RESEND_PAUSE: Duration = Duration::from_millis(50);

/// With more queued before the threads of the connections a batch does not wait for what is there: it
/// would for longer than a transaction takes.
const MAX_QUEUED: usize = 64;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct GroupCommit {
    committing: Committing,
    /// Where there is a lock.
    entry: Option<Entry>,
}

impl GroupCommit {
    pub(super) fn new(seller: Seller, max_in_line: usize, with_lock: bool) -> Self {
        // One leader at a time: a second transaction would only wait in the database for the
        // first, and the two would share between them those whom one could carry.
        let line = Arc::new(Line::new(max_in_line, 1, MAX_BATCH));
        let committing = Committing { seller: Arc::new(seller), line, care: Arc::default() };
        let entry = with_lock.then(|| Entry::new(committing.clone(), max_in_line));
        Self { committing, entry }
    }
}

#[async_trait]
impl Strategy for GroupCommit {
    async fn purchase(self: Arc<Self>, request: Request) -> Result<Outcome, PurchaseError> {
        let Committing { seller, line, .. } = &self.committing;
        seller.breaker.check()?;
        let (reply, answer) = oneshot::channel();
        let since = Instant::now();
        let member = Member { request, order_id: None, guard: None, reply, since };
        // Whoever leads carries it along whether there is still somebody to tell or not: it needs
        // no task of its own.
        match &self.entry {
            Some(entry) => {
                // Who could not go on from there need not go there.
                line.check(member.request.sale.voucher.id)?;
                entry.join([member]);
            }
            None => self.committing.join([member]),
        }
        // Without an answer the leader panicked; what it held is given back.
        answer.await.unwrap_or(Err(PurchaseError::Panicked))
    }

    async fn shutdown(&self) {
        self.committing.seller.shutdown().await;
    }
}

/// Commits the batches of the line before the database.
#[derive(Debug, Clone)]
pub(super) struct Committing {
    seller: Arc<Seller>,
    line: Arc<Line>,
    care: Arc<Care>,
}

impl Leads for Committing {
    fn seller(&self) -> &Arc<Seller> {
        &self.seller
    }

    fn line(&self) -> &Line {
        &self.line
    }

    /// Where other processes sell, too, the row is one of theirs now, most likely, and a batch would
    /// wait there, closed to who comes meanwhile. So first comes what is queued with the threads of the
    /// connections: who was answered a moment ago may come again, and others may be about to join.
    /// (Where nobody else sells the database would rest for as long. Who is alone goes at once, and so
    /// do all in an overload, when that queue is long.)
    async fn gather(&self) {
        let Some(connections) = &self.seller.connections else { return };
        let is_worth_it = connections.metrics().global_queue_depth() <= MAX_QUEUED
            && self.seller.order_ids.others_draw()
            && self.seller.gate.under_way() > 1;
        if is_worth_it {
            let _ = connections.spawn(async {}).await;
        }
    }

    async fn lead(turn: Turn<Self>, batch: Vec<Member>) {
        let batch = turn.in_time(batch);
        if batch.len() > 1 {
            turn.judge_together(batch).await;
        } else {
            turn.judge_singly(batch).await;
        }
    }
}

/// Brings what became of purchases, in their order.
type Work = Pin<Box<dyn Future<Output = Result<Vec<Placed>, StoreError>> + Send>>;

impl Turn<Committing> {
    async fn judge_together(self, mut batch: Vec<Member>) {
        if self.seller.breaker.check().is_err() {
            return self.give_up(batch, || PurchaseError::DatabaseResting);
        }
        if let Err(error) = self.draw_ids(&mut batch).await {
            return self.give_up(batch, || error.alike().into());
        }
        let purchases: Vec<Purchase> = batch.iter().filter_map(Member::purchase).collect();
        metrics::histogram!("seckill_group_size").record(purchases.len() as f64);
        let mut work = self.settle(purchases);
        match within(PATIENCE, &mut work).await {
            Ok(Ok(placed)) => {
                let (mut told, mut unjudged) = (Vec::with_capacity(batch.len()), Vec::new());
                for (placed, member) in placed.into_iter().zip(batch) {
                    match judge(placed, &member.request.sale) {
                        Ok(outcome) => told.push((member, Ok(outcome))),
                        Err(_) => unjudged.push(member),
                    }
                }
                let seller = Arc::clone(&self.seller);
                if unjudged.is_empty() {
                    // The next batch goes before the answers are given out.
                    drop(self);
                    give_back_and_tell(&seller, told).await;
                } else {
                    tell(&seller, told);
                    self.judge_singly(unjudged).await;
                }
            }
            Ok(Err(error)) if error.retry_may_help() => {
                self.seller.breaker.trip();
                self.give_up(batch, || error.alike().into());
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
        let seller = Arc::clone(&self.seller);
        let mut turn = Some(self);
        for member in batch {
            turn = match turn {
                Some(turn) if turn.seller.breaker.check().is_ok() => turn.judge_one(member).await,
                turn => {
                    tell(&seller, vec![(member, Err(PurchaseError::DatabaseResting))]);
                    turn
                }
            };
        }
    }

    /// `None` when the turn went along with a purchase that is stuck.
    async fn judge_one(self, mut member: Member) -> Option<Self> {
        for _ in 0..MAX_ATTEMPTS {
            if let Err(error) = self.draw_ids(std::slice::from_mut(&mut member)).await {
                self.send_away(|| error.alike().into());
                return Some(self.told(member, Err(error.into())));
            }
            let Some(purchase) = member.purchase() else { break };
            let mut work = self.settle(vec![purchase]);
            let placed = match within(PATIENCE, &mut work).await {
                Ok(Ok(mut placed)) => placed.pop(),
                Ok(Err(error)) => {
                    if error.retry_may_help() {
                        self.seller.breaker.trip();
                        self.send_away(|| PurchaseError::DatabaseResting);
                    }
                    return Some(self.told(member, Err(error.into())));
                }
                Err(_) => {
                    self.leave_behind(work, vec![member]);
                    return None;
                }
            };
            match placed.map(|placed| judge(placed, &member.request.sale)) {
                Some(Ok(outcome)) => return Some(self.told(member, Ok(outcome))),
                Some(Err(Again::OtherId)) => {
                    self.seller.is_taken(purchase.order_id);
                    member.order_id = None;
                }
                Some(Err(Again::SameId)) | None => {}
            }
        }
        Some(self.told(member, Err(PurchaseError::Overloaded)))
    }

    fn told(self, member: Member, answer: Answer) -> Self {
        tell(&self.seller, vec![(member, answer)]);
        self
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

    /// Places `purchases`, all in one transaction, and does not rest until it is known what
    /// became of them: where the answer is lost, they are sent again with the same ids. That
    /// waits for the row behind the first transaction, or makes it find their orders written;
    /// in whatever order the two come to the row, each order is written once.
    fn settle(&self, purchases: Vec<Purchase>) -> Work {
        let committing = (**self).clone();
        Box::pin(async move {
            let lost = match committing.place(&purchases, false).await {
                Err(error) if error.outcome_unknown() => error,
                known => return known,
            };
            tracing::warn!(error = %lost, "an answer was lost, asking what became of the orders");
            metrics::counter!("seckill_group_settled_total").increment(1);
            loop {
                match committing.place(&purchases, true).await {
                    Err(error) if error.retry_may_help() => {
                        // Whoever waits behind this waits in vain, for now.
                        committing.seller.breaker.trip();
                        committing.send_away(|| PurchaseError::DatabaseResting);
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
        let (stuck, in_vain) = Stuck::new(&self.line, vouchers);
        self.refuse(in_vain, || PurchaseError::DatabaseResting);
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
    /// And who waits for them in vain.
    fn new(line: &Arc<Line>, vouchers: HashSet<VoucherId>) -> (Self, VecDeque<Member>) {
        let in_vain = line.stuck(&vouchers);
        (Self { line: Arc::clone(line), vouchers }, in_vain)
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.line.freed(&self.vouchers);
    }
}

impl Committing {
    /// One try, and the last word unless the answer is lost. Whatever it names is on disk: a batch is
    /// a commit that writes, for it locks the rows of the vouchers that there are, and so behind all
    /// that it has read.
    async fn place(
        &self,
        purchases: &[Purchase],
        sent_before: bool,
    ) -> Result<Vec<Placed>, StoreError> {
        let database = &self.seller.database;
        let work = database.with_kept(async |connection| match purchases {
            [one] if !sent_before => {
                Ok(vec![orders::place(connection, one, Commit::Synchronous).await?])
            }
            all if sent_before => order_batch::place_all(connection, all, Sending::Again).await,
            all => {
                let placed = order_batch::place_all(connection, all, self.care.sending()).await?;
                self.care.learn(all, &placed);
                Ok(placed)
            }
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
