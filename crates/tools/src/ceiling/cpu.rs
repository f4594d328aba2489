//! Processor time and memory, by process: what does not depend on what else the machine does.

use redis_link::Redis;
use seckill::store::Database;

use super::results::Readings;
use crate::process::Process;
use program::node::Node;

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
        let backend = backend.and_then(|pid| Process::of(pid.unsigned_abs()));
        // In a container of its own it has other numbers: then this is somebody else.
        let postmaster = backend.filter(|backend| backend.name == "postgres");
        Self { postmaster: postmaster.map(|backend| backend.parent), redis }
    }

    /// Processor time so far, in microseconds. What cannot be read is left out.
    pub(super) async fn read(&self, node: Option<&Node>) -> Readings {
        let server = node.and_then(Node::pid).and_then(Process::of).map(|it| it.own_us);
        let postgresql = self.postmaster.map(of_family_us);
        let read = [
            ("cpu_us_server", server),
            ("cpu_us_postgresql", postgresql),
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
pub(super) fn cpu_each(before: &Readings, after: &Readings, count: f64) -> Readings {
    let each = |(name, time): (&&'static str, &f64)| {
        let spent = (time - before.get(name)?) / count;
        // Less is what a process does for itself.
        (count > 0.0 && spent >= 0.5).then_some((*name, spent))
    };
    after.iter().filter_map(each).collect()
}

/// The first process and its children, those that have ended included.
fn of_family_us(first: u32) -> f64 {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all = pids.filter_map(|pid: u32| Some((pid, Process::of(pid)?)));
    let of_each = all.map(|(pid, process)| match process {
        process if pid == first => process.own_us + process.ended_us,
        process if process.parent == first => process.own_us,
        _ => 0.0,
    });
    of_each.sum()
}

/// The most memory that a process has had so far, in megabytes (10^6 bytes).
pub(super) fn most_memory_mb(node: &Node) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid()?)).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}
