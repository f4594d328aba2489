//! `seckill lab rush`: the crowd, and the verdict on it.

use ladder::{self, Invariant};
use seckill_lab::{RushOptions, RushReport, rush};
use serde_json::Value;

use crate::kept::lab;
use testkit::processes::{place, seckill};
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
    assert_eq!(found.oversold, (figures.orders - figures.stock).max(0), "{rush:?}");
    assert_eq!(rush.crowd.holds, rush.broken.is_empty(), "{rush:?}");
    assert_eq!(rush.broken.contains(&Invariant::NoOversell), found.oversold > 0, "{rush:?}");
    assert_eq!(rush.broken.contains(&Invariant::OnePerUser), found.duplicates > 0, "{rush:?}");
    assert!(rush.as_claimed, "{rush:?}");
    assert!(rush.crowd.latency_ms.is_some_and(|ms| ms.p50 > 0.0) && rush.crowd.orders_per_s > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fourth_buyer_comes_twice_and_every_eighth_a_third_time() {
    assert_eq!(
        RushOptions { users: 16, stock: 1, ..RushOptions::default() }.attempts_of_all(),
        16 + 4 + 2
    );
    assert_eq!(RushOptions { users: 1, stock: 1, ..RushOptions::default() }.attempts_of_all(), 3);
    assert_eq!(RushOptions::default().attempts_of_all(), 2_750);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_crowd_on_rungs_that_sell_too_much_twice_and_as_they_should() {
    let lab = lab().await;
    for id in [
        "r01_naive",
        "r04_stock_guard",
        "r07b_user_mutex",
        "r13d_redisson_lock",
        "r18a_constraints",
    ] {
        let mut done = 0;
        let rung = ladder::find(id).unwrap();
        let rush = rush(&lab, rung, TERMS, 7, |now| done = now).await.unwrap();
        assert_eq!((&*rush.rung, rush.crowd.figures.users, rush.seed), (id, TERMS.users.into(), 7));
        assert!(done <= TERMS.attempts_of_all());
        adds_up(&rush, TERMS);
        match id {
            // Whether it oversells this time is luck; that it sells all is not.
            "r01_naive" => {
                assert!(rush.crowd.figures.orders >= rush.crowd.figures.stock, "{rush:?}")
            }
            // Nor is it more than luck whether it sells twice.
            "r04_stock_guard" | "r07b_user_mutex" => {
                assert_eq!(
                    (rush.crowd.figures.orders, rush.crowd.figures.remaining),
                    (40, 0),
                    "{rush:?}"
                );
            }
            _ => {
                assert_eq!(
                    (
                        rush.crowd.figures.orders,
                        rush.crowd.figures.remaining,
                        rush.crowd.figures.found.duplicates
                    ),
                    (40, 0, 0),
                    "{rush:?}"
                );
                assert!(rush.crowd.holds, "{rush:?}");
            }
        }
    }
    lab.close().await.unwrap();
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
        let rung = ladder::find(id).unwrap();
        let rush = rush(&lab, rung, terms, 5, |_| {}).await.unwrap();
        assert_eq!(
            (rush.crowd.outcomes[promise], rush.crowd.figures.orders, rush.crowd.figures.remaining),
            (40, 40, 0),
            "{rush:?}"
        );
        let later = rush.written_later.unwrap();
        assert_eq!((later.promised, later.missing), (40, 0), "{rush:?}");
        assert!(later.durable_per_s > 0.0 && later.durable_per_s <= later.answered_per_s);
        assert!(rush.crowd.holds && rush.as_claimed, "{rush:?}");
    }
    lab.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_enough_for_everybody_something_is_left() {
    let lab = lab().await;
    let terms = RushOptions { users: 60, stock: 100, ..RushOptions::default() };
    let rung = ladder::find("r18a").unwrap();
    let rush = rush(&lab, rung, terms, 1, |_| {}).await.unwrap();
    adds_up(&rush, terms);
    assert_eq!(
        (
            rush.crowd.figures.orders,
            rush.crowd.figures.remaining,
            rush.crowd.figures.found.undersold
        ),
        (60, 40, 0),
        "{rush:?}"
    );
    assert!(rush.crowd.holds, "{rush:?}");
    lab.close().await.unwrap();
}

/// Nobody begins after the time: how many have come by then is what the machine can do.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_comes_for_some_time_is_judged_by_those_who_came() {
    let lab = lab().await;
    for (id, seconds) in [("r18c", 0), ("r18c", 1), ("r23b", 1)] {
        let terms =
            RushOptions { users: 50_000, attempts: None, stock: 50_000, seconds: Some(seconds) };
        let rung = ladder::find(id).unwrap();
        let rush = rush(&lab, rung, terms, 3, |_| {}).await.unwrap();
        let came = rush.crowd.outcomes.values().sum::<u64>();
        assert!(came < terms.attempts_of_all(), "{rush:?}");
        assert_eq!(came == 0, seconds == 0, "{rush:?}");
        assert_eq!(
            rush.crowd.figures.orders as u64,
            rush.crowd.outcomes.get("ordered").copied().unwrap_or(0)
        );
        assert_eq!(rush.crowd.figures.orders + rush.crowd.figures.remaining, 50_000, "{rush:?}");
        assert!(rush.as_claimed, "{rush:?}");
    }
    lab.close().await.unwrap();
}

fn on(world: &World, arguments: &[&str]) -> tokio::process::Command {
    let mut command = seckill(arguments);
    command.env("DATABASE_URL", &world.database_url).env("REDIS_URL", &world.redis_url);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_prints_a_table_and_writes_json_and_drops_its_databases() {
    let world = World::new().await;
    let arguments = ["lab", "rush", "r04", "r18a", "--users", "200", "--stock", "10"];
    let place = place();
    let json = place.path().join("rush.json");
    let json = json.to_str().unwrap();
    let output = on(&world, &[&arguments[..], &["--seed", "3", "--json", json]].concat())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("r04_stock_guard") && said.contains("every promise kept"), "{said}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("Seed: 3."), "{told}");
    let written: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let rushes = written["rushes"].as_array().unwrap();
    assert_eq!(rushes.len(), 2);
    for rush in rushes {
        for field in ["rung", "orders", "stock", "oversold", "duplicates", "undersold"] {
            assert!(!rush[field].is_null(), "{field}: {rush}");
        }
        assert!(rush["latency_ms"]["p99"].is_f64() && rush["orders_per_s"].is_f64(), "{rush}");
        assert_eq!((&rush["seed"], &rush["orders"]), (&3.into(), &10.into()), "{rush}");
        assert_eq!((&rush["oversold"], &rush["as_claimed"]), (&0.into(), &true.into()), "{rush}");
    }
    let unknown = on(&world, &["lab", "rush", "r99"]).output().await.unwrap();
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
}
