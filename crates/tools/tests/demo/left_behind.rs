//! Demos that are ended in the middle leave nothing behind.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};

use testkit::processes::{DEADLINE, descendants_of, is_alive, living_in, place, seckill, send};
use testkit::wait::eventually;

/// Starts a demo too large to end soon, sends `signal` in the middle of its rush, and waits
/// until all that it had started is gone.
async fn ended_in_the_middle(place: &Path, signal: Signal) -> ExitStatus {
    // With the lab's server beside it.
    let mut child = seckill(&["demo", "--stock", "20000", "--users", "20000", "--against", "r01"])
        .env("TMPDIR", place)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.starts_with("The rush") {
            break;
        }
    }
    // Reads on, so that nobody is ended by a pipe without a reader.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    // Two nodes, the lab, the crowd, the supervisor and both servers at least.
    let mut started = BTreeSet::new();
    eventually("the rush is under way", async || {
        started.extend(descendants_of(pid));
        started.len() >= 7
    })
    .await;
    assert!(living_in(place).len() >= 7, "{:?}", living_in(place));
    assert!(child.try_wait().unwrap().is_none(), "the demo was over too soon");

    send(pid, signal);
    let ended = tokio::time::timeout(DEADLINE, child.wait()).await.unwrap().unwrap();
    eventually("all that it started is gone", async || {
        started.iter().all(|pid| !is_alive(*pid)) && living_in(place).is_empty()
    })
    .await;
    eventually("no directory is left", async || std::fs::read_dir(place).unwrap().count() == 0)
        .await;
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_demo_leaves_nothing_behind() {
    let place = place();
    let ended = ended_in_the_middle(place.path(), Signal::SIGINT).await;
    assert_eq!(ended.code(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_demo_leaves_nothing_behind() {
    let place = place();
    let ended = ended_in_the_middle(place.path(), Signal::SIGKILL).await;
    assert_eq!(ended.code(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demo_told_to_end_leaves_nothing_behind() {
    let place = place();
    let ended = ended_in_the_middle(place.path(), Signal::SIGTERM).await;
    assert!(!ended.success());
}
