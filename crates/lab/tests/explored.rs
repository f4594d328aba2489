//! What `explore` found of each rung, in the letters of a session: `make explored` writes it, and a test plays
//! some of it again.

use std::fs;
use std::path::Path;

use ladder::{Capability, Invariant, LockKind, RUNGS, Rung};
use seckill_lab::World;
use seckill_lab::course::{ExploredSchedule, ExploredSetting, explored};
use seckill_lab::explore::{
    Exploration, ExploreLimits, ExploreSchedule, InitialState, Setting, SettingOptions, explore,
    not_explorable, place,
};
use seckill_lab::session::{LabSession, MAX_STEPS, PlanOfSession, Schedule};

use crate::lab_replays::lab;

/// Schedules of one setting that the page lets one try.
const SOME: usize = 12;

/// More than this a setting of a rung has only with many preemptions: those are left out.
const MANY: usize = 800;

/// How often a setting is explored where it fails.
const TRIES: usize = 2;

/// The schedule in the letters of a session; `None` where it has a step that a session does not have.
fn letters(rung: &Rung, schedule: &ExploreSchedule) -> Option<String> {
    let text = schedule.to_string();
    // A session kills the first process: where B's dies, the buyers change places, who are one user.
    let swaps = text.split(' ').any(|word| word == "K:B");
    let buyer = |is_a: bool| if is_a == swaps { "B" } else { "A" };
    let servers = match rung.lock {
        LockKind::Redis(_) => rung.quorum(),
        _ => 0,
    };
    let mut letters = String::new();
    for word in text.split(' ') {
        letters += &match word {
            "L" | "P:A" | "P:B" if servers > 0 => "L".repeat(servers),
            "K:A" | "K:B" | "K:W" if rung.lock != LockKind::ZooKeeper => "K".to_owned(),
            _ if word.starts_with('A') => buyer(true).to_owned(),
            _ if word.starts_with('B') => buyer(false).to_owned(),
            _ if word.starts_with('W') => "C".to_owned(),
            _ => return None,
        };
    }
    (letters.len() <= MAX_STEPS).then_some(letters)
}

/// What a session makes of it: the promises that are broken at its end; `None` where it does not get there, or
/// where somebody is to go on though it is to be over.
async fn played(
    session: &mut LabSession<'_>,
    plan: PlanOfSession,
    schedule: &str,
    is_whole: bool,
) -> Option<Vec<Invariant>> {
    session.start_over(plan).await.unwrap();
    let schedule: Schedule = schedule.parse().unwrap();
    let (_, refused) = session.play_with_frames(&schedule).await.unwrap();
    let state = session.state().await.unwrap();
    let mut broken: Vec<Invariant> = state.broken.iter().map(|it| it.invariant).collect();
    broken.sort();
    (refused.is_none() && (state.is_over || !is_whole)).then_some(broken)
}

/// The beginning of a schedule up to the step after which `promise` is seen to be broken, and what is broken then;
/// `None` where that is never seen.
async fn cut(
    session: &mut LabSession<'_>,
    plan: PlanOfSession,
    schedule: &str,
    promise: Invariant,
) -> Option<ExploredSchedule> {
    session.start_over(plan).await.unwrap();
    let steps: Schedule = schedule.parse().unwrap();
    for (step, letter) in steps.0.iter().zip(1..) {
        session.step(*step).await.ok()?;
        let mut broken: Vec<Invariant> =
            session.state().await.unwrap().broken.iter().map(|it| it.invariant).collect();
        if broken.contains(&promise) {
            broken.sort();
            return Some(ExploredSchedule { schedule: schedule[..letter].to_owned(), broken });
        }
    }
    None
}

/// A schedule of an exploration that a session could play, and what explore saw it break.
type Candidate = (String, Vec<Invariant>);

/// As many as `most` of them, from all over, that come out in a session as explore saw them. Adds those that
/// do not to `otherwise`.
async fn checked(
    session: &mut LabSession<'_>,
    plan: PlanOfSession,
    candidates: Vec<&Candidate>,
    most: usize,
    otherwise: &mut usize,
) -> Vec<ExploredSchedule> {
    let mut found = Vec::new();
    let stride = candidates.len().div_ceil(most.max(1)).max(1);
    for (schedule, broken) in candidates.into_iter().step_by(stride).take(most) {
        match played(session, plan, schedule, true).await {
            Some(seen) if seen == *broken => {
                found.push(ExploredSchedule { schedule: schedule.clone(), broken: broken.clone() });
            }
            _ => *otherwise += 1,
        }
    }
    found
}

