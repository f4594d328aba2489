//! What Redis itself can do: the same two scripts by `redis-benchmark`, a client written in C
//! that does nothing else, with 50 connections and one command in flight on each.
//!
//! The scripts and their arguments are not written down here but overheard (`MONITOR`) from
//! the lock, so that they are always what it sends. Only the names are replaced, by random
//! ones: an acquire must find its lock free, and a release must find one to free. So the
//! first runs on fresh names, and the second on locks that a script made before, of which
//! there are so many that few are drawn twice.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use futures_util::{Stream, StreamExt};
use redis::aio::MultiplexedConnection;
use serde::Serialize;
use tokio::process::Command;

use crate::contender::{Contender, Ours};
use crate::server;

/// As many as there are tasks in the measurement it is compared with.
pub const CONNECTIONS: u32 = 50;
/// Where redis-benchmark puts a random number, with twelve digits.
const RANDOM: &str = "__rand_int__";
/// Fresh enough: a hundred thousand out of two thousand million.
const FRESH_NAMES: u64 = 2_000_000_000;
/// Locks made by one call of the script that makes them.
const BATCH: u64 = 10_000;

/// How much to send.
#[derive(Debug, Clone, Copy)]
pub struct Amount {
    /// Commands in the measurement of acquires.
    pub acquires: u64,
    /// Commands in the measurement of releases.
    pub releases: u64,
    /// Locks that are held before it.
    pub held: u64,
}

/// What redis-benchmark found, per second.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Ceiling {
    /// Acquires alone.
    pub acquires: f64,
    /// Releases alone.
    pub releases: f64,
    /// Releases that found a lock to free.
    pub freed_share: f64,
    /// One after the other.
    pub pairs: f64,
}

/// The two commands of an exclusive owner without a fence, as the lock sends them, with the
/// name replaced.
#[derive(Debug)]
pub struct Scripts {
    acquire: Vec<String>,
    release: Vec<String>,
}

impl Scripts {
    /// Overhears one pair of the lock. Nobody else may run scripts meanwhile.
    ///
    /// # Errors
    /// Those of Redis and the lock, and when what is heard is not what we know.
    pub async fn overhear(url: &str) -> anyhow::Result<Self> {
        const NAME: &str = "overheard";
        let ours = Ours::connect(url).await?;
        // Once before anybody listens: the first of all sends each script whole.
        Ours::release(ours.acquire(NAME).await?).await?;
        let monitor = redis::Client::open(url)?.get_async_monitor().await?;
        let mut commands = std::pin::pin!(monitor.into_on_message::<String>());
        Ours::release(ours.acquire(NAME).await?).await?;
        let acquire = next_script(&mut commands, NAME).await?;
        let release = next_script(&mut commands, NAME).await?;
        ensure!(acquire != release, "one command twice: {acquire:?}");
        Ok(Self { acquire, release })
    }

    /// Runs both.
    ///
    /// # Errors
    /// When redis-benchmark is missing or fails, and those of Redis.
    pub async fn measure(&self, url: &str, amount: Amount) -> anyhow::Result<Ceiling> {
        let socket = server::socket(url)?;
        let mut aside = server::aside(url).await?;
        empty(&mut aside).await?;
        let acquires = benchmark(&socket, &self.acquire, amount.acquires, FRESH_NAMES).await?;
        let taken: u64 = redis::cmd("DBSIZE").query_async(&mut aside).await?;
        ensure!(
            taken * 100 >= amount.acquires * 99,
            "{} acquires took only {taken} locks",
            amount.acquires
        );
        empty(&mut aside).await?;
        self.hold(&mut aside, amount.held).await?;
        let releases = benchmark(&socket, &self.release, amount.releases, amount.held).await?;
        let left: u64 = redis::cmd("DBSIZE").query_async(&mut aside).await?;
        empty(&mut aside).await?;
        Ok(Ceiling {
            acquires,
            releases,
            freed_share: amount.held.saturating_sub(left) as f64 / amount.releases as f64,
            pairs: 1.0 / (1.0 / acquires + 1.0 / releases),
        })
    }

