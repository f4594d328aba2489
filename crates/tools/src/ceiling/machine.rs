//! On what a run ran: without that nobody can repeat it, nor know whether it means anything.

use redis_link::Redis;
use report::machine::{self, cores, value_of};
use seckill::model::{Clock, SystemClock};
use seckill::store::Database;
use serde_json::{Value, json};

use super::programs::said;

/// The machine, the programs, and how careful they are. What is not found out is `null`.
pub(super) async fn look(
    database: &Database,
    redis: &Redis,
    stores: &str,
    tools: &[String],
) -> Value {
    let setting = |name| machine::postgresql(database.pool(), name);
    let mut question = redis::cmd("CONFIG");
    question.arg("GET").arg("appendonly");
    let appendonly: Option<Vec<String>> = redis.query(&question).await.ok();
    let data = setting("data_directory").await;
    let of_file = |file, name| value_of(&std::fs::read_to_string(file).ok()?, name);
    json!({
        "date": SystemClock.now().to_rfc3339(),
        "processor": of_file("/proc/cpuinfo", "model name"),
        "cores": cores(),
        "memory": of_file("/proc/meminfo", "MemTotal"),
        "system": said("uname", &["-sr"]),
        // Where PostgreSQL's data is on this machine.
        "filesystem":
            data.and_then(|data| said("stat", &["--file-system", "--format=%T", &data])),
        "seckill": env!("CARGO_PKG_VERSION"),
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "revision": program::revision(),
        "tools": tools,
        "stores": stores,
        "postgresql": setting("server_version").await,
        "fsync": setting("fsync").await,
        "synchronous_commit": setting("synchronous_commit").await,
        "redis": machine::redis(redis).await,
        "redis_appendonly": appendonly.and_then(|answer| answer.into_iter().nth(1)),
    })
}

/// Why figures from here would mean nothing, if so.
pub(super) fn objections(machine: &Value) -> Vec<String> {
    let in_memory = "the data lies in memory (tmpfs): set TMPDIR to a directory on a disk";
    let no_wait = "PostgreSQL does not wait for the disk (fsync, synchronous_commit)";
    let may_lose = machine["fsync"] == "off" || machine["synchronous_commit"] == "off";
    let all = [(machine["filesystem"] == "tmpfs", in_memory), (may_lose, no_wait)];
    all.into_iter().filter(|(applies, _)| *applies).map(|(_, why)| why.to_owned()).collect()
}

/// For people: a line for each.
pub(super) fn text(machine: &Value) -> String {
    let fields = machine.as_object().into_iter().flatten();
    let line = |(name, value): (&String, &Value)| {
        format!("{:<20}{}\n", name.replace('_', " "), value.to_string().replace('"', ""))
    };
    fields.map(line).collect()
}
