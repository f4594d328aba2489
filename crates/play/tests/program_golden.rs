//! What every command of every program says of itself, and what a shared address of the game shows, as a release has
//! them: nothing of it changes by accident.

use clap::{Command, CommandFactory};
use serde_json::{Value, json};
use testkit::golden::{answered, assert_answered, assert_file};
use url::Url;

use crate::lab_player::{Played, options};

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
    assert_file("crates/play/tests/golden/help.txt", &all_help());
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
