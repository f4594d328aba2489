//! What programs read of a replay, its words in both languages, what every command says of itself, how it ends, and
//! what is where on the web, as a release has them: nothing of it changes by accident.

use std::fs;

use clap::{Command, CommandFactory};
use ladder::Scenario;
use seckill::http::Language;
use seckill_lab::replay;
use serde_json::{Value, json};
use testkit::golden::assert_answered;
use testkit::program::Program;
use testkit::shop::private_server::PrivateServer;
use testkit::shop::world::World;
use url::Url;

use crate::course::page::repository;
use crate::course::steady::steadied;
use crate::course::timeline;
use crate::lab_player::{Played, options};
use crate::lab_replays::lab;
use crate::lab_serve::Serving;

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

/// Runs a line of a shell: variables, and a command of `seckill`.
async fn exit_status(line: &str) -> String {
    let mut words = line.split_whitespace().peekable();
    let mut program = Program::alone();
    while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
        program = program.with(name, value);
        words.next();
    }
    assert_eq!(words.next(), Some("seckill"));
    program.run(&words.collect::<Vec<_>>()).await.status.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_ends_with_the_status_of_the_release_before() {
    assert_answered("exit statuses", async |line| exit_status(line).await).await;
}

/// Asks a server for `METHOD /path`, and tells the status.
async fn answered(base: &str, asked: &str) -> String {
    let (method, path) = asked.split_once(' ').unwrap();
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let request = client.build().unwrap().request(method.parse().unwrap(), format!("{base}{path}"));
    request.send().await.unwrap().status().as_u16().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_where_it_was_in_the_release_before() {
    let world = World::new().await;
    let base = format!("http://{}", world.serve().await);
    assert_answered("seckill serve", async |asked| answered(&base, asked).await).await;
    let play = PrivateServer::start().await;
    let base = format!("http://{}", play.node.address);
    assert_answered("seckill play", async |asked| answered(&base, asked).await).await;
    let serving = Serving::on(&world).await;
    assert_answered("seckill lab serve", async |asked| answered(&serving.base, asked).await).await;
}

/// The page at an address, and what it makes of it: the schedule that was played, and the promises it broke.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_the_game_that_was_shared_shows_what_it_showed() {
    let played = Played::new(options().await).await;
    let base = format!("http://{}", played.api.address);
    let session = uuid::Uuid::new_v4().to_string();
    assert_answered("addresses of the game that were shared", async |asked| {
        let status = answered(&base, &format!("GET {asked}")).await;
        let url = Url::parse(&format!("{base}{asked}")).unwrap();
        let mut body = json!({ "session": session });
        for (name, value) in url.query_pairs().filter(|(name, _)| name != "lang") {
            body[&*name] = value.parse::<i64>().map_or_else(|_| json!(value), Value::from);
        }
        let opened = played.api.post("/api/lab/sessions", &body).await;
        let broken = opened.body["broken"].as_array().into_iter().flatten();
        let broken: Vec<_> = broken.map(|it| it["invariant"].as_str().unwrap()).collect();
        let schedule = opened.body["schedule"].as_str().unwrap_or("");
        let told = format!("{status} {} {schedule} {}", opened.status, broken.join(" "));
        told.trim_end().to_owned()
    })
    .await;
    played.close().await;
}

/// Where a sentence is bettered on purpose, or a command is new.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it writes the golden files"]
async fn write_the_golden_files() {
    let text = serde_json::to_string_pretty(&played().await).unwrap();
    fs::write(repository().join(FILE), text + "\n").unwrap();
    fs::write(repository().join(HELP), all_help()).unwrap();
}
