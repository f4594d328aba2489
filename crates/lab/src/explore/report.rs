//! What an exploration came to, held against what the registry claims; and for a program: what `--json` writes.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::exploration::{Exploration, Leaf};
use crate::game::{CONSUMER, InitialState, Schedule, Setting, Step, TIME};
use crate::report::{Environment, counted, counted_es};
use crate::timeline::TimelineLine;
use crate::told::Witness;
use ladder::{Invariant, LockKind, RUNGS, Rung, Scenario};

/// Everything that was explored.
#[derive(Debug)]
pub struct ExploreReport {
    /// Where it took place.
    pub environment: Environment,
    /// What was explored, a rung's settings beside each other.
    pub explorations: Vec<Exploration>,
    /// Whether each rung was explored in everything that it is explored in.
    pub all: bool,
    /// Why a rung was left out: this machine lacks something, or it cannot be explored.
    pub skipped: Vec<(&'static str, String)>,
}

impl ExploreReport {
    fn by_rung(&self) -> impl Iterator<Item = (&'static Rung, &[Exploration])> {
        let groups =
            self.explorations.chunk_by(|one, other| one.setting.rung.id == other.setting.rung.id);
        groups.filter_map(|group| group.first().map(|first| (first.setting.rung, group)))
    }

    /// What speaks against the registry.
    pub fn objections(&self) -> Vec<String> {
        self.by_rung().flat_map(|(rung, group)| objections(rung, group, self.all)).collect()
    }

    /// What some rung breaks in, and no schedule here can show; in the order of the ladder.
    pub fn not_expressible(&self) -> Vec<Scenario> {
        let mut found: Vec<Scenario> =
            self.by_rung().flat_map(|(rung, group)| not_expressible(rung, group)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// How many rungs were explored, which were not, and what no schedule here can show.
    pub fn coverage(&self) -> Vec<String> {
        let explored = self.by_rung().count();
        let asked = if self.all { RUNGS.len() } else { explored + self.skipped.len() };
        let mut lines = vec![format!("{explored} of {asked} rungs explored")];
        if !self.skipped.is_empty() {
            let skipped = self.skipped.iter().map(|(rung, why)| format!("{rung} ({why})"));
            lines.push(format!("skipped: {}", skipped.collect::<Vec<_>>().join(", ")));
        }
        let others = self.not_expressible();
        if !others.is_empty() {
            let names: Vec<&str> = others.iter().map(|scenario| scenario.as_str()).collect();
            lines.push(format!("not expressible here, see `lab replay`: {}", names.join(", ")));
        }
        lines
    }

    /// Whether every schedule of every rung was explored.
    pub fn is_whole(&self) -> bool {
        let every_rung = self.skipped.is_empty() && self.by_rung().count() == RUNGS.len();
        self.all && every_rung && self.explorations.iter().all(Exploration::is_complete)
    }

    /// The bound on preemptions that was asked for.
    pub fn bound(&self) -> Option<usize> {
        self.explorations.iter().find_map(|exploration| exploration.limits.bound)
    }
}

#[derive(Serialize)]
struct ExploreJson<'a> {
    as_claimed: bool,
    objections: Vec<String>,
    not_expressible: Vec<Scenario>,
    skipped: BTreeMap<&'a str, &'a str>,
    explorations: Vec<ExplorationJson<'a>>,
    environment: &'a Environment,
}

#[derive(Serialize)]
struct ExplorationJson<'a> {
    schedules: usize,
    unknown: usize,
    breaking: BTreeMap<&'static str, usize>,
    schedules_per_s: f64,
    shortest: Vec<ShortestJson<'a>>,
    #[serde(flatten)]
    exploration: &'a Exploration,
}

#[derive(Serialize)]
struct ShortestJson<'a> {
    invariant: Invariant,
    schedule: &'a Schedule,
    timeline: &'a [TimelineLine],
}

impl Serialize for ExploreReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let objections = self.objections();
        let skipped = self.skipped.iter().map(|(rung, why)| (*rung, why.as_str()));
        let json = ExploreJson {
            as_claimed: objections.is_empty(),
            objections,
            not_expressible: self.not_expressible(),
            skipped: skipped.collect(),
            explorations: self.explorations.iter().map(of_exploration).collect(),
            environment: &self.environment,
        };
        json.serialize(serializer)
    }
}

fn of_exploration(exploration: &Exploration) -> ExplorationJson<'_> {
    let broken = exploration.broken();
    let shortest = broken.keys().filter_map(|invariant| {
        let Leaf { schedule, timeline, .. } = exploration.shortest(*invariant)?;
        Some(ShortestJson { invariant: *invariant, schedule, timeline })
    });
    ExplorationJson {
        schedules: exploration.leaves.len(),
        unknown: exploration.unknown(),
        shortest: shortest.collect(),
        breaking: broken.iter().map(|(invariant, count)| (invariant.as_str(), *count)).collect(),
        schedules_per_s: (exploration.rate() * 10.0).round() / 10.0,
        exploration,
    }
}

