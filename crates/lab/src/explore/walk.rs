//! A depth-first walk over every schedule, without knowing what is scheduled.
//!
//! The walk is stateless, as in VeriSoft (Godefroid, POPL 1997) and CHESS (Musuvathi and Qadeer,
//! PLDI 2007): it keeps schedules, never states. A prefix is played from the beginning and goes on
//! with default choices to its end; every step that could have been taken instead begins another
//! prefix. So each schedule is played once, and the walk needs no more of what it explores than the
//! steps that were possible at each place.

use anyhow::bail;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::game::{Schedule, Step};

/// A step of a schedule.
pub(super) trait WalkStep: Copy + PartialEq {
    /// The actor that takes the step; `None` for a fault, which nobody takes.
    fn actor(self) -> Option<usize>;
}

impl WalkStep for Step {
    fn actor(self) -> Option<usize> {
        Self::actor(self)
    }
}

/// One place of a schedule that was played: what could have been done there, and what was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Branch<S> {
    pub(super) possible: Vec<S>,
    pub(super) chosen: S,
}

/// The walk: prefixes that were not played yet.
#[derive(Debug)]
pub(super) struct Walk<S> {
    open: Vec<Vec<S>>,
    /// At most so many preemptions a schedule.
    bound: Option<usize>,
    /// At most so many schedules.
    max: usize,
    begun: usize,
}

impl<S: WalkStep> Walk<S> {
    /// A walk that begins with the schedule in which every choice is the default.
    pub(super) fn new(bound: Option<usize>, max: usize) -> Self {
        Self { open: vec![Vec::new()], bound, max, begun: 0 }
    }

    /// The next prefix to play. `None`: there is none now; one that is still played may bring more.
    pub(super) fn next(&mut self) -> Option<Vec<S>> {
        if self.begun >= self.max {
            return None;
        }
        let prefix = self.open.pop()?;
        self.begun += 1;
        Some(prefix)
    }

    /// Takes up what the schedule that began with a prefix of `length` steps did: each step that
    /// it could have taken instead, after that prefix, begins a schedule of its own.
    pub(super) fn played(&mut self, length: usize, branches: &[Branch<S>]) {
        let schedule: Vec<S> = branches.iter().map(|branch| branch.chosen).collect();
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
    fn is_within_bound(&self, prefix: &[S], branches: &[Branch<S>]) -> bool {
        self.bound.is_none_or(|bound| preemptions(prefix, branches) <= bound)
    }

    /// How many schedules wait to be played: at least so many are left.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }
}

/// The default choice: the actor that went on goes on, so that no default is a preemption. Where it
/// cannot, the first that can. Faults only happen where a prefix says so.
pub(super) fn default_choice<S: WalkStep>(possible: &[S], before: &[S]) -> Option<S> {
    let last = last_actor(before);
    let goes_on = possible.iter().find(|step| step.actor().is_some() && step.actor() == last);
    goes_on.or_else(|| possible.iter().find(|step| step.actor().is_some())).copied()
}

/// How often a schedule turns from an actor that could have gone on to another one (CHESS). A fault
/// is none, and does not change whose turn it was.
fn preemptions<S: WalkStep>(schedule: &[S], branches: &[Branch<S>]) -> usize {
    let is_preemption = |place: usize| {
        let (Some(actor), Some(last)) = (schedule[place].actor(), last_actor(&schedule[..place]))
        else {
            return false;
        };
        let could_go_on = |step: &S| step.actor() == Some(last);
        actor != last && branches[place].possible.iter().any(could_go_on)
    };
    (0..schedule.len()).filter(|place| is_preemption(*place)).count()
}

fn last_actor<S: WalkStep>(steps: &[S]) -> Option<usize> {
    steps.iter().rev().find_map(|step| step.actor())
}

/// Plays one schedule, step by step.
pub(super) trait Runner {
    /// The steps that can be taken now: those of the actors first. None when no actor can go on.
    async fn possible(&self) -> anyhow::Result<Vec<Step>>;

