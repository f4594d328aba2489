//! `seckill steady` (hidden): the process of its own in which a steady load is made. One
//! [`SteadyPlan`] as JSON on stdin, [`SteadyLine`]s on stdout; it ends with its reader as
//! [`crowd`](super::crowd) does.

use std::pin::pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{MissedTickBehavior, interval};

use super::crowd::{PROGRESS_EVERY, read_plan, write_line};
use load::steady::{self, Progress, SteadyLine, SteadyPlan};

/// Runs the subcommand on this process' stdin and stdout.
///
/// # Errors
///
/// When the plan cannot be read or carried out, and when nobody reads the output.
pub async fn run() -> anyhow::Result<()> {
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
) -> anyhow::Result<()> {
    let plan: SteadyPlan = read_plan(input, "a steady load's").await?;
    let total = plan.total_ms();
    let progress = Arc::new(Progress::default());
    let mut load = pin!(steady::run(plan, Arc::clone(&progress)));
    let mut tick = interval(PROGRESS_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let report = loop {
        tokio::select! {
            report = &mut load => break report?,
            _ = tick.tick() => {
                // The last answers may come after the time in which requests become due.
                let line = SteadyLine::Progress { done: progress.done().min(total), total };
                write_line(&mut output, &line).await?;
            }
        }
    };
    write_line(&mut output, &SteadyLine::Report(report)).await
}
