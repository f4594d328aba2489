//! A depth-first walk over every schedule, without knowing what is played.
//!
//! The walk is stateless, as in VeriSoft (Godefroid, POPL 1997) and CHESS (Musuvathi and Qadeer,
//! PLDI 2007): it keeps schedules, never states. A prefix is played from the beginning and goes on
//! with default choices to its end; every step that could have been taken instead begins another
//! prefix. So each schedule is played once, and the walk needs no more of what it explores than the
//! steps that were possible at each place.

use crate::game::Step;

/// One place of a schedule that was played: what could have been done there, and what was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Branch {
    pub(super) possible: Vec<Step>,
    pub(super) chosen: Step,
}

/// The walk: prefixes that were not played yet.
#[derive(Debug)]
pub(super) struct Walk {
    open: Vec<Vec<Step>>,
    /// At most so many preemptions a schedule.
    bound: Option<usize>,
    /// At most so many schedules.
    max: usize,
    begun: usize,
}

impl Walk {
    /// A walk that begins with the schedule in which every choice is the default.
    pub(super) fn new(bound: Option<usize>, max: usize) -> Self {
        Self { open: vec![Vec::new()], bound, max, begun: 0 }
    }

    /// The next prefix to play. `None`: there is none now; one that is still played may bring more.
    pub(super) fn next(&mut self) -> Option<Vec<Step>> {
        if self.begun >= self.max {
            return None;
        }
        let prefix = self.open.pop()?;
        self.begun += 1;
        Some(prefix)
    }

    /// Takes up what the schedule that began with a prefix of `length` steps did: each step that
    /// it could have taken instead, after that prefix, begins a schedule of its own.
    pub(super) fn played(&mut self, length: usize, branches: &[Branch]) {
        let schedule: Vec<Step> = branches.iter().map(|branch| branch.chosen).collect();
        for (place, branch) in branches.iter().enumerate().skip(length) {
            // The first of them is played next: from the stack it comes last.
            for other in branch.possible.iter().rev().filter(|step| **step != branch.chosen) {
                let mut prefix = schedule[..place].to_vec();
                prefix.push(*other);
                if self.is_within_bound(&prefix, branches) {
                    self.open.push(prefix);
                }
            }
        }
    }

    /// Whether a prefix has no more preemptions than it may. Default choices add none.
    fn is_within_bound(&self, prefix: &[Step], branches: &[Branch]) -> bool {
        self.bound.is_none_or(|bound| preemptions(prefix, branches) <= bound)
    }

    /// How many schedules wait to be played: at least so many are left.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }
}

/// The default choice: the actor that went on goes on, so that no default is a preemption. Where it
/// cannot, the first that can. Faults only happen where a prefix says so.
pub(super) fn default_choice(possible: &[Step], before: &[Step]) -> Option<Step> {
    let last = last_actor(before);
    let goes_on = possible.iter().find(|step| step.actor().is_some() && step.actor() == last);
    goes_on.or_else(|| possible.iter().find(|step| step.actor().is_some())).copied()
}

/// How often a schedule turns from an actor that could have gone on to another one (CHESS). A fault
/// is none, and does not change whose turn it was.
fn preemptions(schedule: &[Step], branches: &[Branch]) -> usize {
    let is_preemption = |place: usize| {
        let (Some(actor), Some(last)) = (schedule[place].actor(), last_actor(&schedule[..place]))
        else {
            return false;
        };
        let could_go_on = |step: &Step| step.actor() == Some(last);
        actor != last && branches[place].possible.iter().any(could_go_on)
    };
    (0..schedule.len()).filter(|place| is_preemption(*place)).count()
}

