//! What `explore` found of each rung, in the short form of schedules: `make explored` writes it, and a test plays
//! some of it again.

use std::fs;
use std::path::Path;

use ladder::{Capability, Invariant, RUNGS};
use seckill_lab::World;
use seckill_lab::explore::{Exploration, ExploreLimits, explore, place};
use seckill_lab::game::{GamePlan, Schedule, Setting, SettingOptions, not_explorable};
use seckill_lab::session::{LabSession, SessionState};
use seckill_play::page::{ExploredSchedule, ExploredSetting, explored};

/// The lab, on the servers of this run.
async fn lab() -> World {
    let (postgres, redis) = testkit::servers::urls().await;
    World::open(Some(postgres), Some(redis)).await.unwrap()
}

/// Schedules of one setting that the page lets one try.
const SOME: usize = 12;

/// More than this a setting of a rung has only with many preemptions: those are left out.
const MANY: usize = 800;

/// How often a setting is explored where it fails.
const TRIES: usize = 2;

/// What a session makes of it: the promises that are broken at its end; `None` where it does not get there, or
/// where somebody is to go on though it is to be over.
async fn played(
    session: &mut LabSession<'_>,
    plan: GamePlan,
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
    plan: GamePlan,
    schedule: &Schedule,
    promise: Invariant,
) -> Option<ExploredSchedule> {
    session.start_over(plan).await.unwrap();
    let (mut frames, _) = session.play_with_frames(schedule).await.unwrap();
    frames.push(session.state().await.unwrap());
    let shows = |frame: &&SessionState| frame.broken.iter().any(|it| it.invariant == promise);
    let shown = frames.iter().find(shows)?;
    let mut broken: Vec<Invariant> = shown.broken.iter().map(|it| it.invariant).collect();
    broken.sort();
    Some(ExploredSchedule { schedule: shown.schedule.clone(), broken })
}

/// A schedule of an exploration, and what explore saw it break.
type Candidate = (Schedule, Vec<Invariant>);

/// As many as `most` of them, from all over. What explore played comes out the same in a session.
async fn checked(
    session: &mut LabSession<'_>,
    plan: GamePlan,
    candidates: Vec<&Candidate>,
    most: usize,
) -> Vec<ExploredSchedule> {
    let mut found = Vec::new();
    let stride = candidates.len().div_ceil(most.max(1)).max(1);
    for (schedule, broken) in candidates.into_iter().step_by(stride).take(most) {
        let seen = played(session, plan, &schedule.short(), true).await;
        assert_eq!(seen.as_ref(), Some(broken), "{} {}: {schedule}", plan.rung.id, plan.users);
        found.push(ExploredSchedule { schedule: schedule.short(), broken: broken.clone() });
    }
    found
}

async fn written(world: &World, exploration: &Exploration) -> ExploredSetting {
    let Setting { rung, from, .. } = exploration.setting;
    let plan = exploration.setting.plan();
    let known = exploration.leaves.iter().filter(|leaf| leaf.unknown.is_none());
    let mut candidates: Vec<Candidate> = known
        .map(|leaf| {
            let mut broken: Vec<Invariant> = leaf.broken.iter().map(|it| it.invariant).collect();
            broken.sort();
            broken.dedup();
            (leaf.schedule.clone(), broken)
        })
        .collect();
    candidates.sort_by_key(|(schedule, _)| schedule.rank());
    let mut shortest: Vec<ExploredSchedule> = Vec::new();
    let mut some = Vec::new();
    let mut session = LabSession::start(world, plan).await.unwrap();
    for promise in Invariant::ALL {
        let breaks = candidates.iter().filter(|(_, broken)| broken.contains(promise));
        // A schedule that is longer may show it earlier.
        let mut best: Option<ExploredSchedule> = None;
        for (schedule, _) in breaks.take(SOME) {
            let found = cut(&mut session, plan, schedule, *promise).await;
            best = match (best, found) {
                (Some(best), Some(found)) if steps(&found) >= steps(&best) => Some(best),
                (best, found) => found.or(best),
            };
        }
        shortest.extend(best.filter(|best| !shortest.contains(best)));
    }
    for is_breaking in [true, false] {
        let of_kind = candidates.iter().filter(|(_, broken)| broken.is_empty() != is_breaking);
        let found = checked(&mut session, plan, of_kind.collect(), SOME / 2).await;
        some.extend(found.into_iter().filter(|it| !shortest.contains(it)));
    }
    session.close().await;
    ExploredSetting {
        rung: rung.id.to_owned(),
        from: from.to_string(),
        users: plan.users,
        processes: plan.processes,
        stock: plan.stock,
        schedules: exploration.leaves.len(),
        bound: exploration.limits.bound,
        breaking: exploration.leaves.iter().filter(|leaf| !leaf.broken.is_empty()).count(),
        shortest,
        some,
    }
}

fn steps(explored: &ExploredSchedule) -> usize {
    explored.schedule.parse::<Schedule>().unwrap().0.len()
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
    let mut lines = Vec::new();
    let options = SettingOptions { buyers: 2, ..SettingOptions::default() };
    for rung in RUNGS.iter().filter(|rung| not_explorable(rung, 2).is_none()) {
        for setting in Setting::of(rung, &options) {
            let exploration = explored_anew(&world, &setting).await;
            let setting = written(&world, &exploration).await;
            lines.push(serde_json::to_string(&setting).unwrap());
            println!("{}", lines.last().unwrap());
        }
    }
    world.close().await.unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page/explored.jsonl");
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
            if handful.is_empty() || rung.lock == ladder::LockKind::ZooKeeper {
                continue;
            }
            let plan = setting.plan(rung);
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
