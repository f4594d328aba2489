//! The commands: what they do, and what they leave on standard output.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use nix::unistd::{User, geteuid};
use seckill::model::{Clock, SystemClock, UserId};
use seckill::store::users;

use testkit::program::{Program, Ran, finished};
use testkit::shop::api_client::Api;
use testkit::shop::world::World;
use testkit::wait::PATIENCE;
use testkit::wait::eventually;

/// Rows of a CSV of tokens.
fn tokens_in(path: &std::path::Path) -> Vec<(i64, String)> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    assert_eq!(reader.headers().unwrap(), vec!["user_id", "token"]);
    reader.deserialize().map(Result::unwrap).collect()
}

/// A shop by the clock of the machine, and the program on its stores.
async fn at_present() -> (Api, Program) {
    let api = Api::new().await;
    api.world.at_present().await;
    let program = Program::on(&api.world);
    (api, program)
}

/// Who logs in for the first time.
async fn person(api: &Api) -> UserId {
    let (pool, now) = (api.world.database.pool(), SystemClock.now());
    users::find_or_create(pool, "13800138000", "n", now).await.unwrap().id
}

/// Each token is that of its user.
async fn are_good(api: &Api, rows: &[(i64, String)]) {
    for (user, token) in rows {
        let me = api.call("GET", "/api/me", token).await;
        assert_eq!(me.is(200).text_of("id"), user.to_string());
    }
}

#[tokio::test]
async fn a_command_that_lacks_words_explains_itself() {
    let program = Program::alone();
    // What each says of itself is in `crates/play/tests/golden`.
    let version = program.says(&["--version"]).await;
    assert_eq!(version, format!("seckill {}\n", env!("CARGO_PKG_VERSION")));
    for incomplete in [vec![], vec!["voucher"]] {
        let ran = program.run(&incomplete).await;
        assert!(ran.status == 2 && ran.stderr.contains("Usage:"), "{ran:?}");
    }
}

#[tokio::test]
async fn a_voucher_is_added_and_listed() {
    let world = World::new().await;
    let program = Program::on(&world);
    let add = async |more: &[&str]| {
        let said =
            program.says(&[&["voucher", "add", "--title", "100 for 80"], more].concat()).await;
        let id: i64 = said.strip_suffix('\n').unwrap().parse().unwrap();
        id
    };
    let (past, future) = ("2020-01-01T00:00:00+08:00", "2999-01-01T00:00:00Z");
    let ids = [
        add(&["--stock", "7"]).await,
        add(&["--stock", "0"]).await,
        add(&["--stock", "1", "--begin", future]).await,
        add(&["--stock", "2147483647", "--begin", past, "--end", "2020-01-02T00:00:00Z"]).await,
    ];
    let list = program.says(&["voucher", "list"]).await;
    let words: Vec<Vec<&str>> =
        list.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let statuses = ["on_sale", "sold_out", "upcoming", "ended"];
    assert_eq!(words.len(), 4, "{list}");
    for (row, (id, status)) in words.iter().rev().zip(ids.iter().zip(statuses)) {
        assert_eq!(row[..2], [id.to_string().as_str(), status], "{list}");
    }
    assert!(list.contains("2019-12-31T16:00:00Z"), "{list}");
    let api = Api::of(world).await;
    assert_eq!(api.get(&format!("/api/vouchers/{}", ids[0])).await.body["initial_stock"], 7);
}

