//! The command that runs under the lock: started, told of signals, ended.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use child_program::end_with_us;

/// What a signal that asks the program to end is passed on as.
pub(super) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::SIGINT,
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = self.hang_up.recv() => Signal::SIGHUP,
        }
    }
}

/// A running command.
pub(super) struct ChildCommand {
    child: Child,
    pid: Pid,
    /// Whether it leads a process group of its own. At a terminal it does not: it could not
    /// read from it then, and Ctrl-C would not reach it.
    leads_a_group: bool,
}

impl ChildCommand {
    /// Starts `command`.
    ///
    /// # Errors
    /// Those of the system: no such file, not executable.
    pub(super) fn start(mut command: Command, at_a_terminal: bool) -> io::Result<Self> {
        if !at_a_terminal {
            command.process_group(0);
        }
        // Should this program be killed, nobody renews the lock: the command must end too. Where
        // the system cannot do that (only Linux can) the command goes on without the lock.
        end_with_us(command.as_std_mut(), Signal::SIGTERM);
        let child = command.spawn()?;
        let pid = child.id().map(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.ok_or_else(|| io::Error::other("the command has no process"))?;
        Ok(Self { child, pid, leads_a_group: !at_a_terminal })
    }

    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Passes a signal on, with a group of its own to whatever the command has started.
    pub(super) fn signal(&self, signal: Signal) {
        // The terminal has sent it to the command as well.
        if signal == Signal::SIGINT && !self.leads_a_group {
            return;
        }
        let sent =
            if self.leads_a_group { killpg(self.pid, signal) } else { kill(self.pid, signal) };
        if let Err(error) = sent {
            tracing::debug!(%error, "the command is gone already");
        }
    }

    /// Asks it to end, and after `grace` ends it.
    pub(super) async fn stop(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.signal(Signal::SIGTERM);
        if let Ok(status) = timeout(grace, self.child.wait()).await {
            return status;
        }
        self.signal(Signal::SIGKILL);
        self.child.wait().await
    }
}

/// As shells say it: 128 and the number of the signal for a command that a signal ended.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
