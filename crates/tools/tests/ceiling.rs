//! `seckill ceiling`, the binary: what it tells is what it found, and what it found is in the books. How
//! fast anything is nobody asks here.

use std::collections::BTreeSet;
use std::process::Stdio;

use child_process::ChildProcess;
use nix::sys::signal::Signal::SIGKILL;
use serde_json::Value;
use testkit::golden::assert_fields;
use testkit::processes::{living_in, place, program, seckill};
use testkit::program::Program;
use testkit::raw_http::{Raw, purchase_head};
use testkit::shop::World;
use testkit::wait::{PATIENCE, must};
use tokio::process::Command;
use tokio::time::timeout;

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// The figure of a row in the only round; `None` where there is no such row, or no such figure of it.
fn figure(report: &Value, name: &str, figure: &str) -> Option<f64> {
    let row = list(&report["rows"]).iter().find(|row| row["name"] == name)?;
    let [round] = &list(&row["rounds"])[..] else { panic!("{row}") };
    round[figure].as_f64()
}

/// What is void on a machine whose temporary directory is in memory, or that is so slow that a purchase is
/// refused, is none of ours.
fn objections(report: &Value) -> Vec<&str> {
    let void = list(&report["void"]).iter().map(|why| why.as_str().unwrap());
    let refused = "not only answers below_400";
    void.filter(|why| !why.contains("(tmpfs)") && !why.contains(refused)).collect()
}

fn assert_shares(report: &Value) {
    let shares = list(&report["shares"]);
    let mut checked = 0;
    for share in shares {
        let what = share["what"].as_str().unwrap();
        let told = share["spread"]["median"].as_f64();
        assert_eq!(share["wanted"].is_null(), share["met"].is_null(), "{share}");
        let Some((above, below)) = what.split_once(" / ") else { continue };
        let (below, unit) = match below.strip_suffix(", CPU of the server") {
            Some(below) => (below, "cpu_us_server"),
            None => (below, "per_s"),
        };
        let Some(ceiling) = figure(report, below, unit) else { continue };
        let calls = if below == "lock, the script" { 2.0 } else { 1.0 };
        let rate = figure(report, above, unit).unwrap();
        assert!((told.unwrap() - rate * calls / ceiling).abs() < 1e-9, "{share}");
        checked += 1;
    }
    // What an order and a refusal cost; the strategy, its 64 vouchers, its refusals, the lock.
    assert!(checked >= 6, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quick_run_tells_what_it_found_and_what_is_how_much_of_what() {
    let place = place();
    let file = place.path().join("ceiling.json");
    let mut command = seckill(&["ceiling", "--quick", "--connections", "64"]);
    command.arg("--json").arg(&file).env("TMPDIR", place.path());
    let output = timeout(PATIENCE * 5, command.output()).await.unwrap().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let json = std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("{told}"));
    let report: Value = serde_json::from_str(&json).unwrap();

    assert_eq!(objections(&report), [""; 0], "{told}");
    assert_eq!(report["holds"], list(&report["void"]).is_empty());
    let mut always = report.clone();
    // With k6 alone.
    let is_overload = |row: &Value| row["name"] == "group-commit, overload";
    always["rows"].as_array_mut().unwrap().retain(|row| !is_overload(row));
    // Beside other tests the server may not recover from it in time: then the figure is null.
    let is_of_overload = |share: &Value| share["what"].as_str().unwrap().contains("overload");
    always["shares"].as_array_mut().unwrap().retain(|share| !is_of_overload(share));
    assert_fields("ceiling --json", &always);
    assert_eq!(output.status.success(), report["holds"].as_bool().unwrap(), "{told}");
    assert!(told.contains("round 1: do-nothing handler: "), "{told}");
    assert_eq!(report["machine"]["fsync"], "on");
    assert!(list(&report["machine"]["tools"])[0].as_str().unwrap().starts_with("wrk "));
    // Without k6 there is no overload, and it is said.
    let overload = figure(&report, "group-commit, overload", "per_s");
    let is_skipped =
        list(&report["skipped"]).iter().any(|why| why.as_str().unwrap().contains("k6"));
    assert_eq!(overload.is_none(), is_skipped, "{told}");
    for name in ["lock, the script", "lock, pairs", "hot row, 8 clients", "do-nothing handler"] {
        assert!(figure(&report, name, "per_s").unwrap() > 0.0, "{name}");
    }
    for name in ["group-commit", "group-commit, 64 vouchers", "group-commit, 1000 connections"] {
        let of = |what| figure(&report, name, what).unwrap_or_else(|| panic!("{name}: {what}"));
        assert!(of("stored") > 0.0 && of("stored") >= of("confirmed"), "{name}: {report}");
        // Beside other tests a thousand buyers may all be answered after the one second that is measured.
        if name.ends_with("1000 connections") && of("confirmed") == 0.0 {
            continue;
        }
        assert!(of("confirmed") > 0.0, "{name}: {report}");
        assert!(of("p99_ms") >= of("p50_ms"), "{name}");
        assert!(of("memory_mb") > 1.0, "{name}");
        for process in ["cpu_us_server", "cpu_us_postgresql", "cpu_us_redis"] {
            assert!(of(process) > 0.0, "{name}");
        }
    }
    // A refusal from memory asks neither of the two.
    assert!(figure(&report, "do-nothing handler", "cpu_us_server").unwrap() > 0.0);
    assert_shares(&report);
    assert!(living_in(place.path()).is_empty());
}

/// With an empty search path, where the other two are found in the places of packages.
#[tokio::test]
async fn without_wrk_it_says_what_installs_it() {
    let ran = Program::alone().with("PATH", "/no/such/place").run(&["ceiling"]).await;
    ran.refused(2, "`make bench` installs it");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handler_that_does_nothing_answers_as_the_real_one_does() {
    let world = World::new().await;
    world.users(1).await;
    let voucher = world.voucher(0).await.id;
    let mut command = Command::new(program("seckill-tools"));
    command.arg("bare").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut bare = ChildProcess::start(command, SIGKILL).unwrap();
    let address = |line: &str| line.strip_prefix("listening on http://")?.parse().ok();
    let address = bare.ready(PATIENCE, address).await.expect("it listens");
    let mut answers = Vec::new();
    for address in [world.serve().await, address] {
        let mut raw = Raw::connect(address).await;
        let token = world.token(1);
        let headers = format!("content-length: 0\r\nx-request-id: {}\r\n", "0".repeat(32));
        raw.send(purchase_head(&token, voucher, &headers)).await;
        let answer = raw.answer().await.unwrap();
        let head = answer.head.lines().filter(|line| !line.starts_with("date: "));
        let head: BTreeSet<String> = head.map(str::to_owned).collect();
        answers.push((head, String::from_utf8(answer.body).unwrap()));
    }
    assert_eq!(answers[0], answers[1]);
    // It ends with who started it.
    drop(bare.pipes());
    let ended = must("it ends", bare.wait()).await.unwrap();
    assert!(ended.success(), "{ended}");
}