    /// Takes a step.
    async fn take(&mut self, step: Step) -> anyhow::Result<()>;
}

/// Takes the steps of `prefix`, and default choices after them. `branches` also has what was done before
/// a step that failed.
pub(super) async fn play_prefix(
    runner: &mut impl Runner,
    prefix: &[Step],
    branches: &mut Vec<Branch<Step>>,
) -> anyhow::Result<()> {
    let mut before = Vec::new();
    loop {
        let possible = runner.possible().await?;
        let planned = prefix.get(before.len()).copied();
        let Some(chosen) = planned.or_else(|| default_choice(&possible, &before)) else {
            return Ok(());
        };
        let is_possible = possible.contains(&chosen);
        before.push(chosen);
        if !is_possible {
            bail!("the last step of {} was not possible", Schedule(before));
        }
        branches.push(Branch { possible, chosen });
        runner.take(chosen).await?;
    }
}

/// Plays what the walk asks for until it asks for nothing more, and returns the runners. `heard` is told
/// of each schedule, in the order in which they end, with how many more are known of.
pub(super) async fn play_all<R, P>(
    mut idle: Vec<R>,
    mut walk: Walk<Step>,
    play: impl AsyncFn(&mut R, &[Step]) -> anyhow::Result<P>,
    branches: impl Fn(&P) -> &[Branch<Step>],
    mut heard: impl FnMut(P, usize),
) -> anyhow::Result<Vec<R>> {
    let play = &play;
    let mut busy = FuturesUnordered::new();
    loop {
        while let Some(mut runner) = idle.pop() {
            let Some(prefix) = walk.next() else {
                idle.push(runner);
                break;
            };
            busy.push(async move {
                let played = play(&mut runner, &prefix).await;
                (runner, prefix, played)
            });
        }
        let Some((runner, prefix, played)) = busy.next().await else { break };
        let played = played?;
        walk.played(prefix.len(), branches(&played));
        heard(played, walk.open() + busy.len());
        idle.push(runner);
    }
    drop(busy);
    Ok(idle)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum ToyStep {
        Of(usize),
        Fault,
    }

    impl WalkStep for ToyStep {
        fn actor(self) -> Option<usize> {
            match self {
                Self::Of(actor) => Some(actor),
                Self::Fault => None,
            }
        }
    }

    /// Actors of so many steps each. With `mutex`, the steps between an actor's first and last are
    /// done under one lock: nobody else gets past its first step meanwhile.
    struct Toy {
        steps: Vec<usize>,
        mutex: bool,
        fault: bool,
    }

    impl Toy {
        fn possible(&self, before: &[ToyStep]) -> Vec<ToyStep> {
            let taken = |actor| before.iter().filter(|step| **step == ToyStep::Of(actor)).count();
            let holds = |actor| (1..self.steps[actor]).contains(&taken(actor));
            let holder = (0..self.steps.len()).find(|actor| self.mutex && holds(*actor));
            let mut possible: Vec<ToyStep> = (0..self.steps.len())
                .filter(|actor| taken(*actor) < self.steps[*actor])
                .filter(|actor| holder.is_none_or(|holder| holder == *actor))
                .map(ToyStep::Of)
                .collect();
            if self.fault && !possible.is_empty() && !before.contains(&ToyStep::Fault) {
                possible.push(ToyStep::Fault);
            }
            possible
        }

        fn play(&self, prefix: &[ToyStep]) -> Vec<Branch<ToyStep>> {
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

        fn explore(&self, bound: Option<usize>, max: usize) -> Vec<Vec<ToyStep>> {
            let (mut walk, mut found) = (Walk::new(bound, max), Vec::new());
            while let Some(prefix) = walk.next() {
                let branches = self.play(&prefix);
                walk.played(prefix.len(), &branches);
                found.push(branches.iter().map(|branch| branch.chosen).collect());
            }
            let different: BTreeSet<_> = found.iter().collect();
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
        let faults = |schedule: &Vec<ToyStep>| {
            schedule.iter().filter(|step| **step == ToyStep::Fault).count()
        };
        assert!(found.iter().all(|schedule| faults(schedule) <= 1));
    }

    #[test]
    fn a_bound_leaves_the_schedules_with_more_preemptions_out() {
        let toy = toy(&[2, 2]);
        // AABB, BBAA; and with one preemption ABBA, BAAB; with two ABAB, BABA.
        for (bound, count) in [(0, 2), (1, 4), (2, 6), (9, 6)] {
            assert_eq!(toy.explore(Some(bound), usize::MAX).len(), count, "{bound}");
        }
        let all: BTreeSet<_> = toy.explore(None, usize::MAX).into_iter().collect();
        assert!(toy.explore(Some(1), usize::MAX).iter().all(|schedule| all.contains(schedule)));
    }

    #[test]
    fn a_walk_ends_where_it_is_told_to_and_knows_that_something_is_left() {
        assert_eq!(toy(&[4, 4]).explore(None, 10).len(), 10);
        let mut walk: Walk<ToyStep> = Walk::new(None, 1);
        let prefix = walk.next().unwrap_or_default();
        walk.played(prefix.len(), &toy(&[1, 1]).play(&prefix));
        assert!(walk.next().is_none() && walk.open() == 1);
    }
}
