//! What a session shows of itself. The same schedule gives the same, but for what is left of a
//! lease: ids and random names are told apart by the order in which they came.

use serde::Serialize;

use super::locks::LockView;
use crate::told::{Event, Witness};
use ladder::Invariant;

/// Everything there is to see after a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionState {
    /// The rung.
    pub rung: &'static str,
    /// Different users: one who clicks twice, or two.
    pub users: u8,
    /// Processes that sell: one for both buyers, or two.
    pub processes: u8,
    /// Vouchers at the beginning.
    pub stock: i32,
    /// Whether it begins with A's order, which was not paid in time.
    pub unpaid: bool,
    /// The steps so far.
    pub schedule: String,
    /// The buyers, and the consumer where there is one.
    pub actors: Vec<ActorView>,
    /// Whether the lease of a lock can be ended now.
    pub lease_can_end: bool,
    /// Whether the first process can be killed now.
    pub can_kill: bool,
    /// The step that stops the process of the buyer who holds a lock, if that shows something now.
    pub pause: Option<String>,
    /// Whether an answer can be lost now, so that its request is sent again.
    pub can_send_again: bool,
    /// Whether nobody will do anything more.
    pub is_over: bool,
    /// The voucher's row, as it is committed.
    pub row: StockRow,
    /// The orders that are committed, in the order in which they were heard of.
    pub orders: Vec<OrderView>,
    /// The locks.
    pub locks: Vec<LockView>,
    /// What happened; empty where a later state tells it.
    pub timeline: Vec<SessionEvent>,
    /// How many events have happened.
    pub events: usize,
    /// The promises that are broken.
    pub broken: Vec<BrokenPromise>,
}

/// A buyer, or a consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActorView {
    /// `A` or `B`; `C` for the consumer, `T` for what ends orders that are not paid.
    pub name: &'static str,
    /// Which of the users it is, from 1; 0 for the consumer and for `T`.
    pub user: u8,
    /// Which of the processes serves it, from 1.
    pub process: u8,
    /// What it did last; `not_begun` before that.
    pub at: &'static str,
    /// The line of the rung's file where it stands, from 1; `None` when it is through.
    pub line: Option<usize>,
    /// Whether it can take a step.
    pub can_step: bool,
    /// Whether it is through.
    pub is_over: bool,
}

/// The voucher's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StockRow {
    /// Vouchers at the beginning.
    pub initial_stock: i64,
    /// The stock that the row says is left.
    pub stock: i64,
}

/// An order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OrderView {
    /// "order 1".
    pub name: String,
    /// Which of the users has it, from 1.
    pub user: i64,
}

/// A line of the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionEvent {
    /// The step that it belongs to, from 1.
    pub step: usize,
    /// Who; `None` where the lab does something. `C2` is the consumer of the second process, `A2` the first
    /// user, who comes again at the end.
    pub actor: Option<&'static str>,
    /// What: the name of a pause point, `waits_in_process`, `waits_in_database`, `lost_lock`,
    /// `failed`, `lease_ended`, `killed`, `stopped`, `continued`, `at_the_end`, `worked`, or the code of an answer.
    pub kind: &'static str,
    /// What the rung says about it.
    pub detail: String,
    /// The same as a sentence.
    pub text: Event,
}

/// A promise that does not hold any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenPromise {
    /// Which.
    pub invariant: Invariant,
    /// Whether the rung claims to keep it.
    pub claimed: bool,
    /// What shows it.
    pub witness: Witness,
}
