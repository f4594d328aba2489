//! A line: purchases, of whatever vouchers, that wait to go on together. With a line for each
//! voucher many on sale would mean many small batches.
//!
//! Whoever comes and finds fewer leading than may leads: alone, a purchase goes at once. Whoever
//! comes meanwhile waits, and when a leader is done, the next one takes all of them along, up to
//! [`MAX_BATCH`]. Nothing waits for a timer, or for company.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{PurchaseError, Request};
use crate::lock::Guard;
use crate::model::{OrderId, Outcome, VoucherId};

/// Purchases in one transaction, or let in together.
pub(super) const MAX_BATCH: usize = 256;

/// A purchase in the line.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) request: Request,
    /// Once one was drawn.
    pub(super) order_id: Option<OrderId>,
    /// The user's lock, once it is taken: held until it is known what became of the purchase.
    pub(super) guard: Option<Guard>,
    pub(super) reply: oneshot::Sender<Answer>,
    pub(super) since: Instant,
}

/// What a member is told.
pub(super) type Answer = Result<Outcome, PurchaseError>;

/// Who is told what.
pub(super) type Told = (Member, Answer);

impl Member {
    /// It is over. (Where nobody listens any more the answer is dropped.)
    pub(super) fn tell(self, outcome: Answer) {
        let _ = self.reply.send(outcome);
    }

    /// It goes on; its lock is for whoever carries it on.
    pub(super) fn tell_unknown(self) -> Option<Guard> {
        let _ = self.reply.send(Err(PurchaseError::StillWaiting));
        self.guard
    }
}

/// One process's line.
#[derive(Debug)]
pub(super) struct Line {
    state: Mutex<State>,
    max: usize,
    max_leaders: usize,
}

/// While anybody waits, as many lead as may, and come back for them.
#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Member>,
    leaders: usize,
    /// Of these vouchers a batch is stuck in the database. The others go on without them.
    stuck: HashSet<VoucherId>,
}

impl State {
    fn batch(&mut self) -> Vec<Member> {
        let count = self.waiting.len().min(MAX_BATCH);
        self.waiting.drain(..count).collect()
    }
}

impl Line {
    /// A line of at most `max` who wait, and so many who lead at once.
    pub(super) fn new(max: usize, max_leaders: usize) -> Self {
        Self { state: Mutex::default(), max, max_leaders }
    }

    /// Whether whoever comes now for `voucher` may stand in line.
    ///
    /// # Errors
    /// `Overloaded` when too many wait; `DatabaseResting` when a batch with `voucher` in it is
    /// stuck.
    pub(super) fn check(&self, voucher: VoucherId) -> Result<(), PurchaseError> {
        self.admits(&self.state(), voucher)
    }

    fn admits(&self, state: &State, voucher: VoucherId) -> Result<(), PurchaseError> {
        if state.stuck.contains(&voucher) {
            return Err(PurchaseError::DatabaseResting);
        }
        // Otherwise they do not wait.
        if state.leaders == self.max_leaders && state.waiting.len() >= self.max {
            return Err(PurchaseError::Overloaded);
        }
        Ok(())
    }

    /// They stand in line. Where one more may lead: the batch to lead, until [`Line::next`] says
    /// that nobody waits. And who is not admitted, for one of the reasons of [`Line::check`].
    pub(super) fn join(
        &self,
        members: impl IntoIterator<Item = Member>,
    ) -> (Vec<Member>, Vec<Told>) {
        let (mut state, mut refused) = (self.state(), Vec::new());
        for member in members {
            match self.admits(&state, member.request.sale.voucher.id) {
                Ok(()) => state.waiting.push_back(member),
                Err(error) => refused.push((member, Err(error))),
            }
        }
        if state.leaders == self.max_leaders || state.waiting.is_empty() {
            return (Vec::new(), refused);
        }
        state.leaders += 1;
        (state.batch(), refused)
    }

    /// For a leader that is done: the next batch to lead, or nobody, and he leads no more.
    pub(super) fn next(&self) -> Vec<Member> {
        let mut state = self.state();
        let batch = state.batch();
        if batch.is_empty() {
            state.leaders -= 1;
        }
        batch
    }

    /// A batch with `vouchers` in it is stuck in the database: who waits for them waits in vain,
    /// and leaves.
    pub(super) fn stuck(&self, vouchers: &HashSet<VoucherId>) -> VecDeque<Member> {
        let mut state = self.state();
        state.stuck.extend(vouchers);
        let in_vain = |member: &Member| vouchers.contains(&member.request.sale.voucher.id);
        let (away, waiting) = state.waiting.drain(..).partition(in_vain);
        state.waiting = waiting;
        away
    }

    /// It is not any more.
    pub(super) fn freed(&self, vouchers: &HashSet<VoucherId>) {
        self.state().stuck.retain(|voucher| !vouchers.contains(voucher));
    }

    /// All who wait leave.
    pub(super) fn leave(&self) -> VecDeque<Member> {
        std::mem::take(&mut self.state().waiting)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}
