//! The user's own commands: run by a shell, within a time, with an end to what they may print.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use child_process::ChildProcess;
use nix::sys::signal::Signal;

/// How long a command may take.
pub const COMMAND_WITHIN: Duration = Duration::from_secs(30);
/// The most that it may print, in bytes.
const MAX_OUTPUT: u64 = 64 * 1024 * 1024;
/// So much of what it says is repeated, in characters.
const REPEATED: usize = 300;

/// Runs `command` by `sh -c` in `directory`. Returns what it prints.
///
/// # Errors
/// A sentence without a subject, when it fails, takes too long or prints too much.
pub async fn run(
    command: &str,
    directory: &Path,
    environment: &[(&str, &str)],
    within: Duration,
) -> Result<String, String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(directory).envs(environment.iter().copied());
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = ChildProcess::start(shell, Signal::SIGKILL);
    let running = running.map_err(|error| format!("cannot be started: {error}"))?;
    let output = running.output(within, MAX_OUTPUT).await.map_err(|error| error.to_string())?;
    if !output.status.success() {
        let complaint = shorten(&String::from_utf8_lossy(&output.stderr));
        return Err(format!("fails ({}): {complaint}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| "prints what is no text".to_owned())
}

/// On one line, and not too long.
#[must_use]
pub fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    match line.char_indices().nth(REPEATED) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line,
    }
}
