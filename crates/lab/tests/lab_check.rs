//! `seckill check` judges every rung over HTTP, as a stranger's backend: what the registry says breaks under a
//! crowd is found broken, and what it says holds is found to hold.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use futures_util::{StreamExt, stream};
use ladder::{Capability, Invariant, LockKind, RUNGS, Rung, Scenario};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin};

use crate::kept::{has_lock_of, lab};
use crate::serving::Serving;
use testkit::processes::{place, seckill};

/// What a crowd over HTTP can judge.
const JUDGED: [Invariant; 3] =
    [Invariant::NoOversell, Invariant::OnePerUser, Invariant::NoUndersell];
/// Scenarios that a crowd at one process plays by itself.
const PLAYED: [Scenario; 3] = [Scenario::LastOne, Scenario::DoubleClick, Scenario::Herd];
/// Rungs that are judged at once: one after the other they took longer than all other tests of the lab.
const AT_ONCE: usize = 4;
/// How often a crowd comes to a rung whose flaw is luck.
const TRIES: usize = 20;
fn names(scenarios: impl Iterator<Item = Scenario>) -> BTreeSet<&'static str> {
    let judged = scenarios.map(Scenario::invariant).filter(|it| JUDGED.contains(it));
    judged.map(Invariant::as_str).collect()
}

/// Checks what is sold at these addresses.
async fn check(place: &Path, addresses: &[String]) -> Value {
    let (file, result) = (place.join("target.toml"), place.join("result.json"));
    // Consumers may be late on a slow machine, and one whose Redis was silent tries again after half a minute.
    let text = format!(
        "preset = \"lab\"\naddresses = {addresses:?}\n[later]\nwithin = \"300s\"\n\
         [books]\nquiet = \"50ms\"\nwithin = \"300s\"\n\
         request = {{ path = \"/vouchers/{{voucher}}\" }}\nusers = \"/distinct_users\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let (file, json) = (file.to_str().unwrap(), result.to_str().unwrap());
    let arguments = ["--users", "40", "--rounds", "4", "--answer-within", "300s", "--json", json];
    let output = seckill(&["check", file]).args(arguments).output().await.unwrap();
    let text = std::fs::read_to_string(&result).unwrap_or_else(|_| panic!("{output:?}"));
    std::fs::remove_file(&result).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The promises with this verdict.
fn with<'a>(result: &'a Value, verdict: &str) -> BTreeSet<&'a str> {
    let promises = result["promises"].as_array().unwrap();
    let all = promises.iter().filter(|promise| promise["verdict"] == verdict);
    all.map(|promise| promise["promise"].as_str().unwrap()).collect()
}

/// Checks until all is found that a crowd must find, and that nothing else is. A check that can say nothing of a promise,
/// because the machine was too slow for its crowds, counts for a try.
async fn is_judged_as_claimed(rung: &Rung, addresses: &[String], must: &BTreeSet<&str>) {
    let place = place();
    let may = names(rung.breaks.iter().copied());
    let (mut found, mut last) = (BTreeSet::new(), Value::Null);
    for _ in 0..TRIES {
        last = check(place.path(), addresses).await;
        let broken = with(&last, "broken");
        assert!(broken.is_subset(&may), "{}: {last:#}", rung.id);
        found.extend(broken.into_iter().map(str::to_owned));
        let has_all = must.iter().all(|name| found.contains(*name));
        if has_all && with(&last, "unknown").is_empty() {
            return;
        }
    }
    panic!("{}: only {found:?} of {must:?}, and at last {last:#}", rung.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rung_is_judged_over_http_as_the_registry_claims() {
    let serving = Serving::begin().await;
    // A limit of the rate refuses the crowds that come behind the first, and over HTTP nobody draws.
    let judged = |rung: &&Rung| !rung.can(Capability::Rate) && !rung.can(Capability::Draw);
    let rungs = RUNGS.iter().filter(judged).filter(|rung| has_lock_of(rung));
    stream::iter(rungs)
        .for_each_concurrent(AT_ONCE, async |rung| {
            let played = rung.breaks.iter().copied().filter(|scenario| PLAYED.contains(scenario));
            let address = format!("{}/lab/{}", serving.base, rung.id);
            is_judged_as_claimed(rung, &[address], &names(played)).await;
        })
        .await;
}

/// A process of the lab that sells by one rung, as `lab rush` starts it.
async fn node(plan: &Value) -> (String, Child, ChildStdin) {
    let mut child = seckill(&["lab", "node"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{plan}\n").as_bytes()).await.unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let report: Value = serde_json::from_str(&line).unwrap();
    (report["ready"].as_str().unwrap_or_else(|| panic!("{line}")).to_owned(), child, stdin)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutex_in_each_process_is_found_wanting_by_double_clicks_over_two_addresses() {
    let lab = lab().await;
    for rung in RUNGS.iter().filter(|rung| rung.lock == LockKind::Mutex) {
        let plan = json!({
            "rung": rung.id, "database_url": lab.database_url(rung.tables).unwrap(),
            "redis_urls": [], "zookeeper": null, "key_prefix": lab.next_cell().1,
            "http": true, "consumer": false, "clock_ahead": { "secs": 0, "nanos": 0 },
        });
        let nodes = [node(&plan).await, node(&plan).await];
        let addresses = nodes.each_ref().map(|(at, ..)| format!("http://{at}/lab/{}", rung.id));
        is_judged_as_claimed(rung, &addresses, &BTreeSet::from(["one_per_user"])).await;
    }
}