fn last_actor(steps: &[Step]) -> Option<usize> {
    steps.iter().rev().find_map(|step| step.actor())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Actors of so many steps each. With `mutex`, the steps between an actor's first and last are
    /// done under one lock: nobody else gets past its first step meanwhile.
    struct Toy {
        steps: Vec<usize>,
        mutex: bool,
        fault: bool,
    }

    impl Toy {
        fn possible(&self, before: &[Step]) -> Vec<Step> {
            let taken = |actor| before.iter().filter(|step| **step == Step::Go(actor)).count();
            let holds = |actor| (1..self.steps[actor]).contains(&taken(actor));
            let holder = (0..self.steps.len()).find(|actor| self.mutex && holds(*actor));
            let mut possible: Vec<Step> = (0..self.steps.len())
                .filter(|actor| taken(*actor) < self.steps[*actor])
                .filter(|actor| holder.is_none_or(|holder| holder == *actor))
                .map(Step::Go)
                .collect();
            if self.fault && !possible.is_empty() && !before.contains(&Step::EndLease) {
                possible.push(Step::EndLease);
            }
            possible
        }

        fn play(&self, prefix: &[Step]) -> Vec<Branch> {
            let (mut steps, mut branches) = (Vec::new(), Vec::new());
            loop {
                let possible = self.possible(&steps);
                let next = prefix.get(steps.len()).copied();
                let Some(chosen) = next.or_else(|| default_choice(&possible, &steps)) else {
                    return branches;
                };
                assert!(possible.contains(&chosen));
                branches.push(Branch { possible, chosen });
                steps.push(chosen);
            }
        }

        fn explore(&self, bound: Option<usize>, max: usize) -> Vec<Vec<Step>> {
            let (mut walk, mut found) = (Walk::new(bound, max), Vec::new());
            while let Some(prefix) = walk.next() {
                let branches = self.play(&prefix);
                walk.played(prefix.len(), &branches);
                found.push(branches.iter().map(|branch| branch.chosen).collect());
            }
            let different: HashSet<_> = found.iter().collect();
            assert_eq!(different.len(), found.len(), "a schedule was played twice");
            found
        }
    }

    fn toy(steps: &[usize]) -> Toy {
        Toy { steps: steps.to_vec(), mutex: false, fault: false }
    }

    #[test]
    fn actors_that_never_wait_have_as_many_schedules_as_there_are_ways_to_mix_them() {
        for (steps, count) in [
            (&[1][..], 1),
            (&[1, 1], 2),
            (&[2, 2], 6),
            (&[4, 4], 70),
            (&[5, 3], 56),
            (&[2, 2, 2], 90),
        ] {
            assert_eq!(toy(steps).explore(None, usize::MAX).len(), count, "{steps:?}");
        }
    }

    #[test]
    fn an_actor_that_waits_is_not_scheduled() {
        let toy = Toy { mutex: true, ..toy(&[4, 4]) };
        assert_eq!(toy.explore(None, usize::MAX).len(), 2);
    }

    #[test]
    fn a_fault_happens_once_at_every_place() {
        // Four steps of one actor: the fault before each of them, and never.
        let one = Toy { fault: true, ..toy(&[4]) };
        assert_eq!(one.explore(None, usize::MAX).len(), 5);
        // Of each of the six schedules of four steps.
        let two = Toy { fault: true, ..toy(&[2, 2]) };
        let found = two.explore(None, usize::MAX);
        assert_eq!(found.len(), 6 * 5);
        let faults =
            |schedule: &Vec<Step>| schedule.iter().filter(|step| **step == Step::EndLease).count();
        assert!(found.iter().all(|schedule| faults(schedule) <= 1));
    }

    #[test]
    fn a_bound_leaves_the_schedules_with_more_preemptions_out() {
        let toy = toy(&[2, 2]);
        // AABB, BBAA; and with one preemption ABBA, BAAB; with two ABAB, BABA.
        for (bound, count) in [(0, 2), (1, 4), (2, 6), (9, 6)] {
            assert_eq!(toy.explore(Some(bound), usize::MAX).len(), count, "{bound}");
        }
        let all: HashSet<_> = toy.explore(None, usize::MAX).into_iter().collect();
        assert!(toy.explore(Some(1), usize::MAX).iter().all(|schedule| all.contains(schedule)));
    }

    #[test]
    fn a_walk_ends_where_it_is_told_to_and_knows_that_something_is_left() {
        assert_eq!(toy(&[4, 4]).explore(None, 10).len(), 10);
        let mut walk = Walk::new(None, 1);
        let prefix = walk.next().unwrap_or_default();
        walk.played(prefix.len(), &toy(&[1, 1]).play(&prefix));
        assert!(walk.next().is_none() && walk.open() == 1);
    }
}
