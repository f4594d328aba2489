//! The user's own commands: run by a shell, within a time, with an end to what they may print.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

/// How long a command may take.
pub const COMMAND_WITHIN: Duration = Duration::from_secs(30);
/// The most that it may print, in bytes.
const MAX_OUTPUT: u64 = 64 * 1024 * 1024;
/// So much of what it says is repeated, in characters.
const REPEATED: usize = 300;

/// Ends a command and all that it started, however it is left.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // None of it may be left.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

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
    let mut child = Command::new("sh")
        .args(["-c", command])
        .current_dir(directory)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot be started: {error}"))?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let mut group = ProcessGroup(pid.map(Pid::from_raw));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let running = async {
        let (said, complained) = tokio::join!(read(stdout), read(stderr));
        (child.wait().await, said, complained)
    };
    let done = timeout(within, running).await;
    let (status, said, complained) =
        done.map_err(|_| format!("took longer than {} s", within.as_secs_f64()))?;
    // The number may be another group's from now on.
    group.0 = None;
    let status = status.map_err(|error| format!("cannot be waited for: {error}"))?;
    let said = said.ok_or_else(|| format!("prints more than {MAX_OUTPUT} bytes"))?;
    if !status.success() {
        let complaint = shorten(&String::from_utf8_lossy(&complained.unwrap_or_default()));
        return Err(format!("fails ({status}): {complaint}"));
    }
    String::from_utf8(said).map_err(|_| "prints what is no text".to_owned())
}

/// All of it; `None`: it is too long.
async fn read(stream: Option<impl AsyncRead + Unpin>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What cannot be read is missing, and the status says why.
        let _ = stream.take(MAX_OUTPUT + 1).read_to_end(&mut bytes).await;
    }
    (bytes.len() as u64 <= MAX_OUTPUT).then_some(bytes)
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
