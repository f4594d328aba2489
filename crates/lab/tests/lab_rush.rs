//! `seckill lab rush`: the crowd, and the verdict on it.

use seckill_lab::{RushOptions, RushReport, World as Lab, rush};
use serde_json::Value;

use crate::kept::lab;
use testkit::program::Program;
use testkit::shop::world::World;

const TERMS: RushOptions = RushOptions { users: 400, attempts: None, stock: 40, seconds: None };

/// What is true of every rush, whatever the rung.
#[track_caller]
fn adds_up(rush: &RushReport, terms: RushOptions) {
    let figures = rush.crowd.figures;
    let found = figures.found;
    assert_eq!(rush.crowd.outcomes.values().sum::<u64>(), terms.attempts_of_all(), "{rush:?}");
    // On a busy machine a lock's server may be late, and an order have no answer.
    let told = rush.crowd.outcomes["ordered"];
    assert!((told..=told + found.unexpected).contains(&(figures.orders as u64)), "{rush:?}");
    assert_eq!((figures.stock, found.lost), (i64::from(terms.stock), 0), "{rush:?}");
    assert!(rush.as_claimed, "{rush:?}");
    assert!(rush.crowd.latency_ms.is_some_and(|ms| ms.p50 > 0.0) && rush.crowd.orders_per_s > 0.0);
}

#[test]
fn every_fourth_buyer_comes_twice_and_every_eighth_a_third_time() {
    for (users, attempts) in [(16, 16 + 4 + 2), (1, 3)] {
        let terms = RushOptions { users, ..RushOptions::default() };
        assert_eq!(terms.attempts_of_all(), attempts);
    }
    assert_eq!(RushOptions::default().attempts_of_all(), 2_750);
}

/// The rush of such a crowd on a rung.
async fn rush_of(lab: &Lab, id: &str, terms: RushOptions, seed: u64) -> RushReport {
    let mut done = 0;
    let rung = ladder::find(id).unwrap();
    let rush = rush(lab, rung, terms, seed, |now| done = now).await.unwrap();
    let users = i64::from(terms.users);
    assert_eq!((&*rush.rung, rush.crowd.figures.users, rush.seed), (rung.id, users, seed));
    assert!(done <= terms.attempts_of_all());
    rush
}

/// Orders, and vouchers left.
fn sold(rush: &RushReport) -> (i64, i64) {
    (rush.crowd.figures.orders, rush.crowd.figures.remaining)
}

#[tokio::test(flavor = "multi_thread")]
async fn crowds_on_rungs_that_sell_too_much_twice_and_as_they_should() {
    let lab = lab().await;
    let enough = RushOptions { users: 60, stock: 100, ..RushOptions::default() };
    for (id, terms, seed, expected, must_hold) in [
        // Whether it oversells this time is luck; that it sells all is not.
        ("r01", TERMS, 7, None, false),
        // Nor is it more than luck whether these sell twice.
        ("r04", TERMS, 7, Some((40, 0)), false),
        ("r07b", TERMS, 7, Some((40, 0)), false),
        ("r13d", TERMS, 7, Some((40, 0)), true),
        ("r18a", TERMS, 7, Some((40, 0)), true),
        ("r18a", enough, 1, Some((60, 40)), true),
    ] {
        let rush = rush_of(&lab, id, terms, seed).await;
        adds_up(&rush, terms);
        match expected {
            Some(expected) => assert_eq!(sold(&rush), expected, "{rush:?}"),
            None => assert!(sold(&rush).0 >= rush.crowd.figures.stock, "{rush:?}"),
        }
        assert!(rush.crowd.holds || !must_hold, "{rush:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rung_that_answers_first_is_judged_when_it_has_written() {
    let lab = lab().await;
    let terms = RushOptions { users: 60, stock: 40, ..RushOptions::default() };
    for (id, promise) in [
        ("r20", "ordered"),
        ("r21a", "ordered"),
        ("r22", "accepted"),
        ("r23a", "ordered"),
        ("r23b", "ordered"),
    ] {
        let rush = rush_of(&lab, id, terms, 5).await;
        assert_eq!((rush.crowd.outcomes[promise], sold(&rush)), (40, (40, 0)), "{rush:?}");
        let later = rush.written_later.unwrap();
        assert_eq!((later.promised, later.missing), (40, 0), "{rush:?}");
        assert!(later.durable_per_s > 0.0 && later.durable_per_s <= later.answered_per_s);
        assert!(rush.crowd.holds && rush.as_claimed, "{rush:?}");
    }
}

/// Nobody begins after the time: how many have come by then is what the machine can do.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_comes_for_some_time_is_judged_by_those_who_came() {
    let lab = lab().await;
    for (id, seconds) in [("r18c", 0), ("r18c", 1), ("r23b", 1)] {
        let terms =
            RushOptions { users: 50_000, attempts: None, stock: 50_000, seconds: Some(seconds) };
        let rush = rush_of(&lab, id, terms, 3).await;
        let came = rush.crowd.outcomes.values().sum::<u64>();
        assert!(came < terms.attempts_of_all(), "{rush:?}");
        assert_eq!(came == 0, seconds == 0, "{rush:?}");
        let (orders, left) = sold(&rush);
        assert_eq!(orders as u64, rush.crowd.outcomes.get("ordered").copied().unwrap_or(0));
        assert_eq!(orders + left, 50_000, "{rush:?}");
        assert!(rush.as_claimed, "{rush:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_prints_a_table_and_writes_json() {
    let program = Program::on(&World::new().await);
    let json = program.file("rush.json");
    let arguments = ["lab", "rush", "r04", "r18a", "--users", "200", "--stock", "10"];
    let named = ["--seed", "3", "--json", json.to_str().unwrap()];
    let ran = program.run(&[&arguments[..], &named].concat()).await;
    assert_eq!(ran.status, 0, "{ran:?}");
    let is_told = ["r04_stock_guard", "every promise kept"].map(|it| ran.stdout.contains(it));
    assert!(is_told == [true; 2] && ran.stderr.contains("Seed: 3."), "{ran:?}");
    let written: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let rushes = written["rushes"].as_array().unwrap();
    assert_eq!(rushes.len(), 2);
    for rush in rushes {
        assert_eq!((&rush["seed"], &rush["orders"]), (&3.into(), &10.into()), "{rush}");
        assert_eq!((&rush["oversold"], &rush["as_claimed"]), (&0.into(), &true.into()), "{rush}");
    }
}
