//! Arguments and variables that cannot be used: one sentence, status 2, nothing started.

#[allow(unused_imports)]
use crate::worlds::*;
use std::os::unix::ffi::OsStrExt;

use futures_util::future::join_all;

use testkit::program::{Program, Ran, finished};
use testkit::shop::world::World;

const PASSWORD: &str = "hunter2-hunter2-hunter2";

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused() {
    let wrong: [(&[&str], &str); 37] = [
        (&["sell"], "unrecognized subcommand 'sell'"),
        (&["migrate", "--force"], "unexpected argument '--force'"),
        (&["migrate", "now"], "unexpected argument 'now'"),
        (&["serve", "--listen", "8080"], "--listen"),
        (&["serve", "--listen", "localhost:8080"], "--listen"),
        (&["serve", "--listen", "127.0.0.1:65536"], "--listen"),
        (
            &["serve", "--strategy", "lucky"],
            "there is no strategy \"lucky\"; there are: locked, group-commit",
        ),
        (&["serve", "--strategy", ""], "there is no strategy"),
        (&["serve", "--admin-phones", "13900000001,nobody"], "--admin-phones"),
        (&["serve", "--trusted-proxies", "10.0.0.0/33"], "--trusted-proxies"),
        (
            &["serve", "--login-limits", "codes-per-mobile=5/10m"],
            "there is no login limit \"codes-per-mobile\"; there are: codes-per-phone,",
        ),
        (&["serve", "--login-limits", "codes-per-phone=5"], "not of the form name=count/duration"),
        (&["serve", "--data-dir", ""], "--data-dir"),
        (&["demo", "--stock=-1"], "--stock"),
        (&["demo", "--users", "0"], "--users"),
        (&["demo", "--nodes", "two"], "--nodes"),
        (&["demo", "--vouchers", "257"], "--vouchers"),
        (&["demo", "--vouchers", "5", "--users", "4"], "there must be a buyer for each"),
        (&["serve", "--drain-delay", "6m"], "it must be at most 5m"),
        (&["tokens", "--users", "0", "--out", "t.csv"], "--users"),
        (&["tokens", "--users", "1"], "--out"),
        (&["voucher", "add", "--title", "t", "--stock", "2147483648"], "--stock"),
        (&["voucher", "add", "--title", "t", "--stock", "1", "--begin", "tomorrow"], "--begin"),
        (&["audit", "--voucher", "0"], "--voucher"),
        (&["voucher", "add", "--title", "t", "--stock", "1", "--price", "-1"], "price must be 0"),
        (
            &["voucher", "add", "--title", "t", "--stock", "1", "--pay-within", "1500ms"],
            "whole seconds",
        ),
        (&["voucher", "add", "--title", "t", "--stock", "1", "--pay-within", "31days"], "30 days"),
        (&["voucher", "edit", "1"], "say what to change"),
        (&["voucher", "edit", "1", "--price", "1000000000001"], "price must be 0"),
        (&["voucher", "edit", "x", "--price", "1"], "<ID>"),
        (&["voucher", "restock", "1"], "--add"),
        (&["voucher", "restock", "1", "--add", "0"], "--add"),
        (&["voucher", "restock", "1", "--add", "1", "--to", "2"], "--to"),
        (&["voucher", "pause"], "<ID>"),
        (&["orders", "export", "--status", "gone"], "there are: unpaid, paid"),
        (&["orders", "export", "--format", "xml"], "--format"),
        (&["serve", "--payments", "cash"], "--payments"),
    ];
    for (arguments, words) in wrong {
        Program::alone().run(arguments).await.refused(2, words);
    }
}