async fn written(world: &World, exploration: &Exploration) -> ExploredSetting {
    let Setting { rung, from, nodes, .. } = exploration.setting;
    let (users, stock) = match from {
        InitialState::LastOne | InitialState::Unpaid => (2, 1),
        InitialState::Herd => (2, 2),
        InitialState::DoubleClick | InitialState::BuysAgain => (1, 2),
    };
    let is_playable = !matches!(from, InitialState::Unpaid | InitialState::BuysAgain);
    let expressed = exploration.leaves.iter().filter(|leaf| is_playable && leaf.unknown.is_none());
    let mut candidates: Vec<Candidate> = expressed
        .filter_map(|leaf| {
            let mut broken: Vec<Invariant> = leaf.broken.iter().map(|it| it.invariant).collect();
            broken.sort();
            Some((letters(rung, &leaf.schedule)?, broken))
        })
        .collect();
    let turns = |it: &str| it.as_bytes().windows(2).filter(|pair| pair[0] != pair[1]).count();
    candidates.sort_by_key(|(it, _)| (it.len(), turns(it), it.clone()));
    let mut not_playable = exploration.leaves.len() - candidates.len();
    candidates.dedup();
    let plan = PlanOfSession { rung, users, processes: nodes as u8, stock };
    let mut shortest: Vec<ExploredSchedule> = Vec::new();
    let mut some = Vec::new();
    if !candidates.is_empty() {
        let mut session = LabSession::start(world, plan).await.unwrap();
        for promise in Invariant::ALL {
            let breaks = candidates.iter().filter(|(_, broken)| broken.contains(promise));
            // A schedule that is longer may show it earlier.
            let mut best: Option<ExploredSchedule> = None;
            for (schedule, _) in breaks.take(SOME) {
                let found = cut(&mut session, plan, schedule, *promise).await;
                best = match (best, found) {
                    (Some(best), Some(found)) if found.schedule.len() >= best.schedule.len() => {
                        Some(best)
                    }
                    (best, found) => found.or(best),
                };
            }
            shortest.extend(best.filter(|best| !shortest.contains(best)));
        }
        for is_breaking in [true, false] {
            let of_kind = candidates.iter().filter(|(_, broken)| broken.is_empty() != is_breaking);
            let found = checked(&mut session, plan, of_kind.collect(), SOME / 2, &mut not_playable);
            some.extend(found.await.into_iter().filter(|it| !shortest.contains(it)));
        }
        session.close().await;
    }
    ExploredSetting {
        rung: rung.id.to_owned(),
        from: from.to_string(),
        users,
        processes: nodes as u8,
        stock,
        schedules: exploration.leaves.len(),
        bound: exploration.limits.bound,
        breaking: exploration.leaves.iter().filter(|leaf| !leaf.broken.is_empty()).count(),
        not_playable,
        shortest,
        some,
    }
}

/// All schedules, where they are not too many; else those with one preemption. Begins again where a busy machine
/// does not answer in time.
async fn explored_anew(world: &World, setting: &Setting) -> Exploration {
    let limits = [(None, MANY), (Some(1), 20_000)];
    for (bound, max_schedules) in limits {
        for _ in 0..TRIES {
            let limits = ExploreLimits { bound, max_schedules };
            let mut exploration = Exploration::new(setting.clone(), limits);
            match explore(world, &mut exploration, |_, _| {}).await {
                Ok(()) if exploration.is_complete() => return exploration,
                Ok(()) => break,
                Err(error) => println!("{}: {error:#}", place(setting)),
            }
        }
    }
    panic!("{} was not explored", place(setting))
}

#[ignore = "`make explored` runs it; many minutes"]
#[tokio::test(flavor = "multi_thread")]
async fn write_what_was_explored() {
    let world = lab().await;
    let mut lines = vec![
        "# rung, from, users, processes, stock, schedules, bound, breaking, not playable, shortest, some: \
         `make explored` writes this."
            .to_owned(),
    ];
    let options = SettingOptions { actors: 2, ..SettingOptions::default() };
    for rung in RUNGS.iter().filter(|rung| not_explorable(rung, 2).is_none()) {
        for setting in Setting::of(rung, &options) {
            let exploration = explored_anew(&world, &setting).await;
            lines.push(written(&world, &exploration).await.line());
            println!("{}", lines.last().unwrap());
        }
    }
    world.close().await.unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/course/explored.tsv");
    fs::write(file, lines.join("\n") + "\n").unwrap();
}

/// The shortest that break something, and one that does not, of every setting.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_explored_comes_out_the_same_when_it_is_played() {
    let world = lab().await;
    for rung in RUNGS {
        for setting in explored(rung) {
            let holds = setting.some.iter().find(|it| it.broken.is_empty());
            let shortest = setting.shortest.iter().map(|it| (it, false));
            let handful: Vec<_> = shortest.chain(holds.map(|it| (it, true))).collect();
            if handful.is_empty() || rung.lock == LockKind::ZooKeeper {
                continue;
            }
            let ExploredSetting { users, processes, stock, .. } = *setting;
            let plan = PlanOfSession { rung, users, processes, stock };
            let mut session = LabSession::start(&world, plan).await.unwrap();
            for (ExploredSchedule { schedule, broken }, is_whole) in handful {
                let seen = played(&mut session, plan, schedule, is_whole).await;
                assert_eq!(seen.as_ref(), Some(broken), "{} {}: {schedule}", rung.id, setting.from);
            }
            session.close().await;
        }
    }
    world.close().await.unwrap();
}

#[test]
fn every_rung_was_explored_and_breaks_nothing_that_it_claims() {
    for rung in RUNGS {
        let settings = explored(rung);
        assert!(settings.len() >= 3, "{}", rung.id);
        for setting in settings {
            assert!(setting.schedules > 0 && setting.breaking <= setting.schedules);
            let mut broken = setting.shortest.iter().flat_map(|it| &it.broken);
            assert!(!broken.any(|it| rung.claims.contains(it)), "{} {}", rung.id, setting.from);
            assert!(rung.can(Capability::OneStep) || setting.schedules > 2, "{}", rung.id);
        }
    }
}
