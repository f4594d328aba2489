//! On what a run ran: without that nobody can repeat it, nor know whether it means anything.

use std::path::Path;

use chrono::{DateTime, SubsecRound, Utc};
use redisson_lock::connection::Redis;
use seckill::model::{Clock, SystemClock};
use seckill::store::Database;
use serde::Serialize;

use super::programs::said;

/// The machine, the programs, and how careful they are. What is not found out is `None`.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    date: DateTime<Utc>,
    processor: Option<String>,
    cores: usize,
    memory: Option<String>,
    system: Option<String>,
    /// Of the directory in which PostgreSQL keeps its data, where that is on this machine.
    filesystem: Option<String>,
    seckill: String,
    tools: Vec<String>,
    postgresql: Option<String>,
    fsync: Option<String>,
    synchronous_commit: Option<String>,
    redis: Option<String>,
    redis_appendonly: Option<String>,
    /// Which of the stores are this run's own.
    stores: String,
}

/// Processors that this program may use.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Machine {
    /// Looks.
    pub(super) async fn look(
        database: &Database,
        redis: &Redis,
        stores: String,
        tools: Vec<String>,
    ) -> Self {
        let info: Option<String> = redis.query(redis::cmd("INFO").arg("server")).await.ok();
        let version = |name| value_of(info.as_ref()?, name);
        let mut question = redis::cmd("CONFIG");
        question.arg("GET").arg("appendonly");
        let appendonly: Option<Vec<String>> = redis.query(&question).await.ok();
        let directory = setting(database, "data_directory").await;
        let of_file = |file, name| value_of(&std::fs::read_to_string(file).ok()?, name);
        Self {
            date: SystemClock.now().trunc_subsecs(0),
            processor: of_file("/proc/cpuinfo", "model name"),
            cores: cores(),
            memory: of_file("/proc/meminfo", "MemTotal"),
            system: said(Path::new("uname"), &["-sr"]),
            filesystem: directory
                .and_then(|path| said(Path::new("stat"), &["--file-system", "--format=%T", &path])),
            seckill: seckill(),
            tools,
            postgresql: setting(database, "server_version").await,
            fsync: setting(database, "fsync").await,
            synchronous_commit: setting(database, "synchronous_commit").await,
            redis: version("valkey_version").or_else(|| version("redis_version")),
            redis_appendonly: appendonly.and_then(|answer| answer.into_iter().nth(1)),
            stores,
        }
    }

    /// Why figures from here would mean nothing, if so.
    pub(super) fn objections(&self) -> Vec<String> {
        let is = |setting: &Option<String>, value| setting.as_deref() == Some(value);
        let mut objections = Vec::new();
        if is(&self.filesystem, "tmpfs") {
            objections.push("the data lies in memory (tmpfs): set TMPDIR to a directory on a disk");
        }
        if is(&self.fsync, "off") || is(&self.synchronous_commit, "off") {
            objections.push("PostgreSQL does not wait for the disk (fsync, synchronous_commit)");
        }
        objections.into_iter().map(str::to_owned).collect()
    }

    /// For people: a line for each, as in the JSON.
    pub(super) fn text(&self) -> anyhow::Result<String> {
        let json = serde_json::to_value(self)?;
        let fields = json.as_object().into_iter().flatten();
        let line = |(name, value): (&String, &serde_json::Value)| {
            format!("{:<20}{}\n", name.replace('_', " "), value.to_string().replace('"', ""))
        };
        Ok(fields.map(line).collect())
    }
}

/// The version, and the commit of the work tree that it was built in, where that is still there; with a `+`
/// where there are changes on top of it.
fn seckill() -> String {
    let tree = env!("CARGO_MANIFEST_DIR");
    let describe = ["-C", tree, "describe", "--always", "--exclude=*", "--dirty=+", "--abbrev=12"];
    let revision = said(Path::new("git"), &describe).unwrap_or_else(|| "unknown".to_owned());
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    format!("{} ({build} build, revision {revision})", env!("CARGO_PKG_VERSION"))
}

/// Not every user may read every setting.
async fn setting(database: &Database, name: &'static str) -> Option<String> {
    let query = sqlx::query_scalar("select current_setting($1)").bind(name);
    query.fetch_one(database.pool()).await.ok()
}

/// The first value of this name in lines `name : value`.
fn value_of(text: &str, name: &str) -> Option<String> {
    let (_, value) = text.lines().find(|line| line.starts_with(name))?.split_once(':')?;
    Some(value.trim().to_owned())
}
