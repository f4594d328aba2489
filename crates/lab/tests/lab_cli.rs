//! `seckill lab`, the binary: what it says, how it ends, and what it leaves behind.

use std::collections::BTreeSet;
use std::process::Stdio;

use ladder::RUNGS;
use nix::sys::signal::Signal;
use private_stores::{Server, Servers};
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::lab_isolation::{TWICE, sabotaged};
use testkit::processes::{descendants_of, is_alive, send};
use testkit::program::{Program, Ran};
use testkit::servers;
use testkit::shop::world::World;
use testkit::wait::{PATIENCE, eventually, must};

#[tokio::test]
async fn stores_that_are_away_are_told_in_a_sentence() {
    let program = Program::alone()
        .with("DATABASE_URL", "postgres://u:hunter2@127.0.0.1:1/d")
        .with("REDIS_URL", "redis://127.0.0.1:1");
    for arguments in [&["lab", "replay", "r01", "herd"][..], &["lab", "all", "r01"]] {
        let ran = program.run(arguments).await;
        ran.refused(1, "");
        assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
    }
}

#[tokio::test]
async fn the_ladder_is_listed_a_line_a_rung_and_as_json() {
    let list = Program::alone().says(&["lab", "list"]).await;
    assert_eq!(list.lines().count(), RUNGS.len() + 1, "{list}");
    let json = Program::alone().says(&["lab", "list", "--json", "-"]).await;
    let rungs: Vec<Value> = serde_json::from_str(&json).unwrap();
    for ((line, json), rung) in list.lines().skip(1).zip(&rungs).zip(RUNGS) {
        assert!(line.contains(rung.id) && line.contains(&rung.line("Idea")), "{line}");
        assert_eq!(json["rung"], rung.id);
        for key in ["idea", "holds", "breaks_when"] {
            assert!(json[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {json}");
        }
        assert_eq!(json["keeps"].as_array().unwrap().len(), rung.claims.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_tells_its_timeline_and_what_came_of_it() {
    let program = Program::on(&World::new().await);
    let one = program.says(&["lab", "replay", "r01", "last_one"]).await;
    assert!(one.contains("r01_naive  last_one: two buyers both see the last voucher"), "{one}");
    assert!(one.contains("    A      reads the stock: 1"), "{one}");
    assert!(one.contains("  no_oversell breaks, as claimed ("), "{one}");
    assert!(one.contains("2 orders for a stock of 1"), "{one}");
    assert!(one.ends_with("\n1 cell: 1 as claimed\n") && !one.contains('\u{1b}'), "{one}");
    let chinese = program.says(&["lab", "replay", "r01", "last_one", "--lang", "zh"]).await;
    assert!(chinese.contains("r01_naive  last_one：两个买家都看到最后一张券"), "{chinese}");
    assert!(chinese.contains("    A      读到库存：1"), "{chinese}");
    assert!(chinese.contains("  no_oversell 被打破，与声明相符 ("), "{chinese}");
    assert!(chinese.contains("券 1：库存 1，却有 2 张订单"), "{chinese}");
    assert!(chinese.ends_with("\n共 1 格：1 格与声明相符\n"), "{chinese}");
    let schedule = ["--from", "double_click", "--schedule", "A1 B1 A2 B2", "--lang", "zh-CN"];
    let chinese = program.says(&[&["lab", "replay", "r05a"][..], &schedule].concat()).await;
    assert!(chinese.contains("于是 one_per_user 被打破：用户 1 持有 2 张订单"), "{chinese}");
    assert!(chinese.contains("  one_per_user 被打破：用户 1 持有 2 张订单"), "{chinese}");
    let several = program.says(&["lab", "replay", "r02_row_lock"]).await;
    assert!(several.ends_with(" as claimed\n"), "{several}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_a_rung_as_text_as_json_and_as_a_page() {
    let program = Program::on(&World::new().await);
    let (json, html) = (program.file("lab.json"), program.file("lab.html"));
    let (json, html) = (json.to_str().unwrap(), html.to_str().unwrap());
    let crowd = ["--users", "60", "--stock", "10"];
    let all = ["lab", "all", "r01", "--json", json, "--html", html];
    let ran = program.run(&[&all[..], &crowd[..]].concat()).await;
    assert_eq!(ran.status, 0, "{ran:?}");
    let last = ran.stdout.lines().last().unwrap();
    assert!(last.starts_with("AS CLAIMED: ") && last.ends_with(html), "{ran:?}");
    assert!(ran.stdout.contains("double_click"), "{ran:?}");
    // A line a cell, where there is no terminal.
    assert!(ran.stderr.contains("r01_naive last_one: breaks, as claimed ("), "{ran:?}");
    assert!(!format!("{ran:?}").contains("u{1b}"), "{ran:?}");

    let written: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(written["as_claimed"], true);
    assert!(written["cells"].as_array().unwrap().iter().all(|cell| cell["rung"] == "r01_naive"));
    assert!(written["environment"]["postgresql"].is_string(), "{written}");
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("id=\"r01_naive--last_one\"") && page.ends_with("</html>\n"));

    let ran = program.run(&[&["lab", "all", "r01", "--json", "-"], &crowd[..]].concat()).await;
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(said["cells"].as_array().unwrap().len(), written["cells"].as_array().unwrap().len());
    assert!(ran.stderr.lines().last().unwrap().starts_with("AS CLAIMED: "), "{ran:?}");
}

/// The program on these servers.
pub fn on(servers: &Servers) -> Program {
    Program::alone()
        .with("DATABASE_URL", servers.database_url().unwrap())
        .with("REDIS_URL", servers.redis_url().unwrap())
}

/// Databases and keys of the lab.
async fn left_on(servers: &Servers) -> (i64, i64) {
    let mut database = PgConnection::connect(servers.database_url().unwrap()).await.unwrap();
    let databases = sqlx::query_scalar(
        "select count(*) from pg_database where datname like 'seckill\\_lab\\_%'",
    )
    .fetch_one(&mut database)
    .await
    .unwrap();
    database.close().await.unwrap();
    let redis = redis_link::Redis::new(servers.redis_url().unwrap()).unwrap();
    (databases, redis.query(&redis::cmd("DBSIZE")).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_comes_out_otherwise_is_named_and_is_an_exit_status() {
    let servers = sabotaged(TWICE).await;
    let program = on(&servers);
    let ran = program.run(&["lab", "replay", "r02", "last_one"]).await;
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(
        ran.stdout.contains("no_oversell breaks, NOT as claimed: it is claimed to hold"),
        "{ran:?}"
    );
    let summary = "\n1 cell: 0 as claimed, 1 NOT as claimed (r02_row_lock last_one)\n";
    assert!(ran.stdout.ends_with(summary), "{ran:?}");

    let ran = program.run(&["lab", "all", "r02", "--users", "60", "--stock", "10"]).await;
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.stdout.lines().last().unwrap().starts_with("NOT AS CLAIMED: "), "{ran:?}");
    let named = "r02_row_lock last_one: no_oversell breaks, NOT as claimed: it is claimed to hold (voucher 1: 2 orders for a stock of 1";
    assert!(ran.stdout.contains(named), "{ran:?}");
    assert_eq!(left_on(&servers).await.0, 0);
    servers::ended(servers).await;
}

/// The lab, once it has said a line that begins so and has started so many processes.
pub async fn in_the_middle(
    mut command: Command,
    begins: &str,
    processes: usize,
) -> (Child, BTreeSet<u32>) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while !must("it says so", lines.next_line()).await.unwrap().unwrap().starts_with(begins) {}
    // Reads on, so that nobody is ended by a pipe without a reader.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let (pid, mut started) = (child.id().unwrap(), BTreeSet::new());
    eventually("all that it starts is there", async || {
        started.extend(descendants_of(pid));
        started.len() >= processes
    })
    .await;
    assert!(child.try_wait().unwrap().is_none(), "the lab was over too soon");
    (child, started)
}

/// On the rung whose dead holder leaves a lock for ever, when that has happened.
const WITH_A_LOCK_LEFT: (&[&str], &str) =
    (&["lab", "all", "r08a", "r09"], "r08a_setnx holder_dies");

#[tokio::test(flavor = "multi_thread")]
async fn a_lab_that_is_interrupted_leaves_no_process_no_database_and_no_key() {
    let servers = servers::own().await;
    let (all, lock_left) = WITH_A_LOCK_LEFT;
    // A rush of more than is over soon has two nodes and a crowd; r15 has lock servers of its own, too.
    let r02 = ["lab", "rush", "r02_row_lock", "--users", "20000"];
    let r15 = ["lab", "rush", "r15_redlock", "--users", "20000"];
    for (arguments, begins, processes, signal) in [
        (all, lock_left, 0, Signal::SIGINT),
        (all, lock_left, 0, Signal::SIGTERM),
        (&r02, "r02_row_lock: ", 3, Signal::SIGINT),
        (&r15, "r15_redlock: ", 6, Signal::SIGTERM),
    ] {
        let command = on(&servers).command(arguments);
        let (mut child, started) = in_the_middle(command, begins, processes).await;
        let (databases, keys) = left_on(&servers).await;
        assert_eq!(databases, 2, "{arguments:?}");
        assert!(arguments != all || keys > 0, "the lock is left");
        send(child.id().unwrap(), signal);
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
        assert_eq!(ended.code(), Some(130), "{arguments:?}");
        eventually("all that it started is gone", async || {
            !started.iter().any(|pid| is_alive(*pid))
        })
        .await;
        assert_eq!(left_on(&servers).await, (0, 0), "{arguments:?} {signal}");
    }
    servers::ended(servers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_interrupt_is_the_end() {
    let servers = servers::own().await;
    let (all, lock_left) = WITH_A_LOCK_LEFT;
    let (mut child, _) = in_the_middle(on(&servers).command(all), lock_left, 0).await;
    // Nobody can be told to drop anything now.
    let postgres = servers.pid(Server::Postgres).unwrap();
    send(postgres, Signal::SIGSTOP);
    send(child.id().unwrap(), Signal::SIGINT);
    let patience = std::time::Duration::from_millis(500);
    assert!(tokio::time::timeout(patience, child.wait()).await.is_err(), "it did not tidy up");
    send(child.id().unwrap(), Signal::SIGINT);
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
    assert_eq!(ended.code(), Some(130));
    send(postgres, Signal::SIGCONT);
    servers::ended(servers).await;
}

/// A lab whose reader goes away ends as it should, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_lab_that_nobody_reads_leaves_nothing_behind() {
    let servers = servers::own().await;
    let mut command = on(&servers).command(&["lab", "replay", "r01"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    let ran = Ran::from(output);
    assert_eq!((ran.status, ran.stderr.contains("standard output")), (141, false), "{ran:?}");
    assert_eq!(left_on(&servers).await, (0, 0));
    servers::ended(servers).await;
}
