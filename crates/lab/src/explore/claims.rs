//! What was explored, held against what the registry claims.

use super::exploration::{Exploration, Leaf};
use super::setting::{InitialState, Setting};
use crate::game::{CONSUMER, Step, TIME};
use crate::report::{counted, counted_es};
use crate::told::Witness;
use ladder::{Invariant, LockKind, Rung, Scenario};

/// Whether a schedule shows what a scenario shows; `None` where no schedule of two actors and one
/// fault can: it needs a third buyer, another purchase on the way, or another server's failure.
fn shows(scenario: Scenario, setting: &Setting, leaf: &Leaf) -> Option<bool> {
    let fault = leaf.schedule.faults().next();
    let twice = setting.from == InitialState::DoubleClick;
    let one_process = setting.nodes == 1;
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
        // One user who comes twice finds the same segment.
        Scenario::OtherSegment => (Invariant::NoUndersell, twice && fault.is_none()),
        Scenario::DoubleClick | Scenario::EarlyRelease => {
            (Invariant::OnePerUser, twice && one_process && fault.is_none())
        }
        Scenario::TwoNodes => {
            (Invariant::OnePerUser, twice && (!one_process || any_process) && fault.is_none())
        }
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
    let bystander = exploration.setting.actors > 2 && exploration.leaves.iter().any(without_fault);
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
    let processes = counted_es(setting.nodes, "process");
    format!("{} from {}, {processes}{with}", setting.rung.id, setting.from)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::explore::ExploreLimits;
    use crate::explore::setting::SettingOptions;
    use crate::game::Schedule;
    use crate::judge::Breach;
    use ladder::find;

    /// What is said against r06, whose mutex is each process' own, when these schedules of one user
    /// in three processes break `one_per_user`.
    fn said_of(schedules: &[&str]) -> String {
        let rung = find("r06_global_mutex").unwrap();
        let (nodes, from) = (Some(2), Some(InitialState::DoubleClick));
        let options = SettingOptions { actors: 3, nodes, from, faults: None };
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
