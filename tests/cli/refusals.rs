//! Arguments and variables that cannot be used: one sentence, status 2, nothing started.

use std::os::unix::ffi::OsStrExt;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};

use testkit::program::{Program, Ran, finished, ran};
use testkit::shop::world::World;

/// Part of what is refused here and there, and never repeated.
const PASSWORD: &str = "hunter2";

/// A line each: what is run, and words of the sentence.
const REFUSED: &str = include_str!("refusals.txt");

#[tokio::test]
async fn arguments_and_variables_that_make_no_sense_are_refused() {
    let lines = REFUSED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let ran = lines.map(async |line| {
        let (run, words) = line.split_once(" -> ").unwrap();
        let ran = ran(run).await;
        ran.refused(2, words);
        assert!(!ran.stderr.contains(PASSWORD), "{ran:?}");
    });
    stream::iter(ran).buffer_unordered(4).collect::<()>().await;
}

#[tokio::test]
async fn a_variable_that_does_not_exist_is_ignored_and_the_nearest_one_is_named() {
    let world = World::new().await;
    // Kubernetes sets the last three for a service of this name.
    for (name, nearest) in [
        ("SECKILL_SECRTE", "SECKILL_SECRET"),
        ("SECKILL_BURTS", "SECKILL_BURST"),
        ("SECKILL_SERVICE_HOST", "SECKILL_"),
        ("SECKILL_PORT", "SECKILL_"),
        ("SECKILL_PORT_8080_TCP_ADDR", "SECKILL_"),
    ] {
        let program = Program::on(&world).with(name, "tcp://10.0.0.1:8080");
        let ran = program.run(&["voucher", "list"]).await;
        assert_eq!(ran.status, 0, "{ran:?}");
        let warning = format!("{name} is not a variable of seckill and is ignored");
        assert!(ran.stderr.contains(&warning), "{ran:?}");
        assert!(ran.stderr.contains(&format!("the nearest one is {nearest}")), "{ran:?}");
    }
}

#[tokio::test]
async fn variables_that_are_not_text_are_refused() {
    for name in ["DATABASE_URL", "REDIS_URL", "SECKILL_SECRET", "SECKILL_DATA_DIR", "RUST_LOG"] {
        let program = Program::alone();
        let mut command = program.command(&["serve"]);
        command.env(name, std::ffi::OsStr::from_bytes(b"0123456789abcdef\xff"));
        let ran = Ran::from(finished(command).await);
        ran.refused(2, "");
        assert!(!program.file("data").exists());
    }
}

#[tokio::test]
async fn a_host_with_a_line_break_is_refused_without_the_password() {
    let url = format!("postgres://u:{PASSWORD}@/d?host=\n");
    let ran = Program::alone().with("DATABASE_URL", &url).run(&["migrate"]).await;
    ran.refused(2, "--database-url");
    assert!(!ran.stderr.contains(PASSWORD), "{ran:?}");
}

#[tokio::test]
async fn stores_that_are_named_and_away_are_told_in_a_sentence_and_not_replaced() {
    let program = Program::alone()
        .with("DATABASE_URL", &format!("postgres://u:{PASSWORD}@127.0.0.1:1/d"))
        .with("REDIS_URL", &format!("redis://:{PASSWORD}@127.0.0.1:1"))
        .with("SECKILL_SECRET", "0123456789abcdef");
    let tokens = program.file("tokens.csv");
    let commands: [&[&str]; 5] = [
        &["migrate"],
        &["voucher", "list"],
        &["voucher", "add", "--title", "t", "--stock", "1"],
        &["audit"],
        &["tokens", "--users", "1", "--out", tokens.to_str().unwrap()],
    ];
    // At once: each gives the database five seconds.
    for ran in join_all(commands.map(|arguments| program.run(arguments))).await {
        ran.refused(1, "PostgreSQL is unavailable");
        assert!(!ran.stderr.contains(PASSWORD), "{ran:?}");
    }
    assert!(!tokens.exists());
}
