//! The line before the database: purchases that wait to be committed together, of whatever
//! vouchers. With a line for each voucher many on sale would mean many small transactions.
//!
//! Whoever comes and finds nobody leading leads: alone, a purchase goes at once. Whoever comes
//! meanwhile waits, and when the leader is done, the next one takes all of them along. Nothing
//! waits for a timer, or for company.
//!
//! One leader at a time: a second transaction would only wait in the database for the first,
//! and the two would share between them those whom one could carry.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{PurchaseError, Request};
use crate::lock::Guard;
use crate::model::{OrderId, Outcome, VoucherId};

/// Purchases in one transaction.
pub(super) const MAX_BATCH: usize = 256;

/// A purchase in the line.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) request: Request,
    /// Where one was drawn already.
    pub(super) order_id: Option<OrderId>,
    /// The user's lock, held until it is known what became of the purchase.
    pub(super) guard: Option<Guard>,
    pub(super) reply: oneshot::Sender<Answer>,
    pub(super) since: Instant,
}

/// What a member is told; with its lock, unless the purchase goes on.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) outcome: Result<Outcome, PurchaseError>,
    pub(super) guard: Option<Guard>,
}

impl Member {
    /// It is over. (Where nobody listens any more the lock is given back by being dropped.)
    pub(super) fn tell(self, outcome: Result<Outcome, PurchaseError>) {
        let _ = self.reply.send(Answer { outcome, guard: self.guard });
    }

    /// It goes on; its lock is for whoever carries it on.
    pub(super) fn tell_unknown(self) -> Option<Guard> {
        let outcome = Err(PurchaseError::StillWaiting);
        let _ = self.reply.send(Answer { outcome, guard: None });
        self.guard
    }
}

/// One process's line.
#[derive(Debug)]
pub(super) struct Line {
    state: Mutex<State>,
    max: usize,
}

/// While anybody waits somebody leads, and comes back for them.
#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Member>,
    led: bool,
    /// Of these vouchers a batch is stuck in the database. The others go on without them.
    stuck: HashSet<VoucherId>,
}

impl State {
    fn check(&self, voucher: VoucherId, max: usize) -> Result<(), PurchaseError> {
        if self.stuck.contains(&voucher) {
            return Err(PurchaseError::DatabaseResting);
        }
        if self.led && self.waiting.len() >= max {
            return Err(PurchaseError::Overloaded);
        }
        Ok(())
    }

    fn batch(&mut self) -> Vec<Member> {
        let count = self.waiting.len().min(MAX_BATCH);
        self.waiting.drain(..count).collect()
    }
}

impl Line {
    /// A line of at most `max` who wait.
    pub(super) fn new(max: usize) -> Self {
        Self { state: Mutex::default(), max }
    }

    /// Whether whoever comes now would lead at once.
    ///
    /// # Errors
    /// `Overloaded` when too many wait; `DatabaseResting` when a batch with `voucher` in it is
    /// stuck.
    pub(super) fn check(&self, voucher: VoucherId) -> Result<bool, PurchaseError> {
        let state = self.state();
        state.check(voucher, self.max)?;
        Ok(!state.led)
    }

    /// Stands in line. Where that makes a leader of the member: its batch, itself in it; it
    /// leads until [`Line::next`] says that nobody waits. A member that is not admitted, for
    /// one of the reasons of [`Line::check`], is told so.
    pub(super) fn join(&self, member: Member) -> Option<Vec<Member>> {
        let mut state = self.state();
        if let Err(error) = state.check(member.request.sale.voucher.id, self.max) {
            member.tell(Err(error));
            return None;
        }
        state.waiting.push_back(member);
        if state.led {
            return None;
        }
        state.led = true;
        Some(state.batch())
    }

    /// For a leader that is done: the next batch to lead, or nobody, and nobody leads.
    pub(super) fn next(&self) -> Vec<Member> {
        let mut state = self.state();
        let batch = state.batch();
        state.led = !batch.is_empty();
        batch
    }

    /// A batch with `vouchers` in it is stuck in the database: whoever waits for them hears so.
    pub(super) fn stuck(&self, vouchers: &HashSet<VoucherId>) {
        let mut state = self.state();
        state.stuck.extend(vouchers);
        let in_vain = |member: &Member| vouchers.contains(&member.request.sale.voucher.id);
        let (away, waiting) = state.waiting.drain(..).partition(in_vain);
        state.waiting = waiting;
        drop(state);
        let away: VecDeque<Member> = away;
        away.into_iter().for_each(|member| member.tell(Err(PurchaseError::DatabaseResting)));
    }

    /// It is not any more.
    pub(super) fn freed(&self, vouchers: &HashSet<VoucherId>) {
        self.state().stuck.retain(|voucher| !vouchers.contains(voucher));
    }

    /// The database, or Redis, failed: all who wait hear so now, instead of one batch after
    /// the other, each after as long a time.
    pub(super) fn send_away(&self, because: impl Fn() -> PurchaseError) {
        let waiting = std::mem::take(&mut self.state().waiting);
        for member in waiting {
            member.tell(Err(because()));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}
