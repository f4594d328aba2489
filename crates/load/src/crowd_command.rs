//! The command `crowd` (hidden) of the programs that send crowds: the process of its own from which one is sent. A [`CrowdPlan`]
//! as JSON on stdin, [`CrowdLine`]s on stdout.
//!
//! It cannot outlive its owner by much: a line is written ten times a second or more, whether or
//! not there is anything new, and the first that finds no reader ends the process.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::LoadError;
use super::crowd::{BuyersTold, CrowdLine, CrowdPlan, CrowdReport};
use super::rush::{self, BuyerStates, Progress};

/// The longest plan that is read, in bytes: a million buyers with their tokens.
const MAX_PLAN_BYTES: u64 = 512 * 1024 * 1024;

/// Between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// The same where they tell of each buyer: somebody watches.
const BUYERS_EVERY: Duration = Duration::from_millis(50);

/// Runs the subcommand on this process' stdin and stdout.
///
/// # Errors
///
/// [`LoadError::CrowdPlan`] and [`LoadError::Unread`], and why the plan cannot be carried out.
pub async fn run() -> Result<(), LoadError> {
    run_on(tokio::io::stdin(), tokio::io::stdout()).await
}

/// Reads the plan from `input` to its end, and writes progress and report to `output`.
///
/// # Errors
///
/// As [`run`].
pub async fn run_on(
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> Result<(), LoadError> {
    let plan = read_plan(input).await.map_err(LoadError::CrowdPlan)?;
    let (progress, every) = match plan.tells_buyers {
        true => (Progress::of_buyers(plan.buyers.len()), BUYERS_EVERY),
        false => (Progress::default(), PROGRESS_EVERY),
    };
    let progress = Arc::new(progress);
    let mut rush = pin!(rush::run(plan.rush_plan()?, Arc::clone(&progress)));
    let mut tick = interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (begun, mut seen) = (Instant::now(), BuyerStates::default());
    let mut line = || match plan.tells_buyers {
        true => {
            let at_ms = begun.elapsed().as_millis() as u64;
            // In this order: no yes is counted whose buyer or whose request is not.
            let ordered = progress.ordered();
            let changes = seen.changes(&progress);
            CrowdLine::Told(BuyersTold { at_ms, done: progress.done(), ordered, changes })
        }
        false => CrowdLine::Progress { done: progress.done() },
    };
    let result = loop {
        tokio::select! {
            result = &mut rush => break result?,
            _ = tick.tick() => write_line(&mut output, &line()).await?,
        }
    };
    if plan.tells_buyers {
        // What came since the last tick.
        write_line(&mut output, &line()).await?;
    }
    write_line(&mut output, &CrowdLine::Report(CrowdReport::new(&plan, result))).await
}

async fn read_plan(input: impl AsyncRead + Unpin) -> io::Result<CrowdPlan> {
    let mut json = Vec::new();
    input.take(MAX_PLAN_BYTES + 1).read_to_end(&mut json).await?;
    if json.len() as u64 > MAX_PLAN_BYTES {
        return Err(io::Error::other(format!("it is longer than {MAX_PLAN_BYTES} bytes")));
    }
    Ok(serde_json::from_slice(&json)?)
}

/// Writes one line, and lets it out at once.
async fn write_line(
    output: &mut (impl AsyncWrite + Unpin),
    line: &CrowdLine,
) -> Result<(), LoadError> {
    let writing = async {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        output.write_all(&text).await?;
        output.flush().await
    };
    writing.await.map_err(LoadError::Unread)
}