#[tokio::test]
async fn variables_that_make_no_sense_are_refused() {
    let wrong = [
        ("DATABASE_URL", "", "--database-url"),
        ("REDIS_URL", "", "--redis-url"),
        ("SECKILL_SECRET", "", "--secret"),
        ("SECKILL_SECRET", "fifteen bytes..", "at least 16 bytes"),
        ("SECKILL_LISTEN", "", "--listen"),
        ("SECKILL_LISTEN", "here", "--listen"),
        ("SECKILL_STRATEGY", "lucky", "there is no strategy"),
        ("SECKILL_DATA_DIR", "", "--data-dir"),
        ("SECKILL_ADMIN_PHONES", "139", "--admin-phones"),
        ("SECKILL_TRUSTED_PROXIES", "everybody", "--trusted-proxies"),
        ("SECKILL_SMS", "", "--sms"),
        ("SECKILL_SMS", "carrier-pigeon", "--sms"),
        ("SECKILL_SMS", "http", "SECKILL_SMS_URL is required with SECKILL_SMS=http"),
        ("SECKILL_SMS_URL", "ftp://sms.example", "it must begin with http:// or https://"),
        ("SECKILL_SMS_URL", "https://sms.example", "set SECKILL_SMS=http"),
        ("SECKILL_SMS_SECRET", "fifteen bytes..", "at least 16 bytes"),
        ("SECKILL_PAYMENTS", "", "--payments"),
        ("SECKILL_PAYMENTS", "http", "SECKILL_PAYMENTS_URL is required with SECKILL_PAYMENTS=http"),
        ("SECKILL_PAYMENTS_URL", "https://pay.example", "set SECKILL_PAYMENTS=http"),
        ("SECKILL_PAYMENTS_URL", "pay.example", "--payments-url"),
        ("SECKILL_PAYMENTS_SECRET", "fifteen bytes..", "at least 16 bytes"),
        ("SECKILL_LOGIN_LIMITS", "codes-per-phone=0/10m", "--login-limits"),
        ("RUST_LOG", "a=b=c", "RUST_LOG is malformed"),
        ("SECKILL_LOG", "xml", "SECKILL_LOG is text or json, not \"xml\""),
        ("SECKILL_KEEP_ALIVE", "500ms", "from 1s to 1h"),
        (
            "SECKILL_ALLOWED_ORIGINS",
            "https://shop.example/",
            "is no origin like https://shop.example",
        ),
        ("RUST_LOG", "info,seckill=loud", "RUST_LOG is malformed"),
    ];
    for (name, value, words) in wrong {
        Program::alone().with(name, value).run(&["serve"]).await.refused(2, words);
    }
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
async fn a_url_that_makes_no_sense_is_refused_without_its_password() {
    let wrong = [
        ("DATABASE_URL", format!("mysql://u:{PASSWORD}@h/d")),
        ("DATABASE_URL", format!("postgres://u:{PASSWORD}@h:port/d")),
        ("DATABASE_URL", format!("postgres://u:{PASSWORD}@h:65536/d")),
        ("DATABASE_URL", format!("postgres://u:{PASSWORD}@/d?host=\n")),
        ("DATABASE_URL", format!("u:{PASSWORD}@h/d")),
        ("REDIS_URL", format!("http://:{PASSWORD}@h")),
        ("REDIS_URL", format!("redis://:{PASSWORD}@h:port")),
        ("REDIS_URL", format!("redis://:{PASSWORD}@h/database")),
        ("REDIS_URL", format!(":{PASSWORD}@h")),
        ("REDIS_URL", format!("redis+sentinel://:{PASSWORD}@h:26379")),
        ("REDIS_URL", format!("redis+sentinel://:{PASSWORD}@h/name")),
        ("REDIS_URL", format!("redis+cluster://:{PASSWORD}@h:7000,h")),
        ("REDIS_URL", format!("redis+cluster://:{PASSWORD}@h:7000/1")),
    ];
    for (name, url) in wrong {
        let flag = if name == "DATABASE_URL" { "--database-url" } else { "--redis-url" };
        let by_variable = Program::alone().with(name, &url).run(&["migrate"]).await;
        for ran in [by_variable, Program::alone().run(&["migrate", flag, &url]).await] {
            ran.refused(2, flag);
            assert!(!ran.stderr.contains(PASSWORD), "{ran:?}");
        }
    }
    let short = &PASSWORD[..12];
    let ran = Program::alone().with("SECKILL_SECRET", short).run(&["serve"]).await;
    ran.refused(2, "at least 16 bytes");
    assert!(!ran.stderr.contains(short), "{ran:?}");
}

#[tokio::test]
async fn a_named_database_needs_a_named_secret() {
    let program = Program::alone().with("DATABASE_URL", "postgres://u@127.0.0.1:1/d");
    for arguments in [&["serve"][..], &["tokens", "--users", "1", "--out", "t.csv"]] {
        program.run(arguments).await.refused(2, "SECKILL_SECRET is required with DATABASE_URL");
    }
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
