//! Every interleaving of rungs' steps, explored on the real servers and held against the registry.

use futures_util::{StreamExt, stream};
use ladder::{self, Capability, Invariant, LockKind, RUNGS, Rung, Scenario};
use seckill_lab::World as Lab;
use seckill_lab::explore::{Exploration, ExploreLimits, Leaf, explore, objections, play_schedule};
use seckill_lab::game::{Schedule, Setting, SettingOptions};
use serde_json::Value;

use crate::kept::lab_of_games as lab;
use testkit::program::Program;
use testkit::shop::world::World;

/// Rungs that are explored at once.
const AT_ONCE: usize = 2;

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

/// What no rung claims to keep some schedule breaks, and what it claims none does. Left out are the rungs whose leases are
/// waited for, which are part of `make explore`.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_rung_claims_no_schedule_breaks_and_what_it_does_not_one_does() {
    let ids = "r01 r03 r05a r05b r07a r08a r11 r16 r18a r18b r18c r19 r20 r23b r24 r25 r26c r27b r29a r29b \
               r30b r31a r31b";
    let wrong = stream::iter(ids.split(' ')).map(|id| async move {
        let (lab, rung) = (lab().await, ladder::find(id).unwrap());
        objections(rung, &explored(&lab, rung).await, true)
    });
    let wrong = wrong.buffer_unordered(AT_ONCE).concat().await;
    assert_eq!(wrong, [""; 0]);
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

/// What schedules break that matter, of rungs whose schedules are many and wait for leases or for consumers. The
/// production lock outlasts everything but a pause after its last look. The last voucher is in the consumer's hands when
/// its process is killed, or the kill comes later: what the next process makes of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_or_a_kill_breaks_only_what_nobody_looks_after() {
    use Invariant::{NoBrokenPromise, NoUndersell, OnePerUser};
    let lab = lab().await;
    for (rung, from, steps, broken) in [
        ("r13d", "double_click", "A1 B1 B2 K:A", &[][..]),
        ("r13d", "double_click", "A1 K:A B1", &[]),
        ("r13d", "double_click", "A1 A2 P:A B1", &[]),
        ("r13d", "double_click", "A1 A2 A3 P:A B1 B2 B3 B4 B5 B6 A4", &[OnePerUser]),
        ("r20", "last_one", "A1 A2 B1 W1 K:W", &[NoUndersell, NoBrokenPromise]),
        ("r21a", "last_one", "A1 A2 B1 W1 K:W", &[NoUndersell, NoBrokenPromise]),
        ("r21a", "last_one", "A1 A2 B1 W1 W2 W3 K:W", &[]),
        ("r21a", "last_one", "A1 A2 B1 K:W", &[]),
        ("r21c", "last_one", "A1 A2 B1 W1 K:W", &[NoUndersell, NoBrokenPromise]),
        ("r22", "last_one", "A1 A2 B1 W1 K:W", &[]),
        ("r22", "last_one", "A1 W1 W2 K:W B1", &[]),
        ("r23a", "last_one", "A1 A2 W1 W2 K:W B1", &[]),
    ] {
        let (_, leaf) = leaf_of(&lab, rung, from, steps).await;
        let found = leaf.broken.iter().map(|it| it.invariant);
        assert!(found.eq(broken.iter().copied()), "{rung} {steps}: {:?}", leaf.timeline);
    }
}

/// These steps by two processes, played, and of which something is known.
pub async fn leaf_of(lab: &Lab, rung: &str, from: &str, steps: &str) -> (Setting, Leaf) {
    let schedule: Schedule = steps.parse().unwrap();
    let from = from.parse().unwrap();
    let setting = Setting::of_schedule(ladder::find(rung).unwrap(), &schedule, from, 2).unwrap();
    let leaf = play_schedule(lab, &setting, &schedule).await.unwrap();
    assert_eq!(leaf.unknown, None, "{rung} {steps}");
    (setting, leaf)
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
    assert_eq!(exploration.leaves.len(), 15);
    assert!(!exploration.is_complete());
    let sum = exploration.sum();
    assert!(sum.starts_with("15 schedules, none breaks a promise, 0 unknown, at least "), "{sum}");
    assert!(sum.ends_with(" left out"), "{sum}");
    let wrong = objections(rung, &[exploration], true).join("\n");
    assert!(wrong.contains("schedules left out: not every break was looked for"), "{wrong}");
}