/// Whether a schedule shows what a scenario shows; `None` where no schedule of two actors and one
/// fault can: it needs a third buyer, another purchase on the way, or another server's failure.
fn shows(scenario: Scenario, setting: &Setting, leaf: &Leaf) -> Option<bool> {
    let fault = leaf.schedule.faults().next();
    let twice = setting.from == InitialState::DoubleClick;
    let one_process = setting.processes == 1;
    // Nothing is shared between two attempts in one process that two processes would not share.
    let any_process = setting.rung.lock == LockKind::NoLock;
    let kills_consumer = fault == Some(Step::Kill(CONSUMER));
    let until_fault = leaf.schedule.0.iter().take_while(|step| Some(**step) != fault);
    let worked = until_fault.into_iter().any(|step| *step == Step::Go(CONSUMER));
    let unpaid = setting.from.has_unpaid_order();
    let shown = |is_it: fn(&Witness) -> bool| leaf.broken.iter().any(|it| is_it(&it.witness));
    let (invariant, happens) = match scenario {
        Scenario::LastOne => (Invariant::NoOversell, fault.is_none()),
        Scenario::Herd => (Invariant::NoUndersell, fault.is_none()),
        Scenario::OtherSegment => (Invariant::NoUndersell, fault.is_none()),
        Scenario::DoubleClick | Scenario::EarlyRelease => {
            (Invariant::OnePerUser, twice && one_process && fault.is_none())
        }
        Scenario::TwoNodes => {
            (Invariant::OnePerUser, twice && (!one_process || any_process) && fault.is_none())
        }
        Scenario::TokenTwice => (Invariant::LetInOnce, twice && fault.is_none()),
        Scenario::OutlivedLease => (Invariant::OnePerUser, fault == Some(Step::EndLease)),
        // The end of a lease stands for it below r13a: there a stopped holder is only a slow one.
        Scenario::PausedHolder => {
            (Invariant::OnePerUser, matches!(fault, Some(Step::Pause(_) | Step::EndLease)))
        }
        Scenario::HolderDies => (Invariant::NoLockout, matches!(fault, Some(Step::Kill(_)))),
        // Between the key and its lease: after that the lock would have ended.
        Scenario::DiesBetween => {
            let for_ever = shown(|it| matches!(it, Witness::LockedOutForEver { .. }));
            (Invariant::NoLockout, matches!(fault, Some(Step::Kill(_))) && for_ever)
        }
        // What the process had in memory, and what its consumer had in hand.
        Scenario::FullQueueDies => (Invariant::NoBrokenPromise, kills_consumer && !worked),
        Scenario::DiesBeforeWrite => (Invariant::NoBrokenPromise, kills_consumer && worked),
        Scenario::DiesWithLast => (Invariant::NoUndersell, kills_consumer),
        Scenario::SoldAgain => (Invariant::NoOversell, unpaid),
        Scenario::PassedInLine => (Invariant::FairOrder, unpaid),
        // Also where the cancellation is lost, which a payment has written over.
        Scenario::HalfExpired => (Invariant::NoUndersell, unpaid),
        Scenario::ForgottenTimer => (Invariant::NoStuckStock, fault == Some(Step::Kill(TIME))),
        Scenario::PayAndExpire => {
            let cancelled = shown(|it| matches!(it, Witness::CancelledThoughPaid { .. }));
            (Invariant::NoLostPayment, cancelled)
        }
        Scenario::LatePayment => {
            let too_late = shown(|it| matches!(it, Witness::PaidTooLate { .. }));
            (Invariant::NoLostPayment, too_late)
        }
        _ => return None,
    };
    Some(happens && leaf.breaks(invariant))
}

/// Where a rung breaks and no schedule here can show it.
pub fn not_expressible(rung: &Rung, explorations: &[Exploration]) -> Vec<Scenario> {
    let first = explorations.iter().flat_map(|it| it.leaves.first().map(|leaf| (it, leaf))).next();
    let Some((exploration, leaf)) = first else { return Vec::new() };
    let unknown = |scenario: &Scenario| shows(*scenario, &exploration.setting, leaf).is_none();
    rung.breaks.iter().copied().filter(unknown).collect()
}

