//! The servers that the lab kills, pauses, restarts and cuts off.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod mariadb;
mod proxy;
mod redis_node;
mod zookeeper;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use faults::{MariaDbNode, RedisNode, ZooKeeperNode};

use testkit::processes::is_alive;
use testkit::wait::eventually;

/// Not a test of its own: what `a_killed_lab…` starts, to kill it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a process for another test to kill"]
async fn be_a_lab() {
    // From a task of its own, the thread of which is not that of the process.
    let node = tokio::spawn(RedisNode::start(&[])).await.unwrap().unwrap();
    let zookeeper = ZooKeeperNode::start().await;
    let mariadb = MariaDbNode::start().await;
    let mut pids = vec![node.process.pid().unwrap()];
    pids.extend(zookeeper.iter().filter_map(|node| node.process.pid()));
    pids.extend(mariadb.iter().filter_map(|node| node.process.pid()));
    println!("\nLAB {}", serde_json::to_string(&pids).unwrap());
    // Until it is killed, or its standard input is closed.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_killed_lab_takes_its_servers_along() {
    let place = tempfile::tempdir().unwrap();
    let mut lab = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "be_a_lab", "--ignored", "--nocapture"])
        // What it leaves behind.
        .env("TMPDIR", place.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(lab.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find_map(|line| line.strip_prefix("LAB ").map(str::to_owned)).unwrap();
    let pids: Vec<u32> = serde_json::from_str(&line).unwrap();
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    lab.kill().unwrap();
    lab.wait().unwrap();
    for pid in pids {
        eventually("the server is gone", async || !is_alive(pid)).await;
    }
}
