//! The line before one voucher: purchases that wait to be committed together.
//!
//! Whoever comes and finds a leader's place free takes it, and with it everybody who waits:
//! alone, a purchase goes at once. Whoever finds all places taken waits for the next leader,
//! who takes over from one that is done. Nothing waits for a timer, or for company.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{PurchaseError, Request};
use crate::lock::Guard;
use crate::model::{OrderId, Outcome};

/// Transactions of one voucher under way at once.
const WIDTH: usize = 2;

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

/// One voucher's line.
#[derive(Debug)]
pub(super) struct Line {
    state: Mutex<State>,
    max: usize,
}

/// While anybody waits, all places are taken: somebody comes back for them.
#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Member>,
    leaders: usize,
    /// Of these, how many are stuck in the database.
    stuck: usize,
}

impl State {
    fn check(&self, max: usize) -> Result<(), PurchaseError> {
        if self.stuck >= WIDTH {
            return Err(PurchaseError::DatabaseResting);
        }
        if self.waiting.len() >= max {
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
    /// `Overloaded` when too many wait; `DatabaseResting` when those before are all stuck.
    pub(super) fn check(&self) -> Result<bool, PurchaseError> {
        let state = self.state();
        let leads = state.leaders < WIDTH;
        if !leads {
            state.check(self.max)?;
        }
        Ok(leads)
    }

    /// Stands in line. Where that makes a leader of the member: its batch, itself in it; the
    /// leader's place is taken until [`Line::next`] says that nobody waits. A member that is
    /// not admitted, for one of the reasons of [`Line::check`], is told so.
    pub(super) fn join(&self, member: Member) -> Option<Vec<Member>> {
        let mut state = self.state();
        if state.leaders < WIDTH {
            state.leaders += 1;
            state.waiting.push_back(member);
            return Some(state.batch());
        }
        match state.check(self.max) {
            Ok(()) => state.waiting.push_back(member),
            Err(error) => member.tell(Err(error)),
        }
        None
    }

    /// For a leader that is done: the next batch, or empty, and the place is free.
    pub(super) fn next(&self, was_stuck: bool) -> Vec<Member> {
        let mut state = self.state();
        state.stuck -= usize::from(was_stuck);
        let batch = state.batch();
        state.leaders -= usize::from(batch.is_empty());
        batch
    }

    /// A leader is stuck in the database until it asks for the next batch.
    pub(super) fn stuck(&self) {
        self.state().stuck += 1;
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
