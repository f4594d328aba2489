//! What programs read of a replay, its words in both languages, and what every command says of itself, as a release
//! has them: nothing of it changes by accident.

use std::fs;

use clap::{Command, CommandFactory};
use ladder::Scenario;
use seckill::http::Language;
use seckill_lab::replay;
use serde_json::{Value, json};

use crate::course::page::repository;
use crate::course::steady::steadied;
use crate::course::timeline;
use crate::lab_replays::lab;

const FILE: &str = "crates/lab/tests/golden/replays.json";
const HELP: &str = "crates/lab/tests/golden/help.txt";

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

/// Without what is measured.
async fn played() -> Value {
    let lab = lab().await;
    let mut cells = Vec::new();
    for (rung, scenario) in CELLS {
        let cell = steadied(replay(&lab, ladder::find(rung).unwrap(), scenario).await);
        let mut told = serde_json::to_value(&cell).unwrap();
        told.as_object_mut().unwrap().remove("elapsed_ms");
        cells.push(json!({ "json": told, "chinese": timeline::printed(&cell, Language::Chinese) }));
    }
    lab.close().await.unwrap();
    Value::from(cells)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_json_and_the_words_of_replays_are_those_of_the_release_before() {
    let text = fs::read_to_string(repository().join(FILE)).unwrap();
    let golden: Vec<Value> = serde_json::from_str(&text).unwrap();
    let played = played().await;
    assert_eq!(golden.len(), CELLS.len());
    for (golden, played) in golden.iter().zip(played.as_array().unwrap()) {
        assert_eq!(golden, played);
    }
}

/// The help of a command, and of those below it.
fn help(command: Command, above: &str) -> String {
    let name = format!("{above} {}", command.get_name()).trim().to_owned();
    let mut command = command.bin_name(&name).term_width(100);
    let own = format!("# {name}\n\n{}\n", command.render_long_help());
    let below = command.get_subcommands().map(|below| help(below.clone(), &name));
    own + &below.collect::<String>()
}

/// Of the server, the tools, and the lab.
fn all_help() -> String {
    let programs =
        [seckill::cli::command(), seckill_tools::Cli::command(), seckill_lab::Cli::command()];
    programs.map(|program| help(program, "")).concat()
}

#[test]
fn every_command_says_of_itself_what_the_release_before_said() {
    let (golden, now) = (fs::read_to_string(repository().join(HELP)).unwrap(), all_help());
    let other = golden.lines().zip(now.lines()).find(|(before, now)| before != now);
    assert_eq!(other, None);
    assert!(golden == now, "one of them has more lines");
}

/// Where a sentence is bettered on purpose, or a command is new.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it writes the golden files"]
async fn write_the_golden_files() {
    let text = serde_json::to_string_pretty(&played().await).unwrap();
    fs::write(repository().join(FILE), text + "\n").unwrap();
    fs::write(repository().join(HELP), all_help()).unwrap();
}
