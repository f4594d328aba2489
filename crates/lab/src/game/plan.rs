//! What is played: a rung, who takes part, in how many processes, and what is on sale.

use ladder::{Capability, LeaseKind, LockKind, Rung, named};

use super::schedule::{ACTOR_NAMES, Step};
use crate::scheduler::NodeIndex;

/// Where an order was sold that is not paid in time, where its payment comes, and where it is ended; and where
/// the consumer works whose turns are steps.
pub(crate) const FIRST_NODE: NodeIndex = NodeIndex(0);

/// What is played.
#[derive(Debug, Clone, Copy)]
pub struct GamePlan {
    /// The rung.
    pub rung: &'static Rung,
    /// Attempts to buy: 2 or 3.
    pub buyers: usize,
    /// Different users: one who comes several times, or as many as buyers.
    pub users: u8,
    /// Processes that sell: one, or one for each buyer.
    pub processes: u8,
    /// Vouchers on sale.
    pub stock: i32,
    /// A has ordered already and not paid in time: A pays, the others want what A has.
    pub is_unpaid: bool,
}

named! {
    /// What may happen in a schedule, at any place.
    FaultKind {
        /// The lease of the lock ends while its holder works.
        Lease = "lease",
        /// A process is killed (`SIGKILL`).
        Kill = "kill",
        /// A process is stopped past the lease of the lock that it holds (`SIGSTOP`).
        Pause = "pause",
    }
}

impl FaultKind {
    /// What a step is; `None` for an actor's own.
    pub(crate) const fn of(step: Step) -> Option<Self> {
        match step {
            Step::Go(_) => None,
            Step::EndLease => Some(Self::Lease),
            Step::Kill(_) => Some(Self::Kill),
            Step::Pause(_) => Some(Self::Pause),
        }
    }
}

impl GamePlan {
    /// Two buyers.
    pub const fn new(rung: &'static Rung, users: u8, processes: u8, stock: i32) -> Self {
        Self { rung, buyers: 2, users, processes, stock, is_unpaid: false }
    }

    /// The buyers' names.
    pub(crate) fn names(&self) -> &'static [&'static str] {
        &ACTOR_NAMES[..self.buyers]
    }

    /// Which of the users a buyer is, from 0.
    pub(crate) const fn user(&self, buyer: usize) -> i64 {
        if self.users == 1 { 0 } else { buyer as i64 }
    }

    /// Which process serves a buyer.
    pub(crate) const fn node(&self, buyer: usize) -> NodeIndex {
        NodeIndex(buyer % self.processes as usize)
    }

    /// Whether the fault can make sense on the rung in this plan. A process that is killed or stopped must not be
    /// everybody's, and it must be about the lock that a user's requests compete for, or about what was promised,
    /// to whomever. (A pause within the lease is what any schedule is that turns to somebody else.)
    pub(crate) fn allows(&self, fault: FaultKind) -> bool {
        let Self { rung, .. } = *self;
        let one_process_each = usize::from(self.processes) == self.buyers;
        if self.is_unpaid {
            return one_process_each && fault == FaultKind::Kill;
        }
        let is_at_stake = rung.has_consumer() || self.users == 1;
        match fault {
            FaultKind::Lease => can_end_lease(rung),
            FaultKind::Kill => one_process_each && is_at_stake && can_be_killed(rung),
            FaultKind::Pause => one_process_each && is_at_stake && can_be_paused(rung),
        }
    }
}

/// Whether a lock of the rung has a lease that can be ended.
pub fn can_end_lease(rung: &Rung) -> bool {
    matches!(rung.lock, LockKind::Redis(_)) && rung.lease != LeaseKind::NoLease
}

/// Whether a kill of a process ever shows something on the rung: it has a lock or a consumer, and more than one
/// step.
pub fn can_be_killed(rung: &Rung) -> bool {
    rung.lock != LockKind::NoLock && !rung.can(Capability::OneStep)
}

/// Whether a process of the rung can be stopped past the lease of its lock: while it runs it renews that.
pub fn can_be_paused(rung: &Rung) -> bool {
    can_be_killed(rung) && rung.lease == LeaseKind::Renewed
}
