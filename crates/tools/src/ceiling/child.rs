//! Other people's programs: run to their end, or not for long.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nix::sys::signal::Signal;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use child_program::end_with_us;

/// Runs `command` with `input` to its end, and returns what it printed. It ends with us, and
/// when this is dropped.
///
/// Not to be called in a spawned task: on Linux the child ends with the *thread* that started
/// it, and only the main one lives as long as the program.
pub(super) async fn output_of(
    mut command: Command,
    input: &str,
    within: Duration,
) -> anyhow::Result<String> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    command
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C is for us: it is killed when we no longer wait.
        .process_group(0)
        .kill_on_drop(true);
    end_with_us(command.as_std_mut(), Signal::SIGKILL);
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    let mut stdin = child.stdin.take().context("a child has no input")?;
    let talk = async {
        // A child that does not read to the end has an answer, or a complaint.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        child.wait_with_output().await
    };
    let Ok(output) = timeout(within, talk).await else {
        bail!("{program} did not end within {} s", within.as_secs());
    };
    let output = output.with_context(|| format!("cannot wait for {program}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program} ended with {}: {}",
        output.status,
        last_lines(&complaint)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What a program complained of last.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}
