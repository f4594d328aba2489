//! What must be true of a lock: its holder, the number of holds, the token.

use serde::Serialize;

use crate::game::ACTOR_NAMES;
use ladder::named;

named! {
    /// What the lock promises.
    LockInvariant {
        /// No two clients hold the lock whose leases have not ended.
        MutualExclusion = "mutual_exclusion",
        /// Each holder's token is larger than those before; a holder that enters again keeps it.
        FencingTokens = "fencing_tokens",
        /// Nobody sleeps while the lock is free.
        NoLostWakeUp = "no_lost_wake_up",
        /// Redis counts what was granted and not yet given back.
        HoldCounts = "hold_counts",
    }
}

/// A promise of the lock that a schedule broke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenByClients {
    /// The promise.
    pub invariant: LockInvariant,
    /// What shows it.
    pub witness: String,
}

#[derive(Debug)]
struct Held {
    actor: usize,
    entries: Vec<usize>,
}

/// The books of one schedule, kept from the answers that clients got.
#[derive(Debug, Default)]
pub(super) struct LockBooks {
    held: Option<Held>,
    last_token: u64,
    /// The first break of each promise.
    pub(super) broken: Vec<BrokenByClients>,
}

impl LockBooks {
    pub(super) fn breaks(&mut self, invariant: LockInvariant, witness: String) {
        if !self.broken.iter().any(|known| known.invariant == invariant) {
            self.broken.push(BrokenByClients { invariant, witness });
        }
    }

    pub(super) fn granted(&mut self, actor: usize, entry: usize, token: u64) {
        let name = ACTOR_NAMES[actor];
        let again = self.held.as_ref().is_some_and(|held| held.actor == actor);
        if let Some(held) = self.held.as_ref().filter(|_| !again) {
            let witness = format!("{name} was let in while {} is inside", ACTOR_NAMES[held.actor]);
            self.breaks(LockInvariant::MutualExclusion, witness);
        }
        if if again { token != self.last_token } else { token <= self.last_token } {
            let order =
                if again { "does not have the token of its entry" } else { "has no larger token" };
            self.breaks(LockInvariant::FencingTokens, format!("{name} {order}"));
        }
        self.last_token = token;
        match &mut self.held {
            Some(held) if again => held.entries.push(entry),
            held => *held = Some(Held { actor, entries: vec![entry] }),
        }
    }

    pub(super) fn refused(&mut self, actor: usize) {
        if self.held.as_ref().is_none_or(|held| held.actor == actor) {
            let witness = format!("{} is refused, and nobody else is inside", ACTOR_NAMES[actor]);
            self.breaks(LockInvariant::HoldCounts, witness);
        }
    }

    pub(super) fn renewed(&mut self, actor: usize, entry: usize, renewed: bool) {
        if renewed != self.holds(actor, entry) {
            let witness = format!("{} hears otherwise of its lease", ACTOR_NAMES[actor]);
            self.breaks(LockInvariant::HoldCounts, witness);
        }
    }

    pub(super) fn released(&mut self, actor: usize, entry: usize, left: Option<u64>) {
        let expected = self.holds(actor, entry).then(|| self.give_back(entry));
        if left != expected {
            let witness = format!("{} hears otherwise of its holds", ACTOR_NAMES[actor]);
            self.breaks(LockInvariant::HoldCounts, witness);
        }
    }

    /// Without an answer to hold against the books.
    pub(super) fn deleted(&mut self, actor: usize, entry: usize) {
        if self.holds(actor, entry) {
            self.give_back(entry);
        }
    }

    pub(super) fn lease_ended(&mut self) {
        self.held = None;
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    fn holds(&self, actor: usize, entry: usize) -> bool {
        let of_actor = |held: &&Held| held.actor == actor;
        self.held.as_ref().filter(of_actor).is_some_and(|held| held.entries.contains(&entry))
    }

    fn give_back(&mut self, entry: usize) -> u64 {
        let Some(held) = &mut self.held else { return 0 };
        held.entries.retain(|other| *other != entry);
        let left = held.entries.len() as u64;
        if left == 0 {
            self.held = None;
        }
        left
    }

    /// Holds the books against what Redis has: owners, by their actors, and their holds.
    pub(super) fn compare(&mut self, seen: &[(Option<usize>, u64)]) {
        let held = self.held.as_ref();
        let expected = held.map(|held| (Some(held.actor), held.entries.len() as u64));
        if seen != expected.as_slice() {
            let holds = |found: &[(Option<usize>, u64)]| match found {
                [(Some(actor), holds)] => format!("{holds} of {}", ACTOR_NAMES[*actor]),
                [] => "no hold".to_owned(),
                _ => "something else".to_owned(),
            };
            let (seen, expected) = (holds(seen), holds(expected.as_slice()));
            self.breaks(
                LockInvariant::HoldCounts,
                format!("Redis has {seen}, expected: {expected}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(books: &LockBooks) -> Vec<LockInvariant> {
        books.broken.iter().map(|broken| broken.invariant).collect()
    }

    #[test]
    fn what_may_not_be_is_found() {
        let mut books = LockBooks::default();
        books.granted(0, 0, 7);
        books.granted(0, 1, 7);
        books.compare(&[(Some(0), 2)]);
        books.released(0, 1, Some(1));
        books.lease_ended();
        books.granted(1, 0, 8);
        books.renewed(0, 0, false);
        books.released(0, 0, None);
        books.refused(0);
        books.compare(&[(Some(1), 1)]);
        assert_eq!(books.broken, []);
        books.granted(0, 0, 8);
        assert_eq!(broken(&books), [LockInvariant::MutualExclusion, LockInvariant::FencingTokens]);
        books.released(0, 0, None);
        assert_eq!(broken(&books).last(), Some(&LockInvariant::HoldCounts));
    }
}