#[tokio::test]
async fn a_voucher_is_edited_paused_and_restocked_and_every_server_sells_by_it() {
    let world = World::new().await;
    world.at_present().await;
    world.users(3).await;
    let program = Program::on(&world);
    let add = ["voucher", "add", "--title", "t", "--stock", "1", "--price", "8000"];
    let id = program.says(&add).await.trim().to_owned();
    let api = Api::of(world).await;
    api.buy(1, &id).await.is(201);
    let change = async |command: &str, more: &[&str]| {
        program.run(&[&["voucher", command, &id], more].concat()).await
    };
    assert_eq!(change("pause", &[]).await.status, 0);
    eventually("the sale is paused", async || api.buy(2, &id).await.body["code"] == "sale_paused")
        .await;
    // Whoever has an order is told so before that.
    api.buy(1, &id).await.problem(409, "already_bought");
    assert_eq!(change("resume", &[]).await.status, 0);
    eventually("the sale goes on", async || api.buy(2, &id).await.body["code"] == "sold_out").await;
    let edited = ["--price", "0", "--title", "new", "--pay-within", "1m", "--terms", "none"];
    let ran = change("edit", &edited).await;
    assert!(ran.status == 0 && ran.stdout.contains("new"), "{ran:?}");
    let ran = change("restock", &["--add", "1"]).await;
    assert!(ran.status == 0 && ran.stdout.contains("on_sale"), "{ran:?}");
    eventually("one more is sold, by the new price", async || {
        let answer = api.buy(2, &id).await;
        answer.status == 201 && answer.body["amount"] == 0
    })
    .await;
    let path = format!("/api/vouchers/{id}");
    let shown = api.get(&path).await;
    assert_eq!((&shown.body["pay_within_s"], &shown.body["terms"]), (&60.into(), &"none".into()));
    // Two are sold: none of them can be taken away.
    for (wrong, words) in [
        (["--take", "1"], "stock_is_sold"),
        (["--to", "1"], "stock_is_sold"),
        (["--take", "2147483647"], "stock_is_sold"),
        (["--add", "2147483647"], "too many"),
    ] {
        change("restock", &wrong).await.refused(1, words);
    }
    assert_eq!(change("restock", &["--to", "5"]).await.status, 0);
    assert_eq!(change("restock", &["--take", "3"]).await.status, 0);
    change("edit", &["--end", "2020-01-01T00:00:00Z"])
        .await
        .refused(1, "begin_time must lie before end_time");
    let gone = ["voucher", "pause", "77"];
    program.run(&gone).await.refused(1, "voucher_not_found");
    let audit = api.world.audit().await;
    assert!(audit.holds && audit.initial_stock == 2 && audit.stock == 0, "{audit:?}");
}

/// A hyphen begins a title as well as any other character.
#[tokio::test]
async fn a_title_may_begin_with_a_hyphen() {
    let program = Program::on(&World::new().await);
    for title in ["-1", "-50% today", "-"] {
        program.says(&["voucher", "add", "--title", title, "--stock", "1"]).await;
        program.says(&["voucher", "add", &format!("--title={title}"), "--stock", "1"]).await;
    }
    let listed = program.says(&["voucher", "list"]).await;
    assert_eq!(listed.matches("-50% today").count(), 2, "{listed}");
}

#[tokio::test]
async fn tokens_work_and_a_second_run_makes_other_users() {
    let (api, program) = at_present().await;
    let (one, two) = (program.file("one.csv"), program.file("two.csv"));
    for (file, users) in [(&one, "3"), (&two, "2")] {
        program.says(&["tokens", "--users", users, "--out", file.to_str().unwrap()]).await;
    }
    let all = [tokens_in(&one), tokens_in(&two)].concat();
    let ids: Vec<i64> = all.iter().map(|(user, _)| *user).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5]);
    are_good(&api, &all).await;
    // Whoever logs in later is none of them.
    let user = person(&api).await;
    assert!(user.get() > UserId::LAST_OF_A_RANGE, "{user}");
}

#[tokio::test]
async fn tokens_for_plans_of_hm_dianping_are_bare_and_one_a_line() {
    let (api, program) = at_present().await;
    let file = program.file("tokens.txt");
    // A file that everybody may read is its owner's alone from now on.
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let tokens = ["tokens", "--users", "3", "--out", file.to_str().unwrap(), "--format"];
    program.says(&[&tokens[..], &["hmdp"]].concat()).await;
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.ends_with('\n') && !text.contains(','), "{text}");
    let rows: Vec<_> = (1..).zip(text.lines().map(str::to_owned)).collect();
    are_good(&api, &rows).await;
    assert_eq!(rows.len(), 3);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    program.run(&[&tokens[..], &["xml"]].concat()).await.refused(2, "csv");
}

#[tokio::test]
async fn tokens_may_begin_at_any_id_that_a_phone_has_room_for() {
    let (api, program) = at_present().await;
    let file = program.file("tokens.csv");
    let out = file.to_str().unwrap();
    for _ in 0..2 {
        // The second time they exist, and get new tokens.
        program.says(&["tokens", "--users", "3", "--first", "99999999997", "--out", out]).await;
        let rows = tokens_in(&file);
        are_good(&api, &rows).await;
        assert!(rows.iter().map(|row| row.0).eq(99_999_999_997..=99_999_999_999));
    }
    for (first, why) in [
        ("99999999998", "would pass id"),
        ("281474976710655", "would pass id"),
        ("281474976710656", "a person's"),
        ("9223372036854775807", "a person's"),
    ] {
        let arguments = ["tokens", "--users", "3", "--first", first, "--out", out];
        program.run(&arguments).await.refused(2, why);
    }
}

