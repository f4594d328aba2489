//! The process of its own in which a crowd is made (`seckill-tools crowd`, hidden), as who starts it sees
//! it.

use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use super::LoadError;
use super::crowd::{BuyersTold, CrowdLine, CrowdPlan, CrowdReport};

/// Lets a process of the program `exe` send the crowd. `progress` is told, some times a
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
        if let CrowdLine::Progress { done, .. } = line {
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
    let mut child = Command::new(exe)
        .arg("crowd")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Ctrl-C is for us: it ends when we no longer read.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(LoadError::CrowdStart)?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(LoadError::CrowdStart(io::ErrorKind::BrokenPipe.into()));
    };
    let plan = serde_json::to_vec(plan).map_err(|error| LoadError::CrowdStart(error.into()))?;
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
    let status = child.wait().await.map_err(LoadError::CrowdStart)?;
    report.ok_or(LoadError::CrowdEnded(status))
}
