//! How far a load has come, for whoever looks at it meanwhile. All of it is atomics that a looker reads: a
//! message for every answer would be work in the middle of what is measured.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::outcome::{ACCEPTED, ALREADY_BOUGHT, NO_ANSWER, NOT_SENT, ORDER_IN_PROGRESS, ORDERED};

/// What one buyer knows so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum BuyerState {
    /// Nothing yet, or only that another attempt is under way.
    Waiting = 0,
    /// An attempt was refused.
    Refused = 1,
    /// An attempt was told that there is an order, and none was told yes: the yes comes later, or never.
    HasOrder = 2,
    /// One attempt was told yes.
    Bought = 3,
    /// More than one was.
    BoughtAgain = 4,
}

impl BuyerState {
    const fn of(byte: u8) -> Self {
        match byte {
            0 => Self::Waiting,
            1 => Self::Refused,
            2 => Self::HasOrder,
            3 => Self::Bought,
            _ => Self::BoughtAgain,
        }
    }
}

/// How far a load has come.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    ordered: AtomicU64,
    /// One a buyer, where somebody asks for them.
    buyers: Box<[AtomicU8]>,
}

impl Progress {
    /// Also of each buyer, of whom there are so many.
    #[must_use]
    pub fn of_buyers(count: usize) -> Self {
        Self { buyers: (0..count).map(|_| AtomicU8::new(0)).collect(), ..Self::default() }
    }

    /// Requests that have their outcome. Read after [`Self::ordered`], it is no smaller than that.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// Those of them that were told yes.
    #[must_use]
    pub fn ordered(&self) -> u64 {
        self.ordered.load(Ordering::Acquire)
    }

    /// A request of this buyer has this outcome.
    pub(super) fn add(&self, buyer: u64, outcome: &str) {
        let is_yes = [ORDERED, ACCEPTED].contains(&outcome);
        let buyer = usize::try_from(buyer).ok().and_then(|buyer| self.buyers.get(buyer));
        match buyer {
            Some(state) if is_yes => {
                let before = state.fetch_max(BuyerState::Bought as u8, Ordering::Relaxed);
                if before >= BuyerState::Bought as u8 {
                    state.store(BuyerState::BoughtAgain as u8, Ordering::Relaxed);
                }
            }
            // Nobody spoke, or the other attempt decides.
            Some(_) if [ORDER_IN_PROGRESS, NO_ANSWER, NOT_SENT].contains(&outcome) => {}
            Some(state) if outcome == ALREADY_BOUGHT => {
                state.fetch_max(BuyerState::HasOrder as u8, Ordering::Relaxed);
            }
            Some(state) => {
                state.fetch_max(BuyerState::Refused as u8, Ordering::Relaxed);
            }
            None => {}
        }
        // In this order: no looker sees more yeses than requests that are over.
        self.done.fetch_add(1, Ordering::Release);
        self.ordered.fetch_add(u64::from(is_yes), Ordering::Release);
    }
}

/// What was seen of the buyers last, to tell what has changed.
#[derive(Debug, Default)]
pub struct BuyerStates(Vec<u8>);

impl BuyerStates {
    /// Which buyers are in another state than at the last look.
    pub fn changes(&mut self, progress: &Progress) -> BuyerChanges {
        self.0.resize(progress.buyers.len(), 0);
        let mut changes = BuyerChanges::default();
        for (at, (seen, now)) in self.0.iter_mut().zip(&progress.buyers).enumerate() {
            let now = now.load(Ordering::Relaxed);
            if *seen != now {
                *seen = now;
                changes.add(at as u32, BuyerState::of(now));
            }
        }
        changes
    }
}

/// Buyers, by index, whose state is another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // the states say it
pub struct BuyerChanges {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub has_order: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bought: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bought_again: Vec<u32>,
}

impl BuyerChanges {
    fn add(&mut self, buyer: u32, state: BuyerState) {
        match state {
            BuyerState::Waiting => {}
            BuyerState::Refused => self.refused.push(buyer),
            BuyerState::HasOrder => self.has_order.push(buyer),
            BuyerState::Bought => self.bought.push(buyer),
            BuyerState::BoughtAgain => self.bought_again.push(buyer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_look_tells_what_changed_since_the_last_one() {
        let (progress, mut states) = (Progress::of_buyers(4), BuyerStates::default());
        assert_eq!(states.changes(&progress), BuyerChanges::default());
        progress.add(0, "sold_out");
        progress.add(1, "ordered");
        // The other attempt of this buyer decides.
        progress.add(2, "order_in_progress");
        let seen = states.changes(&progress);
        assert_eq!((seen.refused, seen.bought), (vec![0], vec![1]));
        // A refusal after a yes takes nothing back; a yes after a refusal counts.
        progress.add(1, "already_bought");
        progress.add(1, "sold_out");
        progress.add(0, "accepted");
        progress.add(3, "ordered");
        progress.add(3, "ordered");
        let seen = states.changes(&progress);
        assert_eq!((seen.refused, seen.bought, seen.bought_again), (vec![], vec![0], vec![3]));
        assert_eq!(states.changes(&progress), BuyerChanges::default());
        assert_eq!((progress.done(), progress.ordered()), (8, 4));
    }

    #[test]
    fn who_has_an_order_is_told_apart_from_a_yes_and_silence_is_no_refusal() {
        let (progress, mut states) = (Progress::of_buyers(3), BuyerStates::default());
        // The refusal is heard before the yes that it is for.
        progress.add(0, "already_bought");
        progress.add(1, "no_answer");
        progress.add(2, "not_sent");
        let has_order = BuyerChanges { has_order: vec![0], ..Default::default() };
        assert_eq!(states.changes(&progress), has_order);
        // One yes is no second one.
        progress.add(0, "ordered");
        progress.add(0, "already_bought");
        let bought = BuyerChanges { bought: vec![0], ..Default::default() };
        assert_eq!(states.changes(&progress), bought);
        assert_eq!((progress.done(), progress.ordered()), (5, 1));
    }

    #[test]
    fn nobody_is_kept_whom_nobody_asks_for() {
        let (progress, mut states) = (Progress::default(), BuyerStates::default());
        progress.add(7, "ordered");
        assert_eq!(states.changes(&progress), BuyerChanges::default());
        assert_eq!((progress.done(), progress.ordered()), (1, 1));
        // Nor one beyond the last.
        let progress = Progress::of_buyers(1);
        progress.add(1, "ordered");
        progress.add(0, "sold_out");
        assert_eq!(states.changes(&progress).refused, [0]);
    }
}
