//! The actors of a scheduler: what each wants, what it is about, and where it came to a stop.

use std::time::Duration;

use uuid::Uuid;

use super::told::{Failure, Witness};
use ladder::{Answer, Awaited, Point, Purchase, WorkTurn};

/// A lease that no replay outlasts.
pub(super) const LONG_LEASE: Duration = Duration::from_secs(120);

/// A lease whose end a replay waits for.
pub(super) const SHORT_LEASE: Duration = Duration::from_millis(500);

/// One of the scheduler's attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Actor(pub(super) usize);

/// Where an attempt came to a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// At the pause point that was asked for.
    At(Point),
    /// It waits for another actor.
    Waits,
    /// It was answered.
    Done(Answer),
    /// It was a consumer's turn, and is over.
    Worked(WorkTurn),
    /// It found that it had lost its lock, and wrote nothing.
    LostLock,
    /// It came to no answer.
    Failed(Failure),
}

/// What an actor is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActorState {
    /// It stands where its attempt begins.
    NotBegun,
    /// At a pause point.
    Held,
    /// It waits in the database.
    QueuedInDatabase,
    /// It waits in its process.
    QueuedInProcess,
    /// It goes on by itself.
    Running,
    /// It was answered.
    Over,
    /// Its process was killed.
    Killed,
}

impl ActorState {
    /// Whether it goes on when the schedule says so.
    pub(super) fn can_go_on(self) -> bool {
        matches!(self, Self::NotBegun | Self::Held)
    }

    /// Whether it waits for another actor.
    pub(super) fn is_queued(self) -> bool {
        matches!(self, Self::QueuedInDatabase | Self::QueuedInProcess)
    }

    /// Whether it will do nothing more.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Over | Self::Killed)
    }
}

/// An actor and what became of it.
pub(super) struct ActorRecord {
    pub(super) name: &'static str,
    /// The user in the database, and what the user wants.
    pub(super) user: i64,
    pub(super) voucher: i64,
    pub(super) node: usize,
    pub(super) state: ActorState,
    pub(super) answer: Option<Stop>,
    /// What it has waited for last.
    pub(super) awaited: Option<Awaited>,
    pub(super) may_fail: bool,
}

impl ActorRecord {
    /// An actor that does nothing before it is driven.
    pub(super) fn new(name: &'static str, node: usize) -> Self {
        Self {
            name,
            user: 0,
            voucher: 0,
            node,
            state: ActorState::NotBegun,
            answer: None,
            awaited: None,
            may_fail: false,
        }
    }

    /// Why it came to no answer.
    pub(super) fn failure(&self) -> Option<Witness> {
        match &self.answer {
            Some(Stop::Failed(failure)) => {
                Some(Witness::NoAnswer { actor: self.name, failure: failure.clone() })
            }
            _ => None,
        }
    }

    /// Whether it waits for this in the database.
    pub(super) fn waits_for(&self, what: Awaited) -> bool {
        self.state == ActorState::QueuedInDatabase && self.awaited == Some(what)
    }
}

/// What an attempt is to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct ActorPlan {
    /// Which of the cell's users, from 0.
    pub(super) user: i64,
    /// Which voucher.
    pub(super) voucher: i64,
    /// Another one on the way.
    pub(super) also: Option<i64>,
    /// The lease of its lock.
    pub(super) lease: Duration,
    /// How long it waits for another one.
    pub(super) patience: Duration,
    /// The key of its request, where it is not one of its own.
    pub(super) request: Option<Uuid>,
}

impl ActorPlan {
    /// A buyer of one voucher, with a lease that does not end meanwhile.
    pub(super) const fn new(user: i64, voucher: i64) -> Self {
        Self {
            user,
            voucher,
            also: None,
            lease: LONG_LEASE,
            patience: Purchase::PATIENCE,
            request: None,
        }
    }

    /// With a lease that ends soon.
    pub(super) const fn short(self) -> Self {
        Self { lease: SHORT_LEASE, ..self }
    }

    /// Sends the request with this key.
    pub(super) const fn with_key(self, key: Uuid) -> Self {
        Self { request: Some(key), ..self }
    }

    /// Buys another voucher on the way.
    pub(super) const fn and(self, also: i64) -> Self {
        Self { also: Some(also), ..self }
    }
}

/// Money that the gateway has taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct TakenMoney {
    /// The user who paid.
    pub(super) payer: &'static str,
    /// What for.
    pub(super) order: i64,
    /// The last notice of it.
    pub(super) notice: Actor,
}
