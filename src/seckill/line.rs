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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::DateTime;

    use super::*;
    use crate::model::{UserId, Voucher};
    use crate::seckill::admission::HotRow;
    use crate::seckill::catalog::Sale;

    fn ids(number: i64) -> (UserId, VoucherId) {
        let (Some(user), Some(voucher)) = (UserId::new(number), VoucherId::new(number)) else {
            unreachable!("{number} is positive")
        };
        (user, voucher)
    }

    fn voucher(number: i64) -> VoucherId {
        ids(number).1
    }

    /// Users by number, who want the voucher of the same number.
    fn members(numbers: impl IntoIterator<Item = i64>) -> Vec<Member> {
        let (begin_time, end_time) = (DateTime::UNIX_EPOCH, DateTime::<chrono::Utc>::MAX_UTC);
        let since = Instant::now();
        let member = |number| {
            let (title, stock, initial_stock) = (String::new(), 1, 1);
            let (user, id) = ids(number);
            let of = Voucher { id, title, stock, initial_stock, begin_time, end_time };
            let sale = Arc::new(Sale::new(of, Arc::new(HotRow::new(1)), since));
            let request = Request { user, sale, at: begin_time, pass: None };
            // Nobody listens.
            let (reply, _) = oneshot::channel();
            Member { request, order_id: None, guard: None, reply, since }
        };
        numbers.into_iter().map(member).collect()
    }

    fn numbers<'a>(members: impl IntoIterator<Item = &'a Member>) -> Vec<i64> {
        members.into_iter().map(|member| member.request.user.get()).collect()
    }

    /// Who leads now, and who is refused.
    fn join(line: &Line, comers: impl IntoIterator<Item = i64>) -> (Vec<i64>, Vec<i64>) {
        let (batch, refused) = line.join(members(comers));
        (numbers(&batch), numbers(refused.iter().map(|(member, _)| member)))
    }

    #[test]
    fn as_many_lead_as_may_and_whoever_waits_is_taken_along_in_his_turn() {
        let line = Line::new(10, 2);
        assert_eq!(join(&line, [1]), (vec![1], vec![]));
        assert_eq!(join(&line, [2, 3]), (vec![2, 3], vec![]));
        assert_eq!(join(&line, [4]), (vec![], vec![]));
        assert_eq!(join(&line, [5, 6]), (vec![], vec![]));
        assert_eq!(numbers(&line.next()), [4, 5, 6]);
        // One leads no more, and whoever comes may; the other does still.
        assert!(line.next().is_empty());
        assert_eq!(join(&line, [7]), (vec![7], vec![]));
        assert_eq!(join(&line, [8]), (vec![], vec![]));
        assert_eq!(numbers(&line.next()), [8]);
        assert!(line.next().is_empty() && line.next().is_empty());
        assert_eq!(join(&line, []), (vec![], vec![]));
        assert_eq!(join(&line, [9]), (vec![9], vec![]));
    }

    #[test]
    fn a_batch_has_no_more_than_it_may_have() {
        let line = Line::new(1_000, 1);
        let most = MAX_BATCH as i64;
        assert_eq!(join(&line, [1_000]), (vec![1_000], vec![]));
        assert_eq!(join(&line, 1..=most + 44), (vec![], vec![]));
        assert_eq!(numbers(&line.next()), Vec::from_iter(1..=most));
        assert_eq!(numbers(&line.next()), Vec::from_iter(most + 1..=most + 44));
        assert!(line.next().is_empty());
    }

    #[test]
    fn one_more_than_may_wait_is_refused_but_not_who_need_not_wait() {
        for max in [0, 1, 3] {
            let line = Line::new(max, 1);
            assert_eq!(join(&line, [1, 2, 3, 4, 5]), (vec![1, 2, 3, 4, 5], vec![]));
            let comers: Vec<i64> = (10..15).collect();
            let (waiting, refused) = comers.split_at(max);
            assert_eq!(join(&line, comers.clone()), (vec![], refused.to_vec()), "{max}");
            assert!(matches!(line.check(voucher(1)), Err(PurchaseError::Overloaded)));
            assert_eq!(numbers(&line.next()), waiting, "{max}");
        }
    }

    #[test]
    fn who_waits_for_what_is_stuck_leaves_and_the_others_stay() {
        let line = Line::new(10, 1);
        assert_eq!(join(&line, [1]), (vec![1], vec![]));
        assert_eq!(join(&line, [2, 3, 1, 2]), (vec![], vec![]));
        let stuck = HashSet::from([voucher(1), voucher(2)]);
        assert_eq!(numbers(&line.stuck(&stuck)), [2, 1, 2]);
        assert!(matches!(line.check(voucher(2)), Err(PurchaseError::DatabaseResting)));
        assert_eq!(join(&line, [2, 4]), (vec![], vec![2]));
        assert_eq!(numbers(&line.next()), [3, 4]);
        line.freed(&stuck);
        assert_eq!(join(&line, [2, 5]), (vec![], vec![]));
        assert_eq!(numbers(&line.leave()), [2, 5]);
        assert!(line.next().is_empty());
        assert_eq!(join(&line, [1]), (vec![1], vec![]));
    }
}
