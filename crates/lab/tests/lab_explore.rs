//! Every interleaving of rungs' steps, explored on the real servers and held against the registry.

use ladder::{self, Capability, Invariant, LockKind, RUNGS, Rung, Scenario};
use seckill_lab::World as Lab;
use seckill_lab::explore::{Exploration, ExploreLimits, explore, objections, play_schedule};
use seckill_lab::game::{Schedule, Setting, SettingOptions};
use serde_json::Value;

use crate::kept::lab_of_games as lab;
use testkit::program::Program;
use testkit::shop::world::World;

/// Two buyers, at most one preemption a schedule: enough for every break, and for a test.
async fn explored(lab: &Lab, rung: &'static Rung) -> Vec<Exploration> {
    let limits = ExploreLimits { bound: Some(1), max_schedules: 1000 };
    let mut found = Vec::new();
    for setting in Setting::of(rung, &SettingOptions { buyers: 2, ..SettingOptions::default() }) {
        let mut exploration = Exploration::new(setting, limits);
        explore(lab, &mut exploration, |_, _| {}).await.unwrap();
        assert!(exploration.is_complete());
        found.push(exploration);
    }
    found
}

async fn breaks_as_claimed(id: &str) {
    let (lab, rung) = (lab().await, ladder::find(id).unwrap());
    let wrong = objections(rung, &explored(&lab, rung).await, true);
    lab.close().await.unwrap();
    assert_eq!(wrong, [""; 0]);
}

/// A test a rung: what it claims no schedule breaks, and what it does not claim one does.
macro_rules! explored_rungs {
    ($($id:ident)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $id() {
            breaks_as_claimed(stringify!($id)).await;
        })+
    };
}

// The rungs without a lock, a mutex, a lock that is left for ever, one that is outlived, a consumer,
// orders that have to be paid; those whose leases are waited for are part of `make explore`.
explored_rungs! {
    r01 r03 r05a r05b r07a r08a r11 r16 r18a r18b r18c r19 r20 r23b r24 r25 r26c r27b r29a r29b r30b r31a r31b
}

