//! Processor time and memory, by process: what does not depend on what else the machine does.

use redisson_lock::connection::Redis;
use seckill::store::Database;

use super::results::Figures;
use crate::node::Node;

/// Ticks a second in `/proc/*/stat`: on Linux the same wherever it runs (`proc(5)`).
const TICKS_PER_S: f64 = 100.0;

/// Reads the processor time of the three: the server, PostgreSQL and Redis.
#[derive(Debug)]
pub(super) struct Meter {
    /// PostgreSQL's first process, where it runs on this machine.
    postmaster: Option<u32>,
    redis: Redis,
}

impl Meter {
    /// Finds the processes.
    pub(super) async fn find(database: &Database, redis: Redis) -> Self {
        let backend: Option<i32> = sqlx::query_scalar(
            "select pg_backend_pid() where inet_server_addr() is null
               or host(inet_server_addr()) in ('127.0.0.1', '::1')",
        )
        .fetch_optional(database.pool())
        .await
        .unwrap_or_default();
        let backend = backend.and_then(|pid| ProcessStat::of(pid.unsigned_abs()));
        // In a container of its own it has other numbers: then this is somebody else.
        let postmaster = backend.filter(|backend| backend.name == "postgres");
        Self { postmaster: postmaster.map(|backend| backend.parent), redis }
    }

    /// Processor time so far, in microseconds. What cannot be read is left out.
    pub(super) async fn read(&self, node: Option<&Node>) -> Figures {
        let server = node.and_then(Node::pid).and_then(ProcessStat::of).map(|stat| stat.own);
        let of_ticks = |ticks: f64| ticks * 1e6 / TICKS_PER_S;
        let read = [
            ("cpu_us_server", server.map(of_ticks)),
            ("cpu_us_postgresql", self.postmaster.map(ticks_of_family).map(of_ticks)),
            ("cpu_us_redis", self.redis_us().await),
        ];
        read.into_iter().filter_map(|(name, time)| Some((name, time?))).collect()
    }

    /// Redis tells by itself, more finely than the system does, and from another machine, too.
    async fn redis_us(&self) -> Option<f64> {
        let info: String = self.redis.query(redis::cmd("INFO").arg("cpu")).await.ok()?;
        let seconds = |name: &str| -> Option<f64> {
            info.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
        };
        Some((seconds("used_cpu_sys:")? + seconds("used_cpu_user:")?) * 1e6)
    }
}

/// Of each of so many orders, or answers, between two readings.
pub(super) fn cpu_each(before: &Figures, after: &Figures, count: f64) -> Figures {
    let each = |(name, time): (&&'static str, &f64)| {
        let spent = (time - before.get(name)?) / count;
        // Less is what a process does for itself.
        (count > 0.0 && spent >= 0.1).then_some((*name, spent))
    };
    after.iter().filter_map(each).collect()
}

/// The first process and its children, those that have ended included.
fn ticks_of_family(first: u32) -> f64 {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all = pids.filter_map(|pid: u32| Some((pid, ProcessStat::of(pid)?)));
    all.map(|(pid, stat)| match stat {
        stat if pid == first => stat.own + stat.ended_children,
        stat if stat.parent == first => stat.own,
        _ => 0.0,
    })
    .sum()
}

/// The most memory that a process has had so far, in megabytes (10^6 bytes).
pub(super) fn most_memory_mb(node: &Node) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid()?)).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// What `/proc/PID/stat` says.
#[derive(Debug, PartialEq)]
struct ProcessStat {
    name: String,
    parent: u32,
    /// Ticks of its threads.
    own: f64,
    /// Ticks of the children that it has waited for.
    ended_children: f64,
}

impl ProcessStat {
    fn of(pid: u32) -> Option<Self> {
        Self::read(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name is in parentheses and may hold anything; the state follows it.
    fn read(stat: &str) -> Option<Self> {
        let (before, after) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
        Some(Self {
            name: before.split_once('(')?.1.to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            own: ticks(11)? + ticks(12)?,
            ended_children: ticks(13)? + ticks(14)?,
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::ProcessStat;

    #[test]
    fn ticks_are_read_whatever_the_process_is_called() {
        let line = "7 (a) S (b) S 3 7 7 0 -1 4194304 1 2 3 4 50 6 700 8 20 0 1 0";
        let stat = ProcessStat::read(line).unwrap();
        assert_eq!((stat.name.as_str(), stat.parent), ("a) S (b", 3));
        assert_eq!((stat.own, stat.ended_children), (56.0, 708.0));
        assert_eq!(ProcessStat::read("7 (a) S 3"), None);
    }
}
