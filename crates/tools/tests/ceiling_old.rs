//! `seckill ceiling`, the binary: what it tells is what it found, and what it found is in the
//! books. How fast anything is nobody asks here.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use testkit::processes::{DEADLINE, descendants_of, is_alive, living_in, place, seckill, send};
use testkit::wait::eventually;
use testkit::program::Program;
use testkit::raw_http::{Raw, purchase_head};
use testkit::shop::world::World;

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

/// The figures of one measurement in the only round.
fn figures<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    let measurement = list(&report["measurements"]).iter().find(|it| it["name"] == name);
    measurement.map_or(&[], |measurement| list(&measurement["figures"]))
}

/// What is void on a machine whose temporary directory is in memory, which is none of ours.
fn objections(report: &Value) -> Vec<&Value> {
    let ours = |why: &&Value| !why.as_str().unwrap().contains("(tmpfs)");
    list(&report["void"]).iter().filter(ours).collect()
}

fn assert_measured(report: &Value) {
    for measurement in list(&report["measurements"]) {
        let name = measurement["name"].as_str().unwrap();
        let figures = list(&measurement["figures"]);
        let compared = ["postgresql_hot_row/8", "group-commit/orders/256"];
        assert_eq!(figures.len(), 1 + usize::from(compared.contains(&name)), "{measurement}");
        let values: Vec<f64> = figures.iter().map(|figure| number(&figure["value"])).collect();
        let median = values.iter().sum::<f64>() / values.len() as f64;
        assert!((number(&measurement["spread"]["median"]) - median).abs() < 1e-9, "{measurement}");
        let places: BTreeSet<u64> = figures.iter().map(|figure| count(&figure["place"])).collect();
        assert_eq!(places.len(), figures.len(), "{measurement}");
        for figure in figures {
            assert_eq!(figure["round"], 1, "{measurement}");
            assert_figure(measurement, name, figure);
        }
    }
}

fn assert_figure(measurement: &Value, name: &str, figure: &Value) {
    // A sale may answer nobody within so short a time; a ceiling that is none is a defect.
    let is_ceiling = !name.starts_with("group-commit/");
    assert!(number(&figure["value"]) > 0.0 || !is_ceiling, "{measurement}");
    if name.starts_with("group-commit/orders/") {
        let (confirmed, stored) = (count(&figure["confirmed"]), count(&figure["stored"]));
        assert!(confirmed > 0, "{measurement}");
        assert_eq!(stored, confirmed, "{measurement}");
        assert!(number(&figure["latency_ms"]["p99"]) >= number(&figure["latency_ms"]["p50"]));
    }
}

fn assert_shares(report: &Value) {
    let mut checked = 0;
    for share in list(&report["shares"]) {
        let of = |side: &str| share[side].as_str().map_or(&[][..], |name| figures(report, name));
        let (above, below) = (of("above"), of("below"));
        if !above.is_empty() && !below.is_empty() {
            checked += 1;
            // Of the pairs that there are it is one.
            let value = |figure: &Value| number(&figure["value"]);
            let below: Vec<f64> = below.iter().map(value).collect();
            let quotients = above.iter().flat_map(|above| below.iter().map(|it| value(above) / it));
            let told = list(&share["rounds"]);
            let may_be_none = below.contains(&0.0);
            assert!(told.len() == 1 || (told.is_empty() && may_be_none), "{share}");
            let is = |told: &Value| quotients.clone().any(|it| (it - number(told)).abs() < 1e-9);
            assert!(told.iter().all(is), "{share}");
        }
        assert_eq!(share["target"].is_null(), share["met"].is_null(), "{share}");
    }
    // Orders at three numbers of connections, refusals of five kinds, many vouchers.
    assert_eq!(checked, 3 + 5 + 1, "{report}");
    let batches = ["1", "2", "4"].map(|clients| {
        number(&figures(report, &format!("postgresql_batches/{clients}"))[0]["value"])
    });
    let best = batches.into_iter().fold(0.0, f64::max);
    let of_batches = list(&report["shares"]).iter().find(|share| {
        share["above"] == "group-commit/orders/256" && share["below"] == "postgresql_batches/best"
    });
    let told = number(&of_batches.unwrap()["rounds"][0]);
    let orders = figures(report, "group-commit/orders/256");
    assert!(orders.iter().any(|orders| (number(&orders["value"]) / best - told).abs() < 1e-9));
}

fn assert_overloaded(report: &Value) {
    let [of_strategy] = &list(&report["overloads"])[..] else { panic!("{report}") };
    assert_eq!(of_strategy["strategy"], "group-commit");
    let overload = &of_strategy["rounds"][0];
    let peak = number(&overload["peak_per_s"]);
    let phases = list(&overload["phases"]);
    let names: Vec<&str> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["half load", "overload", "half load again"]);
    for (phase, part) in phases.iter().zip([0.5, 5.0, 0.5]) {
        let planned = (peak * part).max(1.0);
        assert!((number(&phase["planned_per_s"]) - planned).abs() < 1e-6, "{phase}");
        let outcomes = phase["outcomes"].as_object().unwrap();
        assert_eq!(outcomes.values().map(count).sum::<u64>(), count(&phase["due"]), "{phase}");
        let not_sent = outcomes.get("not_sent").map_or(0, count);
        assert_eq!(count(&phase["not_sent"]), not_sent, "{phase}");
    }
    let goodput = number(&phases[1]["accepted_per_s"]);
    assert!(
        peak == 0.0 || (number(&overload["goodput_share"]) - goodput / peak).abs() < 1e-9,
        "{overload}"
    );
}