/// What speaks against the registry, a sentence each. `all`: everything that the rung is explored in
/// was, so that what it breaks in must have been found.
pub fn objections(rung: &Rung, explorations: &[Exploration], all: bool) -> Vec<String> {
    let mut found = Vec::new();
    for exploration in explorations {
        let place = place(&exploration.setting);
        for invariant in exploration.broken().keys() {
            let Some(leaf) = against_the_registry(rung, exploration, *invariant) else { continue };
            let schedule = &leaf.schedule;
            found.push(if rung.claims.contains(invariant) {
                format!("{place}: {schedule} breaks {invariant}, which the rung claims to keep")
            } else {
                format!("{place}: {schedule} breaks {invariant}, and no scenario covers that")
            });
        }
        for leaf in exploration.leaves.iter().filter(|leaf| leaf.unknown.is_some()).take(3) {
            let why = leaf.unknown.as_deref().unwrap_or_default();
            found.push(format!("{place}: {} is unknown: {why}", leaf.schedule));
        }
        if all && exploration.left_out > 0 {
            let schedules = counted(exploration.left_out, "schedule");
            found.push(format!(
                "{place}: at least {schedules} left out: not every break was looked for"
            ));
        }
    }
    let complete = all && explorations.iter().all(|it| it.is_complete());
    for scenario in rung.breaks.iter().filter(|_| complete) {
        let leaves =
            explorations.iter().flat_map(|it| it.leaves.iter().map(move |leaf| (it, leaf)));
        let shown: Vec<bool> =
            leaves.filter_map(|(it, leaf)| shows(*scenario, &it.setting, leaf)).collect();
        if !shown.is_empty() && !shown.contains(&true) {
            found
                .push(format!("{}: is said to break in {scenario}, and no schedule does", rung.id));
        }
    }
    found
}

/// A schedule that breaks what is claimed, or breaks something as no scenario of the rung does.
fn against_the_registry<'a>(
    rung: &Rung,
    exploration: &'a Exploration,
    invariant: Invariant,
) -> Option<&'a Leaf> {
    let told_of = |leaf: &Leaf| {
        rung.breaks.iter().any(|scenario| {
            scenario.invariant() == invariant
                && shows(*scenario, &exploration.setting, leaf) == Some(true)
        })
    };
    let claimed = rung.claims.contains(&invariant);
    let fault = |leaf: &Leaf| leaf.schedule.faults().next();
    let without_fault =
        |leaf: &Leaf| fault(leaf).is_none() && leaf.breaks(invariant) && told_of(leaf);
    // What two buyers do without a fault they also do beside a third one that is killed. Which of the
    // three it was is not asked.
    let bystander = exploration.setting.buyers > 2 && exploration.leaves.iter().any(without_fault);
    let told =
        |leaf: &Leaf| told_of(leaf) || bystander && matches!(fault(leaf), Some(Step::Kill(_)));
    exploration.shortest_of(|leaf| leaf.breaks(invariant) && (claimed || !told(leaf)))
}

/// "r06_global_mutex from double_click, 2 processes".
pub fn place(setting: &Setting) -> String {
    let faults: Vec<&str> = setting.faults.iter().map(|fault| fault.as_str()).collect();
    let with = match faults.is_empty() {
        true => String::new(),
        false => format!(", at most one {}", faults.join(" or ")),
    };
    let processes = counted_es(setting.processes, "process");
    format!("{} from {}, {processes}{with}", setting.rung.id, setting.from)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::explore::ExploreLimits;
    use crate::game::SettingOptions;
    use crate::judge::Breach;
    use ladder::find;

    /// What is said against r06, whose mutex is each process' own, when these schedules of one user
    /// in three processes break `one_per_user`.
    fn said_of(schedules: &[&str]) -> String {
        let rung = find("r06_global_mutex").unwrap();
        let (processes, from) = (Some(2), Some(InitialState::DoubleClick));
        let options = SettingOptions { buyers: 3, processes, from, faults: None };
        let setting = Setting::of(rung, &options).remove(0);
        let limits = ExploreLimits { bound: Some(2), max_schedules: 100 };
        let mut exploration = Exploration::new(setting, limits);
        exploration.leaves.extend(schedules.iter().map(|schedule| Leaf {
            schedule: schedule.parse::<Schedule>().unwrap(),
            broken: vec![Breach {
                invariant: Invariant::OnePerUser,
                witness: Witness::SeveralOrders { user: 1, count: 2 },
            }],
            unknown: None,
            timeline: Vec::new(),
        }));
        objections(rung, &[exploration], false).join("\n")
    }

    #[test]
    fn a_third_buyer_who_is_killed_makes_no_new_break_of_what_two_others_do() {
        let (two, killed) = ("A1 A2 B1 B2 A3 B3 A4 B4", "A1 A2 B1 B2 A3 B3 A4 B4 C1 K:C");
        assert_eq!(said_of(&[two, killed]), "");
        let paused = "A1 A2 B1 B2 A3 B3 A4 B4 C1 P:C";
        assert!(said_of(&[two, paused]).contains("P:C breaks one_per_user"));
        let untold = said_of(&[killed]);
        assert!(
            untold.contains("K:C breaks one_per_user, and no scenario covers that"),
            "{untold}"
        );
    }
}
