//! The programs by which the field measures: where they are, and running one to its end.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use child_process::{ChildProcess, beside, last_line};
use nix::sys::signal::Signal;
use private_stores::Benchmarks;
use program::ConfigError;

/// What a program needs beside the time that it measures: to start, to connect, to report.
pub(super) const GRACE: Duration = Duration::from_secs(60);

/// Where they are.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) pgbench: PathBuf,
    pub(super) redis_benchmark: PathBuf,
    pub(super) wrk: PathBuf,
    /// `None` where there is none: then the overload is left out.
    pub(super) k6: Option<PathBuf>,
    /// Versions of the two that do not come with a server.
    pub(super) versions: Vec<String>,
}

impl Programs {
    /// Finds them.
    ///
    /// # Errors
    /// Names the one that is missing, and what installs it.
    pub(super) fn find() -> anyhow::Result<Self> {
        let Benchmarks { pgbench, redis_benchmark } = Benchmarks::find()?;
        let (wrk, of_wrk) = (PathBuf::from("wrk"), said("wrk", &["-v"]));
        if of_wrk.is_none() {
            let sentence = "wrk is not installed: `make bench` installs it, or this system's package \
                            manager (Debian: apt-get install wrk)";
            return Err(ConfigError(sentence.to_owned()).into());
        }
        // scripts/setup.sh puts it into the directory of builds, in which this program has its own.
        let built = beside("../loadtest/k6/bin/k6").unwrap_or_default();
        let version = |k6: PathBuf| Some((said(&k6, &["version"])?, k6));
        let (of_k6, k6) = [PathBuf::from("k6"), built].into_iter().find_map(version).unzip();
        // wrk goes on with its author, k6 with its commit.
        let words = |line: String| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        let versions = of_wrk.into_iter().chain(of_k6).map(words).collect();
        Ok(Self { pgbench, redis_benchmark, wrk, k6, versions })
    }
}

/// The first line that a program says; `None` where it cannot be run. (The status of `wrk -v` is 1.)
pub(super) fn said(program: impl AsRef<OsStr>, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(str::to_owned)
}

/// Runs `command` to its end, and returns what it printed. It ends with us, and when this is dropped.
pub(super) async fn output_of(mut command: Command, within: Duration) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = ChildProcess::start(command, Signal::SIGKILL);
    let running = running.with_context(|| format!("cannot run {name}"))?;
    let output = running.output(within, u64::MAX).await.context(name.clone())?;
    let last = last_line(&output.stderr).unwrap_or_default();
    ensure!(output.status.success(), "{name} ended with {}: {last}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
