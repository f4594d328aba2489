//! Every interleaving of clients of the lock, over its production scripts.

use seckill_lab::explore::{ExploreLimits, LockExploration, LockInvariant, LockPart, explore_lock};
use serde_json::Value;

use crate::lab_replays::lab;
use testkit::program::Program;
use testkit::shop::world::World;

/// Two clients, at most two preemptions a schedule: enough for every break, and for a test. The
/// second look is left out by the test of the command.
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_holds_in_every_schedule_and_without_a_part_of_it_does_not() {
    let lab = lab().await;
    let explored = async |without, bound| {
        let limits = ExploreLimits { bound: Some(bound), max_schedules: 20_000 };
        let mut exploration = LockExploration::new(2, without, limits);
        explore_lock(&lab, &mut exploration, |_, _| {}).await.unwrap();
        println!("{without:?}: {} ({:.0}/s)", exploration.sum(), exploration.rate());
        assert_eq!((exploration.left_out, exploration.unknown.len()), (0, 0));
        exploration
    };
    let whole = explored(None, 2).await;
    assert!(whole.holds() && whole.schedules > 500, "{:?}", whole.broken);
    for (without, invariant, bound) in [
        (LockPart::OwnerCheck, LockInvariant::HoldCounts, 2),
        (LockPart::GrantRecord, LockInvariant::MutualExclusion, 1),
    ] {
        let partial = explored(Some(without), bound).await;
        assert!(partial.broken.contains_key(&invariant), "{without}: {:?}", partial.broken);
    }
    lab.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_tells_the_shortest_schedule_in_which_the_lock_breaks() {
    let program = Program::on(&World::new().await);
    let file = program.file("lock.json");
    let arguments = ["lab", "explore", "lock", "--bound", "2", "--without", "second_look"];
    let ran = program.run(&[&arguments[..], &["--json", file.to_str().unwrap()]].concat()).await;
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.stdout.contains(" break no_lost_wake_up, 0 unknown"), "{ran:?}");
    assert!(ran.stdout.contains("the shortest that breaks no_lost_wake_up: "), "{ran:?}");
    assert!(ran.stdout.contains("so no_lost_wake_up is broken: B sleeps, and the lock is free"));
    let written: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(written["without"], "second_look");
    let found = &written["broken"]["no_lost_wake_up"];
    assert!(found["schedules"].as_u64() > Some(0) && found["timeline"].is_array(), "{written}");
}