    /// Makes the locks that `release` is to free: all of the owner of the overheard pair.
    async fn hold(&self, aside: &mut MultiplexedConnection, count: u64) -> anyhow::Result<()> {
        // EVALSHA, the hash, the number of keys, the key; then the owner.
        let [_, _, _, name, owner, ..] = self.release.as_slice() else {
            bail!("a release of another kind: {:?}", self.release);
        };
        let script = redis::cmd("EVAL")
            .arg(
                "for number = ARGV[1], ARGV[2] do
                   local name = string.gsub(ARGV[3], '__rand_int__', string.format('%012d', number))
                   redis.call('hset', name, ARGV[4], 1)
                   redis.call('pexpire', name, ARGV[5])
                 end",
            )
            .arg(0)
            .to_owned();
        // They must not end while the measurement lasts.
        let lease_ms = 600_000;
        for first in (0..count).step_by(BATCH as usize) {
            let last = (first + BATCH).min(count) - 1;
            let mut batch = script.clone();
            batch.arg(first).arg(last).arg(name).arg(owner).arg(lease_ms);
            batch.query_async::<()>(aside).await?;
        }
        let held: u64 = redis::cmd("DBSIZE").query_async(aside).await?;
        ensure!(held == count, "{held} locks are held instead of {count}");
        Ok(())
    }
}

/// The server is this run's own, and nothing in it is anybody's.
async fn empty(aside: &mut MultiplexedConnection) -> anyhow::Result<()> {
    Ok(redis::cmd("FLUSHDB").arg("SYNC").query_async(aside).await?)
}

/// The next EVALSHA that a client sends, with `name` replaced.
async fn next_script(
    commands: &mut (impl Stream<Item = String> + Unpin),
    name: &str,
) -> anyhow::Result<Vec<String>> {
    let heard = async {
        loop {
            let line = commands.next().await.context("MONITOR ended")?;
            if let Some(words) = evalsha(&line) {
                return Ok(words.iter().map(|word| word.replace(name, RANDOM)).collect());
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), heard).await.context("no script was heard")?
}

/// The words of a line like `1700000000.123456 [0 unix:/path] "EVALSHA" "…" "1" "name" …`.
/// None of them has quotes in it.
fn evalsha(line: &str) -> Option<Vec<&str>> {
    let (_, words) = line.split_once("] \"")?;
    let words: Vec<&str> = words.strip_suffix('"')?.split("\" \"").collect();
    words[0].eq_ignore_ascii_case("evalsha").then_some(words)
}

/// Commands a second.
async fn benchmark(
    socket: &Path,
    command: &[String],
    commands: u64,
    names: u64,
) -> anyhow::Result<f64> {
    let output = Command::new("redis-benchmark")
        .arg("-s")
        .arg(socket)
        .args(["-c", &CONNECTIONS.to_string(), "-P", "1", "--csv"])
        .args(["-n", &commands.to_string(), "-r", &names.to_string()])
        .args(command)
        .stdin(Stdio::null())
        .output()
        .await
        .context("redis-benchmark (Debian's package redis-tools)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "redis-benchmark failed: {text}{complaint}");
    // "the command","commands a second", …
    let rate = text.lines().last().and_then(|line| line.split("\",\"").nth(1));
    let rate = rate.and_then(|rate| rate.parse().ok());
    rate.with_context(|| format!("redis-benchmark said: {text}{complaint}"))
}

#[cfg(test)]
mod tests {
    use super::evalsha;

    #[test]
    fn a_script_is_overheard() {
        let line = "1.5 [0 unix:/tmp/redis.sock] \"EVALSHA\" \"abc\" \"1\" \"name\" \"30000\"";
        assert_eq!(evalsha(line), Some(vec!["EVALSHA", "abc", "1", "name", "30000"]));
        assert_eq!(evalsha("1.5 [0 lua] \"exists\" \"name\""), None);
        assert_eq!(evalsha("OK"), None);
    }
}
