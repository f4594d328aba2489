//! A server as a child process: started, paused, killed; and where it lives.

use std::collections::HashSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

use child_process::{LoggedProcess, end_with_us};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::FaultError;

/// Another process may take a free port before the server does; hardly ever twice.
pub(super) const ATTEMPTS: usize = 5;

/// A socket's path is no longer than 107 bytes; this leaves room for the names below it.
const BASE_MAX: usize = 64;

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(super) struct FaultyProcess {
    server: &'static str,
    /// `None` for one that listens on a UNIX socket alone.
    port: Option<u16>,
    running: LoggedProcess,
}

impl FaultyProcess {
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
        Ok(Self { server, port, running })
    }

    pub(super) fn pid(&self) -> u32 {
        self.running.id()
    }

    /// Fails when it has ended, which it must not while it starts.
    pub(super) fn still_runs(&mut self) -> Result<(), FaultError> {
        if let Ok(None) = self.running.ended() {
            return Ok(());
        }
        if let Some(port) = self.port
            && self.running.log().contains("Address already in use")
        {
            return Err(FaultError::PortTaken { server: self.server, port });
        }
        Err(FaultError::NotStarted { server: self.server, log: self.running.last_lines() })
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), FaultError> {
        self.running.signal(signal).map_err(FaultError::system(format!("send {signal}")))
    }
}

impl Drop for FaultyProcess {
    fn drop(&mut self) {
        self.running.kill();
    }
}

/// A directory for one server, which goes when it is dropped; in `home`, if there is one. Only the user of this
/// process may enter it: a server that lives on a socket in it knows no other protection.
pub(super) fn directory(prefix: &str, home: Option<&Path>) -> Result<TempDir, FaultError> {
    let usual = home.map_or_else(std::env::temp_dir, Path::to_owned);
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
