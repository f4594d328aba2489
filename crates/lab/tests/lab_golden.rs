//! What programs read of a replay, its words in both languages, how every command ends, and what is where on the web,
//! as a release has them: nothing of it changes by accident.

use ladder::Scenario;
use seckill::http::Language;
use serde_json::{Value, json};
use testkit::golden::{answered, assert_answered, assert_file};
use testkit::program::ran;
use testkit::shop::private_server::PrivateServer;
use testkit::shop::world::World;

use crate::course::steady::steadied;
use crate::course::timeline;
use crate::kept::played;
use crate::serving::Serving;

const FILE: &str = "crates/lab/tests/golden/replays.json";

/// With words of every room: the lab, buyers, locks, consumers, payments, caches.
const CELLS: [(&str, Scenario); 12] = [
    ("r02_row_lock", Scenario::DoubleClick),
    ("r03_version_cas", Scenario::Herd),
    ("r05b_advisory_lock", Scenario::Nested),
    ("r08b_setnx_expire", Scenario::DiesBetween),
    ("r13c_resent_release", Scenario::ResentRelease),
    ("r16_fencing", Scenario::PausedHolder),
    ("r18b_stock_segments", Scenario::OtherSegment),
    ("r20_lua_and_queue", Scenario::QueueFull),
    ("r22_stream_done_right", Scenario::GivenUp),
    ("r23a_outbox", Scenario::PublishedTwice),
    ("r25_expire_by_condition", Scenario::LatePayment),
    ("r26b_delayed_double_delete", Scenario::LostDelete),
];

#[tokio::test(flavor = "multi_thread")]
async fn the_json_and_the_words_of_replays_are_those_of_the_release_before() {
    let mut cells = Vec::new();
    for (rung, scenario) in CELLS {
        let cell = steadied(played(ladder::find(rung).unwrap(), scenario).await);
        let mut told = serde_json::to_value(&cell).unwrap();
        // It is measured.
        told.as_object_mut().unwrap().remove("elapsed_ms");
        cells.push(json!({ "json": told, "chinese": timeline::printed(&cell, Language::Chinese) }));
    }
    assert_file(FILE, &format!("{:#}\n", Value::from(cells)));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_ends_with_the_status_of_the_release_before() {
    assert_answered("exit statuses", async |line| ran(line).await.status.to_string()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_where_it_was_in_the_release_before() {
    let world = World::new().await;
    let base = format!("http://{}", world.serve().await);
    assert_answered("seckill serve", async |asked| answered(&base, asked).await).await;
    let play = PrivateServer::start().await;
    let base = format!("http://{}", play.node.address);
    assert_answered("seckill play", async |asked| answered(&base, asked).await).await;
    let serving = Serving::begin().await;
    assert_answered("seckill lab serve", async |asked| answered(&serving.base, asked).await).await;
}