/// The rung `built`, with what another row of the registry says.
fn sabotaged(built: &str, claims: &[Invariant], breaks: &[Scenario]) -> &'static Rung {
    let built = ladder::find(built).unwrap();
    let (claims, breaks) = (Box::leak(claims.into()), Box::leak(breaks.into()));
    Box::leak(Box::new(Rung { claims, breaks, ..*built }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_says_too_much_or_too_little_is_found_out() {
    let lab = lab().await;
    let told = async |rung| objections(rung, &explored(&lab, rung).await, true).join("\n");
    let modest = ladder::find("r05a").unwrap();
    let claims = [modest.claims, &[Invariant::OnePerUser]].concat();
    let too_much = told(sabotaged("r05a_check_then_insert", &claims, modest.breaks)).await;
    assert!(too_much.contains("breaks one_per_user, which the rung claims to keep"), "{too_much}");
    let naive = ladder::find("r01").unwrap();
    let too_little = told(sabotaged("r04_stock_guard", naive.claims, naive.breaks)).await;
    assert!(too_little.contains("said to break in last_one, and no schedule does"), "{too_little}");
    let untold = told(sabotaged("r05a_check_then_insert", modest.claims, &[])).await;
    assert!(untold.contains("breaks one_per_user, and no scenario covers that"), "{untold}");
    lab.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_names_the_shortest_break_and_plays_it_again() {
    let program = Program::on(&World::new().await);
    let json = program.file("explore.json");
    let ran = program.run(&["lab", "explore", "r05a", "--json", json.to_str().unwrap()]).await;
    assert_eq!(ran.status, 0, "{ran:?}");
    // Two steps of each: six schedules, and where both have counted before either writes, twice.
    let sum = "r05a_check_then_insert from double_click, 1 process: 6 schedules, 4 break one_per_user, 0 unknown";
    assert!(ran.stdout.contains(sum), "{ran:?}");
    assert!(ran.stdout.contains("the shortest that breaks one_per_user: A1 B1 B2 A2"), "{ran:?}");
    assert!(ran.stdout.contains("    A      counts the orders of this user: 0"), "{ran:?}");

    let again = "seckill lab replay r05a_check_then_insert --from double_click --nodes 1 --schedule 'A1 B1 B2 A2'";
    assert!(ran.stdout.contains(again), "{ran:?}");
    let again = ["r05a", "--from", "double_click", "--nodes", "1", "--schedule", "A1 B1 B2 A2"];
    let said = program.says(&[&["lab", "replay"], &again[..]].concat()).await;
    assert!(said.contains("one_per_user breaks: user 1 holds 2 orders"), "{said}");

    let written: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(written["as_claimed"], true);
    let twice = &written["explorations"][1];
    assert_eq!((&twice["from"], &twice["schedules"]), (&"double_click".into(), &6.into()));
    assert_eq!(twice["breaking"]["one_per_user"], 4);
    let shortest = &twice["shortest"][0];
    assert_eq!(shortest["schedule"], "A1 B1 B2 A2");
}

/// The schedules of r13d are many, and wait for leases: these are the ones that matter.
#[tokio::test(flavor = "multi_thread")]
async fn the_production_lock_outlasts_everything_but_a_pause_after_its_last_look() {
    let lab = lab().await;
    for (schedule, breaks) in [
        ("A1 B1 B2 K:A", false),
        ("A1 K:A B1", false),
        ("A1 A2 P:A B1", false),
        ("A1 A2 A3 P:A B1 B2 B3 B4 B5 B6 A4", true),
    ] {
        let schedule: Schedule = schedule.parse().unwrap();
        let rung = ladder::find("r13d").unwrap();
        let from = "double_click".parse().unwrap();
        let setting = Setting::of_schedule(rung, &schedule, from, 2).unwrap();
        let leaf = play_schedule(&lab, &setting, &schedule).await.unwrap();
        assert_eq!(leaf.unknown, None, "{schedule}");
        assert_eq!(leaf.breaks(Invariant::OnePerUser), breaks, "{schedule}: {:?}", leaf.timeline);
        assert!(!leaf.breaks(Invariant::NoLockout), "{schedule}");
    }
    lab.close().await.unwrap();
}

/// The last voucher is in the consumer's hands when its process is killed, or the kill comes later: what
/// the next process makes of it. The shortest breaks of r20 and r21a, and the same steps on r22 and r23a.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_consumer_had_in_hand_is_lost_only_where_nobody_claims_it() {
    let lab = lab().await;
    for (rung, schedule, broken) in [
        ("r20", "A1 A2 B1 W1 K:W", &[Invariant::NoUndersell, Invariant::NoBrokenPromise][..]),
        ("r21a", "A1 A2 B1 W1 K:W", &[Invariant::NoUndersell, Invariant::NoBrokenPromise]),
        ("r21a", "A1 A2 B1 W1 W2 W3 K:W", &[]),
        ("r21a", "A1 A2 B1 K:W", &[]),
        ("r21c", "A1 A2 B1 W1 K:W", &[Invariant::NoUndersell, Invariant::NoBrokenPromise]),
        ("r22", "A1 A2 B1 W1 K:W", &[]),
        ("r22", "A1 W1 W2 K:W B1", &[]),
        ("r23a", "A1 A2 W1 W2 K:W B1", &[]),
    ] {
        let steps: Schedule = schedule.parse().unwrap();
        let rung = ladder::find(rung).unwrap();
        let from = "last_one".parse().unwrap();
        let setting = Setting::of_schedule(rung, &steps, from, 2).unwrap();
        let leaf = play_schedule(&lab, &setting, &steps).await.unwrap();
        let place = format!("{} {schedule}: {:?}", rung.id, leaf.timeline);
        assert_eq!(leaf.unknown, None, "{place}");
        let found = leaf.broken.iter().map(|it| it.invariant);
        assert!(found.eq(broken.iter().copied()), "{place}");
    }
    lab.close().await.unwrap();
}

#[test]
fn every_rung_with_a_lock_that_ends_is_explored_with_a_fault() {
    let has_lock = |rung: &&Rung| matches!(rung.lock, LockKind::Redis(_) | LockKind::ZooKeeper);
    // A whole purchase of production is one step: there is no place for a fault.
    let has_places = |rung: &&Rung| !rung.can(Capability::OneStep);
    for rung in RUNGS.iter().filter(has_lock).filter(has_places) {
        let settings =
            Setting::of(rung, &SettingOptions { buyers: 2, ..SettingOptions::default() });
        assert!(settings.iter().any(|setting| !setting.faults.is_empty()), "{}", rung.id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exploration_ends_at_its_limit_and_says_that_something_is_left() {
    let lab = lab().await;
    let rung = ladder::find("r11").unwrap();
    let options = SettingOptions { buyers: 2, from: "herd".parse().ok(), ..Default::default() };
    let limits = ExploreLimits { bound: None, max_schedules: 15 };
    let mut exploration = Exploration::new(Setting::of(rung, &options).remove(0), limits);
    explore(&lab, &mut exploration, |_, _| {}).await.unwrap();
    lab.close().await.unwrap();
    assert_eq!(exploration.leaves.len(), 15);
    assert!(!exploration.is_complete());
    let sum = exploration.sum();
    assert!(sum.starts_with("15 schedules, none breaks a promise, 0 unknown, at least "), "{sum}");
    assert!(sum.ends_with(" left out"), "{sum}");
    let wrong = objections(rung, &[exploration], true).join("\n");
    assert!(wrong.contains("schedules left out: not every break was looked for"), "{wrong}");
}
