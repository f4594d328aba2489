//! The programs by which the field measures: where they are, and running one to its end.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use child_program::{beside, end_with_us};
use nix::sys::signal::Signal;
use private_stores::Benchmarks;
use program::ConfigError;
use tokio::process::Command;
use tokio::time::timeout;

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
}

impl Programs {
    /// Finds them.
    ///
    /// # Errors
    /// Names the one that is missing, and what installs it.
    pub(super) fn find() -> anyhow::Result<Self> {
        let Benchmarks { pgbench, redis_benchmark } = Benchmarks::find()?;
        let wrk = PathBuf::from("wrk");
        if said(&wrk, &["-v"]).is_none() {
            let sentence = "wrk is not installed: `make bench` installs it, or this system's package \
                            manager (Debian: apt-get install wrk)";
            return Err(ConfigError(sentence.to_owned()).into());
        }
        // scripts/setup.sh puts it into the directory of builds, in which this program has its own.
        let built = beside("../loadtest/k6/bin/k6").unwrap_or_default();
        let k6 = [PathBuf::from("k6"), built];
        let k6 = k6.into_iter().find(|k6| said(k6, &["version"]).is_some());
        Ok(Self { pgbench, redis_benchmark, wrk, k6 })
    }

    /// Of the two that do not come with a server.
    pub(super) fn versions(&self) -> Vec<String> {
        let k6 = self.k6.as_ref().and_then(|k6| said(k6, &["version"]));
        let lines = said(&self.wrk, &["-v"]).into_iter().chain(k6);
        let words = |line: String| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        lines.map(words).collect()
    }
}

/// The first line that a program says; `None` where it cannot be run. (The status of `wrk -v` is 1.)
pub(super) fn said(program: &Path, arguments: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(str::to_owned)
}

/// Runs `command` to its end, and returns what it printed. It ends with us, and when this is dropped.
///
/// Not to be called in a spawned task: on Linux the child ends with the *thread* that started it, and
/// only the main one lives as long as the program.
pub(super) async fn output_of(mut command: Command, within: Duration) -> anyhow::Result<String> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C is for us: it is killed when we no longer wait.
        .process_group(0)
        .kill_on_drop(true);
    end_with_us(command.as_std_mut(), Signal::SIGKILL);
    let child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let Ok(output) = timeout(within, child.wait_with_output()).await else {
        bail!("{name} did not end within {} s", within.as_secs());
    };
    let output = output.with_context(|| format!("cannot wait for {name}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.trim().lines().last().unwrap_or_default();
    ensure!(output.status.success(), "{name} ended with {}: {last}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
