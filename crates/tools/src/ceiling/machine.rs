//! On what a run ran: without that nobody can repeat it, nor know whether it means anything.

use std::path::Path;
use std::process::Command;

use chrono::{DateTime, SubsecRound, Utc};
use serde::Serialize;

use redisson_lock::connection::Redis;
use seckill::model::{Clock, SystemClock};
use seckill::store::Database;

/// The machine, the programs, and how careful they are. What is not found out is `None`.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Machine {
    pub(super) date: DateTime<Utc>,
    pub(super) processor: Option<String>,
    pub(super) cores: Option<usize>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) kernel: Option<String>,
    /// Of the directory in which PostgreSQL keeps its data, where that is on this machine.
    pub(super) filesystem: Option<String>,
    pub(super) seckill: &'static str,
    pub(super) build: &'static str,
    /// The commit of the work tree that this was started in, with a `+` where there are changes
    /// on top of it. The program may have been built from another.
    pub(super) revision: Option<String>,
    pub(super) postgresql: Option<String>,
    pub(super) shared_buffers: Option<String>,
    pub(super) redis: Option<String>,
    /// `private` where the servers are this run's own.
    pub(super) servers: &'static str,
    pub(super) durability: Durability,
}

/// What a commit waits for.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Durability {
    pub(super) fsync: Option<String>,
    pub(super) synchronous_commit: Option<String>,
    pub(super) full_page_writes: Option<String>,
    pub(super) wal_sync_method: Option<String>,
    pub(super) redis_appendonly: Option<String>,
    pub(super) redis_appendfsync: Option<String>,
}