#[tokio::test]
async fn a_token_of_a_person_is_only_written_when_it_is_asked_for() {
    let (api, program) = at_present().await;
    let person = person(&api).await;
    let [id, nobody] = [person.get(), person.get() + 1].map(|id| id.to_string());
    let file = program.file("tokens.csv");
    let out = file.to_str().unwrap();
    let tokens = async |users: &str, more: &[&str]| {
        program.run(&[&["tokens", "--out", out, "--users", users], more].concat()).await
    };
    tokens("1", &["--existing"]).await.refused(2, "--first");
    tokens("1", &["--first", &id]).await.refused(2, "a person's, with a phone");
    tokens("2", &["--first", &id, "--existing"]).await.refused(2, "one at a time");
    tokens("1", &["--first", &nobody, "--existing"]).await.refused(2, "there is no user");
    assert!(!file.exists());
    assert_eq!(tokens("1", &["--first", &id, "--existing"]).await.status, 0);
    let [(user, token)] = tokens_in(&file).try_into().unwrap();
    assert_eq!(user, person.get());
    let me = api.call("GET", "/api/me", &token).await;
    assert_eq!(me.is(200).text_of("phone"), "13800138000");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_output_or_a_file_that_takes_nothing_is_told_and_is_no_panic() {
    let world = World::new().await;
    let program = Program::on(&world);
    for arguments in [
        vec!["voucher", "list"],
        vec!["voucher", "add", "--title", "t", "--stock", "1"],
        vec!["audit"],
        vec!["audit", "--json", "-"],
        vec!["migrate"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = program.command(&arguments);
        command.stdout(Stdio::from(full)).stderr(Stdio::piped());
        let child = command.spawn().unwrap().wait_with_output();
        let ran = Ran::from(tokio::time::timeout(PATIENCE, child).await.unwrap().unwrap());
        ran.refused(1, "cannot write to standard output");
    }
    for arguments in
        [&["tokens", "--users", "1", "--out", "/dev/full"][..], &["audit", "--json", "/dev/full"]]
    {
        program.run(arguments).await.refused(1, "cannot write /dev/full");
    }
}

/// As of any program in a pipe: `seckill voucher list | head -1` says nothing of it, and is no panic.
#[tokio::test]
async fn a_reader_who_has_enough_ends_the_program_without_a_word() {
    let world = World::new().await;
    let program = Program::on(&world);
    for arguments in [
        vec!["voucher", "list"],
        vec!["audit", "--json", "-"],
        vec!["orders", "export"],
        vec!["doctor"],
        // It speaks on standard error.
        vec!["demo", "--stock", "1", "--users", "1"],
    ] {
        let mut command = program.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let is_demo = arguments[0] == "demo";
        if is_demo {
            drop(child.stderr.take());
        }
        let ended =
            tokio::time::timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), said.as_str()), (Some(141), ""), "{arguments:?}");
    }
}

#[tokio::test]
async fn a_user_without_a_home_needs_none_when_the_stores_are_named() {
    let world = World::new().await;
    let program = Program::on(&world);
    let mut command = program.command(&["voucher", "list"]);
    command.env_remove("SECKILL_DATA_DIR");
    let open_program = testkit::processes::open_program("seckill");
    if geteuid().is_root() {
        let nobody = User::from_name("nobody").unwrap().unwrap();
        command = tokio::process::Command::new(&open_program.1);
        command.args(["voucher", "list"]).env_clear().current_dir("/");
        command
            .env("DATABASE_URL", "postgres://u@127.0.0.1:1/d")
            .env("REDIS_URL", "redis://127.0.0.1:1");
        command.uid(nobody.uid.as_raw()).gid(nobody.gid.as_raw());
    }
    let ran = Ran::from(finished(command).await);
    let reached_the_database = ran.status == 0 || ran.stderr.contains("PostgreSQL is unavailable");
    assert!(reached_the_database, "{ran:?}");
}
