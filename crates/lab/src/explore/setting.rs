//! What is explored: a rung, where its schedules begin, in how many processes, with which faults.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::schedule::{ExploreSchedule, ExploreStep};
use crate::scheduler::NodeIndex;
use ladder::{Capability, LeaseKind, LockKind, Rung, named};

/// The consumer whose turns are steps is that of the first process; the others work at the end.
pub(super) const CONSUMERS_NODE: NodeIndex = NodeIndex(0);

/// The lease of an actor that is to be stopped until it has ended.
pub(super) const LEASE_OF_THE_PAUSED: Duration = Duration::from_millis(250);

named! {
    /// Where every schedule begins. The names are those of the scenarios.
    InitialState {
        /// One voucher, and every actor another user.
        LastOne = "last_one",
        /// A voucher for each actor, and all of them the same user.
        DoubleClick = "double_click",
        /// A voucher for each actor, and every actor another user.
        Herd = "herd",
    }
}

impl InitialState {
    /// How many vouchers are on sale.
    pub(super) fn stock(self, actors: usize) -> i32 {
        if self == Self::LastOne { 1 } else { actors as i32 }
    }

    /// Which of the users an actor is.
    pub(super) fn user(self, actor: usize) -> i64 {
        if self == Self::DoubleClick { 0 } else { actor as i64 }
    }
}

named! {
    /// What may happen once in a schedule, at any place.
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
    fn of(step: ExploreStep) -> Option<Self> {
        match step {
            ExploreStep::Go(_) => None,
            ExploreStep::EndLease => Some(Self::Lease),
            ExploreStep::Kill(_) => Some(Self::Kill),
            ExploreStep::Pause(_) => Some(Self::Pause),
        }
    }
}

/// What is explored: every schedule from one initial state.
#[derive(Debug, Clone, Serialize)]
pub struct Setting {
    /// The rung.
    #[serde(serialize_with = "by_name")]
    pub rung: &'static Rung,
    /// Where every schedule begins.
    pub from: InitialState,
    /// Processes that sell; the actors take turns among them.
    pub nodes: usize,
    /// Attempts to buy.
    pub actors: usize,
    /// What may happen once.
    pub faults: Vec<FaultKind>,
}

fn by_name<S: Serializer>(rung: &&'static Rung, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(rung.id)
}

impl Setting {
    /// The settings in which a rung is explored unless something else is asked for.
    ///
    /// A rung without a lock shares nothing but the database, so that one process shows what two
    /// would. A mutex is tried in one process and between two. Any other lock is meant to work
    /// between processes, and each actor has one of its own. Faults are about the lock that a user's
    /// requests compete for: they are played where all actors are one user. Those of a rung with a
    /// consumer are about what was promised, to whomever.
    pub fn of(rung: &'static Rung, options: &SettingOptions) -> Vec<Self> {
        let actors = options.actors;
        let usual: &[usize] = match rung.lock {
            LockKind::NoLock => &[1],
            LockKind::Mutex => &[1, 2],
            LockKind::Redis(_) | LockKind::ZooKeeper | LockKind::Stream => &[2],
        };
        let nodes = |nodes: usize| if nodes == 1 { 1 } else { actors };
        let counts = options.nodes.map_or_else(|| usual.to_vec(), |asked| vec![asked]);
        let states = options.from.map_or_else(|| InitialState::ALL.to_vec(), |asked| vec![asked]);
        let faults = |from: InitialState, nodes: usize| match (&options.faults, from) {
            (_, from) if !has_faults(rung, from) => Vec::new(),
            (None, _) => faults_of(rung, nodes == actors),
            (Some(asked), _) => {
                let possible = faults_of(rung, nodes == actors);
                possible.into_iter().filter(|fault| asked.contains(fault)).collect()
            }
        };
        let settings = counts.into_iter().flat_map(|count| {
            let nodes = nodes(count);
            states.iter().map(move |from| (*from, nodes))
        });
        settings
            .map(|(from, nodes)| Self { rung, from, nodes, actors, faults: faults(from, nodes) })
            .collect()
    }

    /// The setting of one schedule.
    ///
    /// # Errors
    /// When a fault in it makes no sense there, or there is more than one: a sentence.
    pub fn of_schedule(
        rung: &'static Rung,
        schedule: &ExploreSchedule,
        from: InitialState,
        nodes: usize,
    ) -> Result<Self, String> {
        let actors = schedule.actors();
        let nodes = if nodes == 1 { 1 } else { actors };
        if schedule.names_consumer() && !rung.has_consumer() {
            return Err(format!("W is a consumer, and {} has none", rung.id));
        }
        let possible =
            if has_faults(rung, from) { faults_of(rung, nodes == actors) } else { Vec::new() };
        let faults: Vec<FaultKind> = schedule.faults().filter_map(FaultKind::of).collect();
        if faults.len() > 1 {
            return Err("a schedule has one fault at most".to_owned());
        }
        if let Some(fault) = faults.iter().find(|fault| !possible.contains(fault)) {
            return Err(format!(
                "{fault} makes no sense on {} from {from} with {nodes} processes",
                rung.id
            ));
        }
        Ok(Self { rung, from, nodes, actors, faults })
    }
}

/// What is asked for, where it is not the usual.
#[derive(Debug, Clone, Default)]
pub struct SettingOptions {
    /// Attempts to buy.
    pub actors: usize,
    /// Processes: one, or one for each actor.
    pub nodes: Option<usize>,
    /// Where schedules begin.
    pub from: Option<InitialState>,
    /// What may happen.
    pub faults: Option<Vec<FaultKind>>,
}

/// Whether faults are played where schedules begin so.
fn has_faults(rung: &Rung, from: InitialState) -> bool {
    rung.has_consumer() || from == InitialState::DoubleClick
}

/// The faults that make sense on a rung. The end of a lease is something else than a pause only
/// where a live process does not renew it; a process that is killed or stopped must not be
/// everybody's. (A pause within the lease is what any schedule is that turns to somebody else.)
fn faults_of(rung: &Rung, one_process_each: bool) -> Vec<FaultKind> {
    // A whole purchase is one step of the production strategy: there is no place for a fault.
    if rung.lock == LockKind::NoLock || rung.can(Capability::OneStep) {
        return Vec::new();
    }
    let makes_sense = |fault: &FaultKind| match fault {
        FaultKind::Lease => rung.lease == LeaseKind::Fixed,
        FaultKind::Kill => one_process_each,
        FaultKind::Pause => one_process_each && rung.lease == LeaseKind::Renewed,
    };
    FaultKind::ALL.iter().copied().filter(makes_sense).collect()
}

/// Why a rung cannot be explored with so many actors: "it …".
pub fn not_explorable(rung: &Rung, actors: usize) -> Option<&'static str> {
    if actors > 2 && rung.has_consumer() {
        return Some("has a consumer, which is the third actor beside two buyers");
    }
    // A mutex serves its waiters in the order in which they came.
    let several_wait = rung.can(Capability::Wait) && rung.lock != LockKind::Mutex;
    (actors > 2 && several_wait).then_some(
        "lets several wait for one release, and which of them is first is left to chance",
    )
}
