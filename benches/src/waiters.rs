//! Very many waiters in one client: what they cost Redis and this process.
//!
//! Each measurement is a process of its own: memory that a former one gave back to the
//! allocator would be found free by the next, which would then seem to need none.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::contender::{Contender, Ours};
use crate::server;

/// The hidden subcommand that measures once.
pub const SUBCOMMAND: &str = "waiters-once";

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was found.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Found {
    /// How many waited.
    pub waiters: usize,
    /// For how many names.
    pub names: usize,
    /// Connections of the client while all waited, as Redis counts them.
    pub connections_open: u64,
    /// Connections that the client ever made, by the same count.
    pub connections_made: u64,
    /// Channels that somebody listens to while all waited.
    pub channels: usize,
    /// What all wait cost in resident memory, shared among them: the task, the name and all
    /// that the lock keeps.
    pub bytes_per_waiter: f64,
    /// From the first waiter's start until all wait.
    pub lined_up_ms: f64,
    /// From the first release until all have entered and left.
    pub through_ms: f64,
}

/// Measures in a new process of this program.
///
/// # Errors
/// When that fails.
pub async fn measure(url: &str, waiters: usize, names: usize) -> anyhow::Result<Found> {
    let output = tokio::process::Command::new(std::env::current_exe()?)
        .args([SUBCOMMAND, "--url", url])
        .args(["--waiters", &waiters.to_string(), "--names", &names.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .await?;
    ensure!(output.status.success(), "the process with {waiters} waiters: {}", output.status);
    serde_json::from_slice(&output.stdout).context("what the process with the waiters said")
}

/// Measures in this process.
///
/// # Errors
/// Those of the lock and of Redis, and when the waiters are not all there in a minute.
pub async fn measure_here(url: &str, waiters: usize, names: usize) -> anyhow::Result<Found> {
    let mut aside = server::aside(url).await?;
    let made_before = server::info(&mut aside, "stats", "total_connections_received").await?;

    let ours = Ours::connect(url).await?;
    let held_name = |number: usize| format!("waiters:{number:04}");
    let mut guards = Vec::new();
    for number in 0..names {
        guards.push(ours.acquire(&held_name(number)).await?);
    }

    let misses_before = misses(&mut aside).await?;
    let resident_before = resident_bytes()?;
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..waiters {
        let (ours, name) = (ours.clone(), held_name(number % names));
        tasks.spawn(async move { Ours::release(ours.acquire(&name).await?).await });
    }
    // Each of them tries once and stands in line; the first of each line tries once more,
    // when it is known to be heard.
    let tries = misses_before + (waiters + names) as u64;
    while misses(&mut aside).await? < tries {
        ensure!(begun.elapsed() < PATIENCE, "not all waiters are there yet");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let lined_up = begun.elapsed();
    // The last answers are on their way, and the last waiters not asleep yet.
    tokio::time::sleep(Duration::from_millis(300)).await;

    let resident = resident_bytes()?.saturating_sub(resident_before);
    let channels: Vec<String> =
        redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut aside).await?;
    let open = younger_connections(&mut aside).await?;

    let begun = Instant::now();
    for guard in guards {
        tasks.spawn(Ours::release(guard));
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let through = begun.elapsed();
    let made = server::info(&mut aside, "stats", "total_connections_received").await?;
    Ok(Found {
        waiters,
        names,
        connections_open: open,
        connections_made: made.saturating_sub(made_before),
        channels: channels.len(),
        bytes_per_waiter: resident as f64 / waiters as f64,
        lined_up_ms: lined_up.as_secs_f64() * 1000.0,
        through_ms: through.as_secs_f64() * 1000.0,
    })
}

/// How many open connections are younger than `aside`: nobody but the client connects.
async fn younger_connections(aside: &mut MultiplexedConnection) -> anyhow::Result<u64> {
    let own: u64 = redis::cmd("CLIENT").arg("ID").query_async(aside).await?;
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(aside).await?;
    let ids = list.lines().filter_map(|line| line.strip_prefix("id=")?.split(' ').next());
    let ids: Vec<u64> = ids.map(str::parse).collect::<Result<_, _>>()?;
    Ok(ids.iter().filter(|id| **id > own).count() as u64)
}

/// How many tries found the lock held since Redis started: each then asks for how long yet.
async fn misses(aside: &mut MultiplexedConnection) -> anyhow::Result<u64> {
    let line = server::info_text(aside, "commandstats", "cmdstat_pttl").await.unwrap_or_default();
    let calls = line.split(',').find_map(|part| part.strip_prefix("calls="));
    // Not in the list before the first.
    calls.map_or(Ok(0), |calls| calls.parse().context("the calls of pttl"))
}

/// Of this process. Linux only; elsewhere there is no such file, and no figure.
fn resident_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
    Ok(kilobytes.parse::<u64>()? * 1024)
}