impl Machine {
    /// Looks.
    pub(super) async fn of(servers: &'static str, database: &Database, redis: &Redis) -> Self {
        let version = setting(database, "server_version").await;
        let data = setting(database, "data_directory").await;
        let kernel = ["ostype", "osrelease"]
            .map(|name| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok());
        let info: Option<String> = redis.query(redis::cmd("INFO").arg("server")).await.ok();
        Self {
            date: SystemClock.now().trunc_subsecs(0),
            processor: field_of("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().ok().map(usize::from),
            memory_bytes: memory_bytes(),
            kernel: match kernel {
                [Some(system), Some(release)] => {
                    Some(format!("{} {}", system.trim(), release.trim()))
                }
                _ => None,
            },
            filesystem: data.and_then(|data| filesystem(Path::new(&data))),
            seckill: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            revision: revision(),
            postgresql: version.map(|text| text.split(' ').next().unwrap_or_default().to_owned()),
            shared_buffers: setting(database, "shared_buffers").await,
            redis: info.as_deref().and_then(redis_version),
            servers,
            durability: Durability {
                fsync: setting(database, "fsync").await,
                synchronous_commit: setting(database, "synchronous_commit").await,
                full_page_writes: setting(database, "full_page_writes").await,
                wal_sync_method: setting(database, "wal_sync_method").await,
                redis_appendonly: redis_setting(redis, "appendonly").await,
                redis_appendfsync: redis_setting(redis, "appendfsync").await,
            },
        }
    }

    /// Why figures from here would mean nothing, if so.
    pub(super) fn objections(&self) -> Vec<String> {
        let mut objections = Vec::new();
        if self.filesystem.as_deref() == Some("tmpfs") {
            objections.push(
                "the data lies in memory (tmpfs), where a commit costs nothing: set TMPDIR to a \
                 directory on a disk"
                    .to_owned(),
            );
        }
        let off = |setting: &Option<String>| setting.as_deref() == Some("off");
        if off(&self.durability.fsync) || off(&self.durability.synchronous_commit) {
            objections.push(
                "PostgreSQL does not wait for the disk (fsync, synchronous_commit), so its \
                 commits are not durable"
                    .to_owned(),
            );
        }
        objections
    }

    /// Name and value, for people.
    pub(super) fn rows(&self) -> Vec<[String; 2]> {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let durability = &self.durability;
        let cores = self.cores.map_or("unknown".to_owned(), |cores| cores.to_string());
        let memory = self
            .memory_bytes
            .map_or("unknown memory".to_owned(), |bytes| format!("{:.0} GB", bytes as f64 / 1e9));
        [
            ("date", self.date.format("%Y-%m-%d %H:%M UTC").to_string()),
            ("machine", format!("{}, {cores} cores, {memory}", text(&self.processor))),
            ("system", format!("{}, data on {}", text(&self.kernel), text(&self.filesystem))),
            (
                "versions",
                format!(
                    "seckill {} ({} build), revision {}; PostgreSQL {} (shared_buffers {}); \
                     Redis {}; {} servers",
                    self.seckill,
                    self.build,
                    text(&self.revision),
                    text(&self.postgresql),
                    text(&self.shared_buffers),
                    text(&self.redis),
                    self.servers
                ),
            ),
            (
                "durability",
                format!(
                    "fsync {}, synchronous_commit {}, full_page_writes {}, wal_sync_method {}; \
                     Redis appendonly {}, appendfsync {}",
                    text(&durability.fsync),
                    text(&durability.synchronous_commit),
                    text(&durability.full_page_writes),
                    text(&durability.wal_sync_method),
                    text(&durability.redis_appendonly),
                    text(&durability.redis_appendfsync)
                ),
            ),
        ]
        .map(|(name, value)| [name.to_owned(), value])
        .into()
    }
}

/// The time of all processors so far, since the machine started, in ticks (`proc(5)`).
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessorTime {
    all: u64,
    /// In which there was something to do, and the host let other guests run.
    stolen: u64,
}

impl ProcessorTime {
    /// `None` where the system does not tell.
    pub(super) fn so_far() -> Option<Self> {
        Self::read(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn read(stat: &str) -> Option<Self> {
        let ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
        // user, nice, system, idle, iowait, irq, softirq, steal; what follows is in them already.
        let ticks: Vec<u64> = ticks.take(8).map_while(|ticks| ticks.parse().ok()).collect();
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// In percent of the time since then.
    pub(super) fn stolen_since(self, then: Self) -> Option<f64> {
        let all = self.all.checked_sub(then.all).filter(|all| *all > 0)?;
        // On some hosts it goes back a little.
        Some(100.0 * self.stolen.saturating_sub(then.stolen) as f64 / all as f64)
    }
}

/// Not every user may read every setting.
async fn setting(database: &Database, name: &'static str) -> Option<String> {
    sqlx::query_scalar("select current_setting($1)")
        .bind(name)
        .fetch_one(database.pool())
        .await
        .ok()
}

async fn redis_setting(redis: &Redis, name: &str) -> Option<String> {
    let answer: Vec<String> = redis.query(redis::cmd("CONFIG").arg("GET").arg(name)).await.ok()?;
    answer.into_iter().nth(1)
}

fn redis_version(info: &str) -> Option<String> {
    // Valkey says both, and which one it is only by this.
    let version = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
    let valkey = version("valkey_version:").map(|version| format!("(Valkey) {}", version.trim()));
    valkey.or_else(|| version("redis_version:").map(|version| version.trim().to_owned()))
}

/// The first value of this name in a file of lines `name : value`.
fn field_of(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let (_, value) = text.lines().find(|line| line.starts_with(name))?.split_once(':')?;
    Some(value.trim().to_owned())
}

fn memory_bytes() -> Option<u64> {
    let kib: u64 = field_of("/proc/meminfo", "MemTotal")?.split(' ').next()?.parse().ok()?;
    Some(kib * 1024)
}

/// The type of the file system that `path` lies on; `None` where that is not on this machine.
fn filesystem(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    // Of the longest the last: it was mounted over the others.
    let (_, kind) =
        mounts.filter(|(place, _)| path.starts_with(place)).max_by_key(|(place, _)| place.len())?;
    Some(kind.to_owned())
}

/// The revision of the work tree that we are in, if it is our own.
fn revision() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let root = git(&["rev-parse", "--show-toplevel"])?;
    let manifest = std::fs::read_to_string(Path::new(&root).join("Cargo.toml")).ok()?;
    if !manifest.contains(concat!("name = \"", env!("CARGO_PKG_NAME"), "\"")) {
        return None;
    }
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(git(&["rev-parse", "--short=12", "HEAD"])? + if changed { "+" } else { "" })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn what_is_stolen_is_a_share_of_all_time() {
        let [then, now] = [
            "cpu  100 0 50 800 10 0 5 35 7 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n",
            "cpu  150 0 75 850 10 0 5 110 9 0\n",
        ]
        .map(|stat| ProcessorTime::read(stat).unwrap());
        assert_eq!(now.stolen_since(then), Some(37.5));
        assert_eq!(then.stolen_since(now), None);
        assert!(ProcessorTime::read("cpu  100 0 50 800 10 0 5\n").is_none());
        assert!(ProcessorTime::read("").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_file_system_of_a_path_is_that_of_its_longest_mount() {
        assert_eq!(filesystem(Path::new("/proc/self/status")).as_deref(), Some("proc"));
        assert_eq!(filesystem(Path::new("/no/such/path")), None);
    }
}
