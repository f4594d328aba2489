//! A server as a child process: started, paused, killed; and where it lives.

use std::collections::HashSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use child_process::{LoggedProcess, end_with_us};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use tempfile::TempDir;
use tokio::time::sleep;

use super::FaultError;
use super::patience::Patience;

/// Another process may take a free port before the server does; hardly ever twice.
const ATTEMPTS: usize = 5;

/// How long somebody's passing connection may have the port of a server that was down.
const PORT_FREE: Duration = Duration::from_millis(100);

/// A socket's path is no longer than 107 bytes; this leaves room for the names below it.
const BASE_MAX: usize = 64;
/// The same where directories of servers may lie in one directory more.
const PLACE_MAX: usize = 42;

/// A server's process: it runs, or is down. Dropping it kills it.
#[derive(Debug)]
pub struct FaultyProcess {
    server: &'static str,
    /// `None` while it is down.
    running: Option<LoggedProcess>,
}

impl FaultyProcess {
    /// It does not run yet.
    pub(super) fn down(server: &'static str) -> Self {
        Self { server, running: None }
    }

    /// Its id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(LoggedProcess::id)
    }

    /// `kill -9`; nothing when it is down already.
    pub fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.kill();
        }
    }

    /// Stops it in the middle of whatever it does; connections stay open.
    ///
    /// # Errors
    /// [`FaultError::Down`].
    pub fn pause(&self) -> Result<(), FaultError> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets one that was paused go on.
    ///
    /// # Errors
    /// [`FaultError::Down`].
    pub fn resume(&self) -> Result<(), FaultError> {
        self.signal(Signal::SIGCONT)
    }

    /// Whether it is down, or has ended by itself.
    #[cfg(feature = "postgres")]
    pub(super) fn has_ended(&mut self) -> bool {
        self.running.as_mut().is_none_or(|running| !matches!(running.ended(), Ok(None)))
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), FaultError> {
        let running = self.running.as_ref().ok_or(FaultError::Down(self.server))?;
        running.signal(signal).map_err(FaultError::system(format!("send {signal}")))
    }
}

impl Drop for FaultyProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server that does not serve yet.
pub(super) struct StartingProcess {
    process: FaultyProcess,
    /// `None` for one that listens on a UNIX socket alone.
    port: Option<u16>,
    patience: Patience,
}

impl StartingProcess {
    /// Starts `command`, which is to serve `port`, with its output at the end of `log`.
    pub(super) fn start(
        server: &'static str,
        mut command: Command,
        port: Option<u16>,
        log: &Path,
    ) -> Result<Self, FaultError> {
        end_with_us(&mut command, Signal::SIGKILL);
        let running = LoggedProcess::start(&mut command, log)
            .map_err(FaultError::system(format!("start {server}")))?;
        let process = FaultyProcess { server, running: Some(running) };
        Ok(Self { process, port, patience: Patience::until(format!("{server} answers")) })
    }

    /// Comes back when it is time to ask again whether it serves. Fails when it has ended.
    pub(super) async fn again(&mut self) -> Result<(), FaultError> {
        let server = self.process.server;
        let running = self.process.running.as_mut().ok_or(FaultError::Down(server))?;
        if let Ok(None) = running.ended() {
            return self.patience.again().await;
        }
        match self.port {
            Some(port) if running.log().contains("Address already in use") => {
                Err(FaultError::PortTaken { server, port })
            }
            _ => Err(FaultError::NotStarted { server, log: running.last_lines() }),
        }
    }

    /// It serves.
    pub(super) fn started(self) -> FaultyProcess {
        self.process
    }
}

/// How often a start found its port taken.
#[derive(Default)]
pub(super) struct PortAttempts(usize);

impl PortAttempts {
    /// Whether to start it again: somebody's connection has the port as its own end, and will not for long.
    pub(super) async fn again(&mut self, started: &Result<(), FaultError>) -> bool {
        self.0 += 1;
        let again = self.0 < ATTEMPTS && matches!(started, Err(FaultError::PortTaken { .. }));
        if again {
            sleep(PORT_FREE).await;
        }
        again
    }
}

/// Where a test or a tool puts what servers of another user have to enter: the usual place for temporary files, or
/// `/tmp` if that is closed to others, or its name too long for a socket below it.
#[must_use]
pub fn place_of_servers() -> PathBuf {
    let usual = std::env::temp_dir();
    let is_open = |step: &Path| fs::metadata(step).is_ok_and(|meta| meta.mode() & 0o001 != 0);
    // Only root's servers are another user's.
    let may_be_entered = !geteuid().is_root() || usual.ancestors().all(is_open);
    if usual.as_os_str().len() <= PLACE_MAX && may_be_entered { usual } else { "/tmp".into() }
}

/// A directory for one server, which goes when it is dropped; in `home`, if there is one. Only the user of this
/// process may enter it: a server that lives on a socket in it knows no other protection.
pub(super) fn directory(prefix: &str, home: Option<&Path>) -> Result<TempDir, FaultError> {
    let usual = home.map_or_else(place_of_servers, Path::to_owned);
    let base = if usual.as_os_str().len() > BASE_MAX { PathBuf::from("/tmp") } else { usual };
    tempfile::Builder::new()
        .prefix(prefix)
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(&base)
        .map_err(FaultError::system(format!("make a directory in {}", base.display())))
}

/// A port that nobody has, and that this process never gives out again: a server that is down
/// must not be mistaken for another.
pub(super) fn free_port() -> Result<u16, FaultError> {
    static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0));
        let port = listener
            .and_then(|listener| listener.local_addr())
            .map_err(FaultError::system("find a free port"))?
            .port();
        // A panic elsewhere leaves a set of numbers whole.
        if GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port) {
            return Ok(port);
        }
    }
}