fn assert_document(markdown: &str) {
    for title in ["Conditions", "Ceilings of this machine", "5 times the peak", "Targets"] {
        assert!(markdown.contains(&format!("### {title}\n\n| ")), "{title}: {markdown}");
    }
    // All rows of a table are as wide as its head.
    let mut columns = None;
    for line in markdown.lines() {
        let cells = line.starts_with('|').then(|| line.matches('|').count());
        assert!(columns.is_none() || cells.is_none() || cells == columns, "{line}");
        columns = cells;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_run_tells_what_it_found_and_what_is_how_much_of_what() {
    let place = place();
    let file = |name: &str| place.path().join(name);
    let mut command = seckill(&["ceiling", "--repeats", "1", "--duration", "200ms"]);
    command
        .args(["--strategy", "group-commit", "--also", "overload,vouchers", "--users", "1001"])
        .args(["--half-load", "500ms", "--overload", "500ms"])
        .arg("--json")
        .arg(file("ceiling.json"))
        .arg("--markdown")
        .arg(file("ceiling.md"))
        .env("TMPDIR", place.path());
    let output = tokio::time::timeout(DEADLINE, command.output()).await.unwrap().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let json = std::fs::read_to_string(file("ceiling.json")).unwrap_or_else(|_| panic!("{told}"));
    let report: Value = serde_json::from_str(&json).unwrap();

    assert_eq!(objections(&report), [&Value::Null; 0], "{told}");
    assert_eq!(report["holds"], list(&report["void"]).is_empty());
    assert_eq!(output.status.success(), report["holds"].as_bool().unwrap(), "{told}");
    assert!(told.starts_with("1 round of "), "{told}");
    assert!(told.contains("round 1 of 1: bare handler, 64 connections: "), "{told}");
    assert_eq!(report["machine"]["durability"]["fsync"], "on");
    assert_eq!(report["stolen_percent"].is_object(), cfg!(target_os = "linux"));
    assert!(count(&report["audited"]) > 4, "{report}");
    assert_measured(&report);
    assert_shares(&report);
    assert_overloaded(&report);
    assert_document(&std::fs::read_to_string(file("ceiling.md")).unwrap());
    assert!(living_in(place.path()).is_empty());
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused() {
    let wrong: [(&[&str], &str); 10] = [
        (&["--repeats", "0"], "--repeats"),
        (&["--duration", "soon"], "--duration"),
        (&["--duration", "99ms"], "it is not between 100ms and 10m"),
        (&["--half-load", "1h"], "it is not between 100ms and 10m"),
        (&["--strategy", "lucky"], "there is no strategy \"lucky\"; there are: locked"),
        (&["--also", "everything"], "--also"),
        (&["--also", "nodes", "--full"], "--full"),
        (&["--users", "10"], "--users"),
        (&["--json", "/no/such/place/x.json"], "cannot write /no/such/place/x.json"),
        (&["--json", "-", "--markdown", "-"], "--json and --markdown name the same file"),
    ];
    for (arguments, words) in wrong {
        Program::alone().run(&[&["ceiling"], arguments].concat()).await.refused(2, words);
    }
}

/// The one line that a server says, and the server.
async fn bare() -> (std::net::SocketAddr, tokio::process::Child) {
    let mut command = seckill(&["bare"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().unwrap();
    (line.strip_prefix("listening on http://").unwrap().parse().unwrap(), child)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handler_that_does_nothing_answers_as_the_real_one_does() {
    let world = World::new().await;
    world.users(1).await;
    let voucher = world.voucher(0).await.id;
    let (bare, mut child) = bare().await;
    let mut answers = Vec::new();
    for address in [world.serve().await, bare] {
        let mut raw = Raw::connect(address).await;
        let token = world.token(1);
        raw.send(purchase_head(&token, voucher, "content-length: 0\r\n")).await;
        let answer = raw.answer().await.unwrap();
        let head = answer.head.lines().filter(|line| !line.starts_with("date: "));
        let head: BTreeSet<String> = head.map(str::to_owned).collect();
        answers.push((head, String::from_utf8(answer.body).unwrap()));
    }
    assert_eq!(answers[0], answers[1]);
    // It ends with who started it.
    drop(child.stdin.take());
    let ended = tokio::time::timeout(DEADLINE, child.wait()).await.unwrap().unwrap();
    assert!(ended.success(), "{ended}");
}

/// Sends `signal` while another's program measures, and waits until all is gone.
async fn ended_in_the_middle(place: &Path, signal: Signal) {
    let mut child = seckill(&["ceiling", "--strategy", "group-commit", "--users", "1000"])
        .args(["--duration", "10m"])
        .env("TMPDIR", place)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id().unwrap();
    let mut started = BTreeSet::new();
    eventually("another's program measures", async || {
        started.extend(descendants_of(pid));
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm"));
        started.iter().any(|pid| name(pid).is_ok_and(|name| name.starts_with("redis-benchma")))
    })
    .await;
    send(pid, signal);
    tokio::time::timeout(DEADLINE, child.wait()).await.unwrap().unwrap();
    eventually("all that it started is gone", async || {
        started.iter().all(|pid| !is_alive(*pid)) && living_in(place).is_empty()
    })
    .await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_interrupted_or_killed_leaves_nothing_behind() {
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let place = place();
        ended_in_the_middle(place.path(), signal).await;
    }
}
