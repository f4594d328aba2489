//! Commands that are ended in the middle leave nothing behind.

use std::collections::BTreeSet;
use std::process::Stdio;

use futures_util::{StreamExt, stream};
use nix::sys::signal::Signal::{self, SIGINT, SIGKILL, SIGTERM};
use tokio::io::{AsyncBufReadExt, BufReader};

use testkit::processes::{DEADLINE, descendants_of, is_alive, living_in, place, seckill, send};
use testkit::wait::eventually;

/// Too large to end soon, with the lab's server beside it: two nodes, the lab, the crowd, the supervisor and both
/// servers at least.
const DEMO: &str = "demo --stock 20000 --users 20000 --against r01";
const WATCHED: &str = "demo --stock 20000 --users 20000 --listen 127.0.0.1:0";
const CEILING: &str = "ceiling --only refusals --rounds 100 --duration 1s";

/// A command, a line that it has said in the middle, a program below it, how many there are, and how it ends.
type Ended = (&'static str, &'static str, &'static str, usize, Signal, Option<i32>);

const ENDED: [Ended; 6] = [
    (DEMO, "The rush", "redis-server", 7, SIGINT, Some(130)),
    (DEMO, "The rush", "redis-server", 7, SIGTERM, Some(130)),
    (DEMO, "The rush", "redis-server", 7, SIGKILL, None),
    (WATCHED, "Board: ", "redis-server", 3, SIGINT, Some(130)),
    (CEILING, "", "wrk", 3, SIGINT, Some(130)),
    (CEILING, "", "wrk", 3, SIGKILL, None),
];

async fn ended_in_the_middle((line, begins, program, processes, signal, status): Ended) {
    let place = place();
    let mut command = seckill(&line.split(' ').collect::<Vec<_>>());
    command.env("TMPDIR", place.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let pid = child.id().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(said) = lines.next_line().await.unwrap() {
        if said.starts_with(begins) {
            break;
        }
    }
    // Reads on, so that nobody is ended by a pipe without a reader.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let mut started = BTreeSet::new();
    eventually("it is in the middle", async || {
        let below = descendants_of(pid);
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm"));
        let runs = below.iter().any(|pid| name(pid).is_ok_and(|name| name.trim() == program));
        started.extend(below);
        runs && started.len() >= processes
    })
    .await;
    assert!(child.try_wait().unwrap().is_none(), "{line} was over too soon");

    send(pid, signal);
    let ended = tokio::time::timeout(DEADLINE, child.wait()).await.unwrap().unwrap();
    assert_eq!(ended.code(), status, "{line}: {signal}");
    eventually("all that it started is gone", async || {
        started.iter().all(|pid| !is_alive(*pid)) && living_in(place.path()).is_empty()
    })
    .await;
    // A ceiling is measured in directories of its own, which a kill leaves.
    let is_empty = async || std::fs::read_dir(place.path()).unwrap().count() == 0;
    eventually("no directory is left", async || line == CEILING || is_empty().await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(target_os = "linux")]
async fn what_is_interrupted_told_to_end_or_killed_leaves_nothing_behind() {
    stream::iter(ENDED.map(ended_in_the_middle)).buffer_unordered(2).collect::<()>().await;
}
