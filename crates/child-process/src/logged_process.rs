//! A program whose output goes to a file.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use nix::sys::signal::Signal;

/// A running program whose output goes to the end of a file, which tells why it failed.
///
/// It goes on when this is dropped: its owner says how it ends.
#[derive(Debug)]
pub struct LoggedProcess {
    child: Child,
    log: PathBuf,
    /// Where in the log this run begins.
    begin: u64,
}

impl LoggedProcess {
    /// Starts `command`, which may be started again later, as [`spawn`](crate::spawn) does.
    ///
    /// # Errors
    /// When it cannot be started, or the log cannot be written.
    pub fn start(command: &mut Command, log: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let begin = file.metadata()?.len();
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = crate::spawn(command)?;
        Ok(Self { child, log: log.to_owned(), begin })
    }

    /// Its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Signals it; see [`signal`](crate::signal).
    ///
    /// # Errors
    /// When it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        crate::signal(self.id(), signal)
    }

    /// SIGKILL, and waits until it is gone. One that has ended is left alone.
    pub fn kill(&mut self) {
        // Neither fails for a child that was not reaped; for one that was there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What this run has written to the log.
    #[must_use]
    pub fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let begin = usize::try_from(self.begin).unwrap_or(0).min(bytes.len());
        String::from_utf8_lossy(&bytes[begin..]).into_owned()
    }

    /// The last lines of it, for the report of a failure.
    #[must_use]
    pub fn last_lines(&self) -> String {
        const LINES: usize = 8;
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}
