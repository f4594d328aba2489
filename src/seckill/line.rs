//! A line: purchases, of whatever vouchers, that wait to go on together. With a line for each
//! voucher many on sale would mean many small batches.
//!
//! Whoever comes and finds fewer leading than may has a leader begin: alone, a purchase goes at once.
//! Whoever comes meanwhile waits, and when a leader is done, the next one takes all of them along,
//! as many as may go together. Nothing waits for a timer, or for company. But whoever comes before a
//! leader has begun, which takes a moment where the processors are busy, goes with him.

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
    max_batch: usize,
}

/// Whoever waits is among those whom the appointed take along, or as many lead as may, and come back
/// for him.
#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Member>,
    leaders: usize,
    /// Of the leaders, those who have not begun. They will take the first who wait.
    appointed: usize,
    /// Of these vouchers a batch is stuck in the database. The others go on without them.
    stuck: HashSet<VoucherId>,
}

impl Line {
    /// A line of at most `max` who wait, besides those whom a leader who is about to begin takes
    /// along. So many lead at once, and so many go together.
    pub(super) fn new(max: usize, max_leaders: usize, max_batch: usize) -> Self {
        Self { state: Mutex::default(), max, max_leaders, max_batch }
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
        let most = self.max.saturating_add(self.taken_along(state));
        // With fewer leaders he does not wait.
        if state.leaders == self.max_leaders && state.waiting.len() >= most {
            return Err(PurchaseError::Overloaded);
        }
        Ok(())
    }

    /// How many those can take along who are about to begin.
    fn taken_along(&self, state: &State) -> usize {
        state.appointed.saturating_mul(self.max_batch)
    }

    /// Whether somebody waits whom nobody who is about to begin will take along.
    fn leaves_any(&self, state: &State) -> bool {
        state.waiting.len() > self.taken_along(state)
    }

    /// They stand in line. Whether one more is to lead, who calls [`Line::begin`]; and who is not
    /// admitted, for one of the reasons of [`Line::check`]. (No more than one begins: several come at
    /// once only to a line that has one leader.)
    #[must_use]
    pub(super) fn join(&self, members: impl IntoIterator<Item = Member>) -> (bool, Vec<Told>) {
        let (mut state, mut refused) = (self.state(), Vec::new());
        for member in members {
            match self.admits(&state, member.request.sale.voucher.id) {
                Ok(()) => state.waiting.push_back(member),
                Err(error) => refused.push((member, Err(error))),
            }
        }
        let leads = state.leaders < self.max_leaders && self.leaves_any(&state);
        if leads {
            state.leaders += 1;
            state.appointed += 1;
        }
        (leads, refused)
    }

    /// A leader begins: with this batch, or with nobody, when they have left.
    pub(super) fn begin(&self) -> Vec<Member> {
        let mut state = self.state();
        state.appointed -= 1;
        let count = state.waiting.len().min(self.max_batch);
        state.waiting.drain(..count).collect()
    }

