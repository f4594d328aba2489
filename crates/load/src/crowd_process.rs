//! The process of its own in which a crowd is made, as who starts it sees it.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use child_process::ChildProcess;
use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};

use super::LoadError;
use super::crowd::{BuyersTold, CrowdLine, CrowdPlan, CrowdReport};

/// Lets a process of the program `exe`, which has the command `crowd`, send the crowd. `progress` is told, some times a
/// second, how many attempts have their outcome. Dropping the future ends the crowd.
///
/// # Errors
///
/// [`LoadError::CrowdStart`] when there is no such process, or it does not take the plan;
/// [`LoadError::CrowdEnded`] when it gives no report.
pub async fn send(
    exe: &Path,
    plan: &CrowdPlan,
    mut progress: impl FnMut(u64),
) -> Result<CrowdReport, LoadError> {
    let hear = |line| {
        if let CrowdLine::Progress { done } = line {
            progress(done);
        }
    };
    run(exe, plan, hear).await
}

/// The same for a plan with [`CrowdPlan::tells_buyers`]: `told` hears what each buyer was told.
///
/// # Errors
///
/// As [`send`].
pub async fn send_telling(
    exe: &Path,
    plan: &CrowdPlan,
    mut told: impl FnMut(BuyersTold),
) -> Result<CrowdReport, LoadError> {
    let hear = |line| {
        if let CrowdLine::Told(of_buyers) = line {
            told(of_buyers);
        }
    };
    run(exe, plan, hear).await
}

async fn run(
    exe: &Path,
    plan: &CrowdPlan,
    mut hear: impl FnMut(CrowdLine),
) -> Result<CrowdReport, LoadError> {
    let mut command = Command::new(exe);
    command.arg("crowd");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = ChildProcess::start(command, Signal::SIGKILL).map_err(LoadError::CrowdStart)?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) = child.pipes() else {
        return Err(LoadError::CrowdStart(io::ErrorKind::BrokenPipe.into()));
    };
    let plan = serde_json::to_vec(plan).map_err(|error| LoadError::CrowdStart(error.into()))?;
    let working = async {
        stdin.write_all(&plan).await.map_err(LoadError::CrowdStart)?;
        drop(stdin);
        let mut lines = BufReader::new(stdout).lines();
        let mut report = None;
        // A line that is none of a crowd's is no report either, and that is what is said of it.
        while let Ok(Some(line)) = lines.next_line().await {
            match serde_json::from_str(&line) {
                Ok(CrowdLine::Report(result)) => report = Some(result),
                Ok(line) => hear(line),
                Err(_) => {}
            }
        }
        Ok(report)
    };
    let (report, reason) = tokio::join!(working, last_line_of(stderr));
    let (report, status) = (report?, child.wait().await.map_err(LoadError::CrowdStart)?);
    report.ok_or(LoadError::CrowdEnded { status, reason })
}

/// Passes on what the process says on standard error, and returns the last line of it.
async fn last_line_of(stderr: impl AsyncRead + Unpin) -> Option<String> {
    let mut lines = BufReader::new(stderr).lines();
    let mut last = None;
    while let Ok(Some(line)) = lines.next_line().await {
        // Where nobody reads it, it is lost, and nothing else.
        let _ = tokio::io::stderr().write_all(format!("{line}\n").as_bytes()).await;
        last = Some(line).filter(|line| !line.trim().is_empty()).or(last);
    }
    last
}
