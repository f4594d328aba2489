//! What Redis can do: `redis-benchmark`, its own client, with the script that takes the lock,
//! on names that are free.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use redis::{ConnectionAddr, IntoConnectionInfo};
use tokio::process::Command;
use tokio::time::Instant;

use super::child::output_of;
use super::figures::Figure;
use redisson_lock::ACQUIRE_LUA;
use redisson_lock::connection::Redis;

/// Its own client's.
pub(super) const CONNECTIONS: u32 = 50;
/// How many calls tell how many make up the time that a measurement is to last: it cannot be
/// told a time.
const TRIAL_CALLS: u64 = 10_000;
/// The fewest and the most calls of a measurement. Each leaves a lock in Redis's memory.
const CALLS: std::ops::RangeInclusive<u64> = 1_000..=2_000_000;
/// Where redis-benchmark puts a random number, with twelve digits.
const RANDOM: &str = "__rand_int__";
/// Fresh enough: a hundred thousand out of two thousand million.
const NAMES: u64 = 2_000_000_000;
/// Locks that are not removed end by themselves.
const LEASE_MS: u64 = 60_000;
/// Removed by one command.
const REMOVED_AT_ONCE: u64 = 2_000;
const GRACE: Duration = Duration::from_secs(60);
/// How long the removal may take in a Redis in which there is much else.
const REMOVED_WITHIN: Duration = Duration::from_secs(15);

/// Redis, and who measures it.
#[derive(Debug)]
pub(super) struct RedisBenchmark {
    program: PathBuf,
    /// How its own client is told where the server is.
    place: Vec<String>,
    redis: Redis,
    prefix: String,
    /// Calls a second, as last seen.
    per_s: [Option<f64>; 2],
}

impl RedisBenchmark {
    /// `None` where its own client cannot be told, or not without telling everybody: several
    /// servers, TLS, a password.
    pub(super) fn prepare(program: PathBuf, url: &str) -> anyhow::Result<Option<Self>> {
        let Some(place) = place(url) else { return Ok(None) };
        let redis = Redis::new(url)?;
        let prefix = format!("seckill:ceiling:{}:", uuid::Uuid::new_v4().simple());
        Ok(Some(Self { program, place, redis, prefix, per_s: [None; 2] }))
    }

    /// Calls a second, `in_flight` on each connection.
    pub(super) async fn calls(
        &mut self,
        in_flight: u32,
        lasting: Duration,
    ) -> anyhow::Result<Figure> {
        let known = usize::from(in_flight > 1);
        let per_s = match self.per_s[known] {
            Some(per_s) => per_s,
            None => self.measure(in_flight, TRIAL_CALLS).await?,
        };
        let calls = (per_s * lasting.as_secs_f64()) as u64;
        let calls = calls.clamp(*CALLS.start(), *CALLS.end());
        let per_s = self.measure(in_flight, calls).await?;
        self.per_s[known] = Some(per_s);
        Ok(Figure::of(per_s).counting("calls", calls))
    }

    async fn measure(&self, in_flight: u32, calls: u64) -> anyhow::Result<f64> {
        let hash: String =
            self.redis.query(redis::cmd("SCRIPT").arg("LOAD").arg(ACQUIRE_LUA)).await?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.place)
            .args(["--csv", "-c", &CONNECTIONS.to_string(), "-P", &in_flight.to_string()])
            .args(["-n", &calls.to_string(), "-r", &NAMES.to_string()])
            .args(acquire_words(&hash, &format!("{}{RANDOM}", self.prefix)));
        let report = output_of(command, "", GRACE + Duration::from_millis(calls)).await?;
        let taken = self.remove().await?;
        // Names are drawn at random, a few of them twice.
        ensure!(taken * 100 >= calls * 95, "{calls} calls of the lock's script took {taken} locks");
        rate(&report).with_context(|| format!("redis-benchmark said: {report}"))
    }

    /// Removes the locks that were taken, and says how many there were.
    async fn remove(&self) -> anyhow::Result<u64> {
        let deadline = Instant::now() + REMOVED_WITHIN;
        let (mut cursor, mut removed) = (0_u64, 0_u64);
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(format!("{}*", self.prefix));
            scan.arg("COUNT").arg(REMOVED_AT_ONCE);
            let (next, names): (u64, Vec<String>) = self.redis.query(&scan).await?;
            if !names.is_empty() {
                removed += self.redis.query::<u64>(redis::cmd("UNLINK").arg(names)).await?;
            }
            if next == 0 {
                return Ok(removed);
            }
            ensure!(Instant::now() < deadline, "the locks could not be removed from Redis in time");
            cursor = next;
        }
    }
}

/// As the lock sends it for an owner who enters once (see the head of `acquire.lua`).
fn acquire_words(hash: &str, name: &str) -> Vec<String> {
    let lease = LEASE_MS.to_string();
    let owner = "9f1c3b52-0c1e-4e0b-8f43-6d2a1b7c8e90:1";
    ["EVALSHA", hash, "1", name, &lease, owner, "1", "60000"].map(str::to_owned).into()
}

fn place(url: &str) -> Option<Vec<String>> {
    // Sentinels and clusters have URLs of our own making.
    let info = url.into_connection_info().ok()?;
    let settings = info.redis_settings();
    if settings.password().is_some() {
        return None;
    }
    let mut words = match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            vec!["-h".to_owned(), host.clone(), "-p".to_owned(), port.to_string()]
        }
        ConnectionAddr::Unix(path) => vec!["-s".to_owned(), path.to_str()?.to_owned()],
        _ => return None,
    };
    words.extend(["--dbnum".to_owned(), settings.db().to_string()]);
    Some(words)
}

/// The second field of the last line: "the command","calls a second", …
fn rate(report: &str) -> Option<f64> {
    report.lines().last()?.split("\",\"").nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read() {
        let report = "\"test\",\"rps\",\"avg_latency_ms\"\n\"EVALSHA a 1\",\"88417.33\",\"0.5\"\n";
        assert_eq!(rate(report), Some(88417.33));
        assert_eq!(rate("\"test\",\"rps\"\n"), None);
        assert_eq!(rate(""), None);
    }

    #[test]
    fn what_its_own_client_cannot_be_told_is_not_told() {
        let words = |url| place(url).map(|words| words.join(" "));
        assert_eq!(words("redis://h:7/2").as_deref(), Some("-h h -p 7 --dbnum 2"));
        assert_eq!(
            words("redis+unix:///run/redis.sock").as_deref(),
            Some("-s /run/redis.sock --dbnum 0")
        );
        for url in
            ["redis://:secret@h", "rediss://h", "redis+sentinel://h:1/name", "redis+cluster://h:1"]
        {
            assert_eq!(words(url), None, "{url}");
        }
    }
}
