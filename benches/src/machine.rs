//! On what it was measured: without that a figure says nothing.

use std::path::Path;
use std::process::Command;

use serde::Serialize;

use crate::server;

/// Best effort: what is not found out is "unknown".
#[derive(Debug, Serialize)]
pub struct Machine {
    /// The commit, and whether there are changes on top of it.
    pub revision: String,
    /// Its name.
    pub processor: String,
    /// How many the process may use.
    pub processors: usize,
    /// In gigabytes (10⁹).
    pub memory_gb: f64,
    /// System and kernel.
    pub system: String,
    /// Of the running server.
    pub redis: String,
    /// The compiler.
    pub rustc: String,
    /// The peers, as the lock file has them.
    pub peers: String,
}

impl Machine {
    /// Looks.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn look(url: &str) -> anyhow::Result<Self> {
        let mut aside = server::aside(url).await?;
        Ok(Self {
            revision: revision(),
            processor: line_of("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gb: memory_gb().unwrap_or(f64::NAN),
            system: first_line("uname", &["-sr"]),
            redis: server::info_text(&mut aside, "server", "redis_version").await?,
            rustc: first_line("rustc", &["--version"]),
            peers: peers(),
        })
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(package()).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    let text = text.and_then(|text| String::from_utf8(text).ok());
    text.and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_else(unknown)
}

/// The kind of file system that `directory` is on, where the machine has GNU's `stat`.
pub fn file_system(directory: &Path) -> String {
    first_line("stat", &["-f", "-c", "%T", &directory.display().to_string()])
}

/// Where this package lay when it was built.
fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn revision() -> String {
    let mut revision = first_line("git", &["rev-parse", "--short=12", "HEAD"]);
    if first_line("git", &["status", "--porcelain"]) != "unknown" {
        revision.push_str(" with local changes");
    }
    revision
}

/// What follows the colon.
fn line_of(file: &str, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(field))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_gb() -> Option<f64> {
    let kilobytes = line_of("/proc/meminfo", "MemTotal")?;
    let kilobytes: f64 = kilobytes.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024.0 / 1e9)
}

fn peers() -> String {
    let lock = include_str!("../Cargo.lock");
    let version = |name: &str| {
        let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
        Some(format!("{name} {}", rest.split_once('"')?.0))
    };
    let found: Vec<_> =
        ["rlock", "rslock", "redis"].iter().filter_map(|one| version(one)).collect();
    found.join(", ")
}
