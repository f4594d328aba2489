//! The lock beside its own script: `redis-benchmark`, Redis's own client, calls it on names that are free;
//! the lock takes and gives back; a waiter enters after a holder has left.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::RngExt;
use redis_link::ScanCursor;
use redisson_lock::{ACQUIRE_LUA, LockClient, LockOptions};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Testbed;
use super::cpu::cpu_each;
use super::programs::{GRACE, output_of};
use super::results::{Readings, quantile};

/// redis-benchmark's own number of connections, and the lock's number of tasks.
const AT_ONCE: usize = 50;
/// redis-benchmark cannot be told a time: so many calls tell how many fill it.
const TRIAL_CALLS: u64 = 10_000;
/// Each call leaves a lock in Redis's memory.
const MOST_CALLS: u64 = 2_000_000;
/// Fresh enough: a hundred thousand out of two thousand million.
const NAMES: &str = "2000000000";
const HAND_OFFS: usize = 300;

impl Testbed {
    /// How redis-benchmark is told where the server is. `None` where it cannot be told, or not without
    /// telling everybody: several servers, TLS, a password.
    pub(super) fn place(&self) -> Option<[&str; 2]> {
        match self.stores.redis_url.split_once("://")? {
            ("redis+unix", path) => Some(["-s", path]),
            ("redis", place) if !place.contains('@') => Some(["-u", &self.stores.redis_url]),
            _ => None,
        }
    }

    fn lock_name(&self, rest: impl std::fmt::Display) -> String {
        format!("{}seckill:ceiling:{rest}", self.stores.key_prefix)
    }

    /// Calls of the script a second.
    pub(super) async fn lock_script(&self) -> anyhow::Result<Readings> {
        let trial = self.redis_benchmark(TRIAL_CALLS).await?;
        let calls = (trial["per_s"] * self.duration.as_secs_f64()) as u64;
        self.redis_benchmark(calls.clamp(TRIAL_CALLS, MOST_CALLS)).await
    }

    async fn redis_benchmark(&self, calls: u64) -> anyhow::Result<Readings> {
        let prefix = self.lock_name(format_args!("{}:", uuid::Uuid::new_v4().simple()));
        let hash: String =
            self.redis.query(redis::cmd("SCRIPT").arg("LOAD").arg(ACQUIRE_LUA)).await?;
        let mut command = Command::new(&self.programs.redis_benchmark);
        command
            .args(self.place().unwrap_or_default())
            .args(["--csv", "-c", &AT_ONCE.to_string(), "-n", &calls.to_string(), "-r", NAMES])
            // As the lock sends it for an owner who enters once (see the head of acquire.lua), for a
            // minute. redis-benchmark puts a number into the name.
            .args(["EVALSHA", &hash, "1", &format!("{prefix}__rand_int__"), "60000"])
            .args(["9f1c3b52-0c1e-4e0b-8f43-6d2a1b7c8e90:1", "1", "60000"]);
        let before = self.meter.read(None).await;
        let report = output_of(command, GRACE + Duration::from_millis(calls)).await?;
        let after = self.meter.read(None).await;
        let taken = self.remove_locks(&prefix).await?;
        // Names are drawn at random, a few of them twice.
        ensure!(taken * 100 >= calls * 95, "{calls} calls of the lock's script took {taken} locks");
        // The last line: "the command","calls a second", …
        let rate = report.lines().last().and_then(|line| line.split("\",\"").nth(1)?.parse().ok());
        let per_s = rate.with_context(|| format!("redis-benchmark said {report}"))?;
        let mut figures = Readings::from([("per_s", per_s)]);
        figures.extend(cpu_each(&before, &after, calls as f64));
        Ok(figures)
    }

    /// Removes the locks that were taken, and says how many there were.
    async fn remove_locks(&self, prefix: &str) -> anyhow::Result<u64> {
        let (mut next, mut removed) = (Some(ScanCursor::default()), 0);
        while let Some(cursor) = next {
            let (names, further) = self.redis.scan(&format!("{prefix}*"), None, cursor).await?;
            if !names.is_empty() {
                removed += self.redis.query::<u64>(redis::cmd("UNLINK").arg(names)).await?;
            }
            next = further;
        }
        Ok(removed)
    }

    /// Pairs of acquire and release a second: each task has a name of its own.
    pub(super) async fn lock_pairs(&self) -> anyhow::Result<Readings> {
        let locks = LockClient::new(self.redis.clone(), LockOptions::default());
        let before = self.meter.read(None).await;
        let (begun, time) = (Instant::now(), self.duration);
        let mut tasks: JoinSet<anyhow::Result<u64>> = JoinSet::new();
        for task in 0..AT_ONCE {
            let lock = locks.lock(self.lock_name(format_args!("pairs:{task}")));
            tasks.spawn(async move {
                let mut pairs = 0;
                while begun.elapsed() < time {
                    lock.acquire().await?.release().await?;
                    pairs += 1;
                }
                Ok(pairs)
            });
        }
        let mut pairs = 0;
        while let Some(ended) = tasks.join_next().await {
            pairs += ended??;
        }
        let took = begun.elapsed();
        let after = self.meter.read(None).await;
        locks.shutdown().await;
        let mut figures = Readings::from([("per_s", pairs as f64 / took.as_secs_f64())]);
        figures.extend(cpu_each(&before, &after, pairs as f64));
        Ok(figures)
    }

    /// From just before a release until the one who waits has entered.
    pub(super) async fn lock_hand_offs(&self) -> anyhow::Result<Readings> {
        let locks = LockClient::new(self.redis.clone(), LockOptions::default());
        let lock = locks.lock(self.lock_name(uuid::Uuid::new_v4()));
        let mut held = lock.acquire().await?;
        let mut took_ms = Vec::new();
        for _ in 0..HAND_OFFS {
            let acquired = lock.acquire();
            let waiter = tokio::spawn(async move { (acquired.await, Instant::now()) });
            // Until the waiter has tried, subscribed and fallen asleep, and not always the same time.
            let held_for = Duration::from_micros(rand::rng().random_range(2_000..4_000));
            tokio::time::sleep(held_for).await;
            let released_at = Instant::now();
            held.release().await?;
            let (guard, entered_at) = waiter.await?;
            held = guard?;
            took_ms.push(entered_at.duration_since(released_at).as_secs_f64() * 1e3);
        }
        held.release().await?;
        locks.shutdown().await;
        let quantiles = [("p50_ms", 0.5), ("p99_ms", 0.99)].into_iter();
        Ok(quantiles.filter_map(|(name, share)| Some((name, quantile(&took_ms, share)?))).collect())
    }
}
