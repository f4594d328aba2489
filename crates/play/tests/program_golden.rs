//! What every command of every program says of itself, and what a shared address of the game shows, as a release has
//! them: nothing of it changes by accident.

use std::fs;

use clap::{Command, CommandFactory};
use serde_json::{Value, json};
use testkit::golden::{answered, assert_answered};
use url::Url;

use crate::lab_player::{Played, options};

const HELP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/help.txt");

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
        [seckill::cli::command(), seckill_tools::Cli::command(), seckill_play::Cli::command()];
    programs.map(|program| help(program, "")).concat()
}

#[test]
fn every_command_says_of_itself_what_the_release_before_said() {
    let (golden, now) = (fs::read_to_string(HELP).unwrap(), all_help());
    let other = golden.lines().zip(now.lines()).find(|(before, now)| before != now);
    assert_eq!(other, None);
    assert!(golden == now, "one of them has more lines");
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

/// Where a command is new, or says something else on purpose.
#[test]
#[ignore = "it writes the golden file"]
fn write_the_golden_file() {
    fs::write(HELP, all_help()).unwrap();
}
