//! The life of one server process: start, wait until it answers, restart, stop.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use child_program::end_with_us;

use super::{account::Account, events::Events};
use crate::{Server, StoresError};

/// How long a server may stay silent after its start.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long it may answer "I am still starting": recovery after a crash.
const RECOVERY_MAX: Duration = Duration::from_secs(300);
/// How often it is asked.
const ASK_EVERY: Duration = Duration::from_millis(10);
/// When a stop is given up: some seconds after SIGKILL, which only a process in
/// uninterruptible sleep survives.
const STOP_MAX: Duration = Duration::from_secs(15);

/// Where one supervisor's servers live, and as whom.
pub(super) struct Site<'a> {
    /// Data and logs.
    pub(super) directory: &'a Path,
    pub(super) sockets: &'a Path,
    pub(super) account: &'a Account,
    pub(super) kept: bool,
    pub(super) durable: bool,
}

/// What a server says when asked whether it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    Ready,
    /// It answers, but is still loading or recovering.
    Starting,
    Silent,
}

/// How one kind of server differs from another.
pub(super) struct Hooks {
    /// The name of its data directory and its log.
    pub(super) name: &'static str,
    pub(super) socket: fn(&Path) -> PathBuf,
    /// Whether the server at a socket answers.
    pub(super) health: fn(&Path) -> Health,
    /// Clears what an earlier process left in the data directory and at the socket.
    pub(super) before_start: fn(&Path, &Path, &Events) -> Result<(), StoresError>,
    /// Ends what the server may have left running.
    pub(super) after_stop: fn(&Path),
    /// The signals of a stop, each with the time after which it is sent.
    pub(super) stop: &'static [(Duration, Signal)],
    /// The signal that the kernel sends when the supervisor dies.
    pub(super) orphaned: Signal,
}

/// A server and everything needed to start it once more.
pub(super) struct ServerProcess {
    server: Server,
    hooks: &'static Hooks,
    command: Command,
    data: PathBuf,
    socket: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

impl ServerProcess {
    /// Prepares `command` to run as a server at `site`: as its user, its output
    /// in the log, its end tied to ours.
    pub(super) fn prepare(
        server: Server,
        hooks: &'static Hooks,
        mut command: Command,
        site: &Site<'_>,
    ) -> Result<Self, StoresError> {
        let socket = (hooks.socket)(site.sockets);
        let log = site.directory.join(format!("{}.log", hooks.name));
        send_output_to(&mut command, &log)?;
        tie_to_supervisor(&mut command, site.account, hooks.orphaned);
        let data = site.directory.join(hooks.name);
        Ok(Self { server, hooks, command, data, socket, log, child: None })
    }

    pub(super) fn server(&self) -> Server {
        self.server
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Starts the server and waits until it answers. On failure it may be left
    /// running, for [`stop`].
    pub(super) fn start(&mut self, events: &Events) -> Result<(), StoresError> {
        (self.hooks.before_start)(&self.data, &self.socket, events)?;
        let child = self.command.spawn().map_err(|e| {
            StoresError::Server(format!(
                "cannot run {}: {e}",
                Path::new(self.command.get_program()).display()
            ))
        })?;
        self.child = Some(child);
        let began = Instant::now();
        let mut patience = SILENCE_MAX;
        loop {
            if let Some(status) = self.reap() {
                return Err(self.complaint(&format!("ended while it started ({status})")));
            }
            match (self.hooks.health)(&self.socket) {
                Health::Ready => return Ok(()),
                Health::Starting => patience = RECOVERY_MAX,
                Health::Silent => {}
            }
            if began.elapsed() > patience {
                return Err(
                    self.complaint(&format!("was not ready after {} s", patience.as_secs()))
                );
            }
            events.pause(ASK_EVERY)?;
        }
    }

    /// Stops the server, if it still runs, and starts it again.
    pub(super) fn restart(&mut self, events: &Events) -> Result<(), StoresError> {
        stop(std::slice::from_mut(self))?;
        self.start(events)
    }

    /// Collects the child if it has ended.
    pub(super) fn reap(&mut self) -> Option<std::process::ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.child = None;
        Some(status)
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid().and_then(|pid| i32::try_from(pid).ok()) {
            // The child is not reaped yet, so the number is still its own; a
            // process that is gone already needs no signal.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    fn complaint(&self, what: &str) -> StoresError {
        StoresError::Server(format!(
            "{} {what}; its log {} ends:\n{}",
            self.server,
            self.log.display(),
            log_tail(&self.log)
        ))
    }
}

/// Stops the servers side by side, with growing insistence. A paused one is
/// woken for it, since only SIGKILL reaches a process that is stopped.
pub(super) fn stop(processes: &mut [ServerProcess]) -> Result<(), StoresError> {
    let began = Instant::now();
    let mut sent = vec![0; processes.len()];
    while processes.iter().any(|process| process.child.is_some()) {
        for (process, sent) in processes.iter_mut().zip(&mut sent) {
            if process.reap().is_some() {
                continue;
            }
            while let Some((_, signal)) =
                process.hooks.stop.get(*sent).filter(|(after, _)| began.elapsed() >= *after)
            {
                process.signal(*signal);
                *sent += 1;
            }
            process.signal(Signal::SIGCONT);
        }
        if began.elapsed() > STOP_MAX {
            return Err(StoresError::Server(
                "a server survived SIGKILL; it must hang in the kernel".to_owned(),
            ));
        }
        thread::sleep(Duration::from_millis(2));
    }
    for process in processes.iter() {
        (process.hooks.after_stop)(&process.data);
    }
    Ok(())
}

/// Runs a preparatory program (`initdb`) to its end; its output goes to `log`.
pub(super) fn run_to_end(
    mut command: Command,
    account: &Account,
    log: &Path,
    events: &Events,
) -> Result<(), StoresError> {
    let program = Path::new(command.get_program()).display().to_string();
    send_output_to(&mut command, log)?;
    tie_to_supervisor(&mut command, account, Signal::SIGKILL);
    let mut child =
        command.spawn().map_err(|e| StoresError::Server(format!("cannot run {program}: {e}")))?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                return Err(StoresError::Server(format!(
                    "{program} failed ({status}); its log {} ends:\n{}",
                    log.display(),
                    log_tail(log)
                )));
            }
            Ok(None) => {}
            Err(e) => {
                return Err(StoresError::Server(format!("cannot wait for {program}: {e}")));
            }
        }
        if let Err(stopped) = events.pause(ASK_EVERY) {
            // It may have ended in this moment; either way it is reaped.
            let _ = child.kill();
            let _ = child.wait();
            return Err(stopped);
        }
    }
}

fn send_output_to(command: &mut Command, log: &Path) -> Result<(), StoresError> {
    let file = File::options()
        .create(true)
        .append(true)
        .open(log)
        .and_then(|file| Ok((file.try_clone()?, file)))
        .map_err(|e| StoresError::at("write", log, &e))?;
    command.stdin(Stdio::null()).stdout(file.0).stderr(file.1);
    Ok(())
}

/// Makes `command` run as `account`, and die with the supervisor's thread that spawns it.
fn tie_to_supervisor(command: &mut Command, account: &Account, farewell: Signal) {
    account.apply(command);
    end_with_us(command, farewell);
}

/// The last lines of a log, for an error message.
fn log_tail(log: &Path) -> String {
    const LINES: usize = 8;
    let text =
        fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