    /// A leader is done. Whether the next one is to lead, who calls [`Line::begin`].
    #[must_use]
    pub(super) fn pass(&self) -> bool {
        let mut state = self.state();
        let leads = self.leaves_any(&state);
        if leads {
            state.appointed += 1;
        } else {
            state.leaders -= 1;
        }
        leads
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

    /// Whether one more is to lead, and who is refused.
    fn join(line: &Line, comers: impl IntoIterator<Item = i64>) -> (bool, Vec<i64>) {
        let (leads, refused) = line.join(members(comers));
        (leads, numbers(refused.iter().map(|(member, _)| member)))
    }

    fn begin(line: &Line) -> Vec<i64> {
        numbers(&line.begin())
    }

    #[test]
    fn as_many_lead_as_may_and_whoever_waits_is_taken_along_in_his_turn() {
        let line = Line::new(10, 2, MAX_BATCH);
        assert_eq!(join(&line, [1]), (true, vec![]));
        assert_eq!(begin(&line), [1]);
        assert_eq!(join(&line, [2, 3]), (true, vec![]));
        assert_eq!(begin(&line), [2, 3]);
        assert_eq!(join(&line, [4]), (false, vec![]));
        assert_eq!(join(&line, [5, 6]), (false, vec![]));
        assert!(line.pass());
        assert_eq!(begin(&line), [4, 5, 6]);
        // One leads no more, and whoever comes may have one lead; the other does still.
        assert!(!line.pass());
        assert_eq!(join(&line, [7]), (true, vec![]));
        assert_eq!(begin(&line), [7]);
        assert_eq!(join(&line, [8]), (false, vec![]));
        assert!(line.pass());
        assert_eq!(begin(&line), [8]);
        assert!(!line.pass() && !line.pass());
        assert_eq!(join(&line, []), (false, vec![]));
        assert_eq!(join(&line, [9]), (true, vec![]));
    }

    #[test]
    fn who_comes_before_a_leader_has_begun_goes_with_him() {
        let line = Line::new(10, 2, 3);
        assert_eq!(join(&line, [1]), (true, vec![]));
        assert_eq!(join(&line, [2, 3]), (false, vec![]));
        // Not he: they are three already.
        assert_eq!(join(&line, [4]), (true, vec![]));
        assert_eq!((begin(&line), begin(&line)), (vec![1, 2, 3], vec![4]));
        assert_eq!(join(&line, [5]), (false, vec![]));
        assert!(line.pass());
        assert_eq!(join(&line, [6]), (false, vec![]));
        // The other one is done before this one has begun, and leaves these to him.
        assert!(!line.pass());
        assert_eq!(begin(&line), [5, 6]);
        assert!(!line.pass());
    }

    #[test]
    fn where_each_goes_for_himself_each_leads_at_once() {
        let line = Line::new(0, usize::MAX, 1);
        for comer in 1..=3 {
            assert_eq!(join(&line, [comer]), (true, vec![]));
        }
        assert_eq!((begin(&line), begin(&line), begin(&line)), (vec![1], vec![2], vec![3]));
        assert!(!line.pass() && !line.pass() && !line.pass());
    }

    #[test]
    fn a_batch_has_no_more_than_it_may_have() {
        let line = Line::new(1_000, 1, 256);
        assert_eq!(join(&line, [1_000]), (true, vec![]));
        assert_eq!(begin(&line), [1_000]);
        assert_eq!(join(&line, 1..=300), (false, vec![]));
        assert!(line.pass());
        assert_eq!(begin(&line), Vec::from_iter(1..=256));
        assert!(line.pass());
        assert_eq!(begin(&line), Vec::from_iter(257..=300));
        assert!(!line.pass());
    }

    #[test]
    fn one_more_than_may_wait_is_refused_but_not_who_need_not_wait() {
        for max in [0, 1, 3] {
            let line = Line::new(max, 1, 5);
            assert_eq!(join(&line, [1, 2]), (true, vec![]));
            // They go with those two, who have not begun; but five are all that can.
            assert_eq!(join(&line, [3, 4, 5]), (false, vec![]));
            let comers: Vec<i64> = (10..15).collect();
            let (waiting, refused) = comers.split_at(max);
            assert_eq!(join(&line, comers.clone()), (false, refused.to_vec()), "{max}");
            assert!(matches!(line.check(voucher(1)), Err(PurchaseError::Overloaded)));
            assert_eq!(begin(&line), [1, 2, 3, 4, 5], "{max}");
            assert!(matches!(line.check(voucher(1)), Err(PurchaseError::Overloaded)));
            assert_eq!(line.pass(), max > 0);
            if max > 0 {
                assert_eq!(begin(&line), waiting, "{max}");
            }
        }
    }

    #[test]
    fn who_waits_for_what_is_stuck_leaves_and_the_others_stay() {
        let line = Line::new(10, 1, MAX_BATCH);
        assert_eq!(join(&line, [1]), (true, vec![]));
        assert_eq!(begin(&line), [1]);
        assert_eq!(join(&line, [2, 3, 1, 2]), (false, vec![]));
        let stuck = HashSet::from([voucher(1), voucher(2)]);
        assert_eq!(numbers(&line.stuck(&stuck)), [2, 1, 2]);
        assert!(matches!(line.check(voucher(2)), Err(PurchaseError::DatabaseResting)));
        assert_eq!(join(&line, [2, 4]), (false, vec![2]));
        assert!(line.pass());
        assert_eq!(begin(&line), [3, 4]);
        line.freed(&stuck);
        assert_eq!(join(&line, [2, 5]), (false, vec![]));
        assert!(line.pass());
        // They leave before the next leader has begun: he has nobody to lead.
        assert_eq!(numbers(&line.leave()), [2, 5]);
        assert!(begin(&line).is_empty());
        assert!(!line.pass());
        assert_eq!(join(&line, [1]), (true, vec![]));
        assert_eq!(begin(&line), [1]);
    }
}
