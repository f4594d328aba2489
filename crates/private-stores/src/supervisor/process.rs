//! The life of one server process: start, wait until it answers, restart, stop.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use child_process::{LoggedProcess, end_with_us};

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
    running: Option<LoggedProcess>,
}

impl ServerProcess {
    /// Prepares `command` to run as a server at `site`: as its user, its output
    /// in the log, its end tied to ours.
    pub(super) fn prepare(
        server: Server,
        hooks: &'static Hooks,
        mut command: Command,
        site: &Site<'_>,
    ) -> Self {
        let socket = (hooks.socket)(site.sockets);
        let log = site.directory.join(format!("{}.log", hooks.name));
        tie_to_supervisor(&mut command, site.account, hooks.orphaned);
        let data = site.directory.join(hooks.name);
        Self { server, hooks, command, data, socket, log, running: None }
    }

    pub(super) fn server(&self) -> Server {
        self.server
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(LoggedProcess::id)
    }

    /// Starts the server and waits until it answers. On failure it may be left
    /// running, for [`stop`].
    pub(super) fn start(&mut self, events: &Events) -> Result<(), StoresError> {
        (self.hooks.before_start)(&self.data, &self.socket, events)?;
        self.running = Some(run(&mut self.command, &self.log)?);
        let began = Instant::now();
        let mut patience = SILENCE_MAX;
        loop {
            if let Some(status) = self.status() {
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

    fn status(&mut self) -> Option<ExitStatus> {
        self.running.as_mut()?.ended().ok()?
    }

    /// Collects the child if it has ended.
    pub(super) fn reap(&mut self) {
        if self.status().is_some() {
            self.running = None;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(running) = &self.running {
            // A process that is gone already needs no signal.
            let _ = running.signal(signal);
        }
    }

    fn complaint(&self, what: &str) -> StoresError {
        let end = self.running.as_ref().map(|running| end_of(&self.log, running));
        StoresError::Server(format!("{} {what}; {}", self.server, end.unwrap_or_default()))
    }
}

/// Stops the servers side by side, with growing insistence. A paused one is
/// woken for it, since only SIGKILL reaches a process that is stopped.
pub(super) fn stop(processes: &mut [ServerProcess]) -> Result<(), StoresError> {
    let began = Instant::now();
    let mut sent = vec![0; processes.len()];
    while processes.iter().any(|process| process.running.is_some()) {
        for (process, sent) in processes.iter_mut().zip(&mut sent) {
            process.reap();
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
    tie_to_supervisor(&mut command, account, Signal::SIGKILL);
    let mut running = run(&mut command, log)?;
    loop {
        match running.ended() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                let end = end_of(log, &running);
                return Err(StoresError::Server(format!("{program} failed ({status}); {end}")));
            }
            Ok(None) => {}
            Err(e) => {
                return Err(StoresError::Server(format!("cannot wait for {program}: {e}")));
            }
        }
        if let Err(stopped) = events.pause(ASK_EVERY) {
            running.kill();
            return Err(stopped);
        }
    }
}

fn run(command: &mut Command, log: &Path) -> Result<LoggedProcess, StoresError> {
    LoggedProcess::start(command, log).map_err(|e| {
        let program = Path::new(command.get_program()).display();
        StoresError::Server(format!(
            "cannot run {program}, with its output in {}: {e}",
            log.display()
        ))
    })
}

/// Makes `command` run as `account`, and die with the supervisor.
fn tie_to_supervisor(command: &mut Command, account: &Account, farewell: Signal) {
    account.apply(command);
    end_with_us(command, farewell);
}

/// The last lines of a log, for an error message.
fn end_of(log: &Path, running: &LoggedProcess) -> String {
    format!("its log {} ends:\n{}", log.display(), running.last_lines())
}
