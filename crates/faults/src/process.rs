//! A server as a child process: started, paused, killed; and where it lives.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError, mpsc};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::FaultError;
use child_program::end_with_us;

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
    log: PathBuf,
    /// Where in the log this run begins.
    begin: u64,
    child: Child,
}

impl FaultyProcess {
    /// Starts `command`, which is to serve `port`, with its output at the end of `log`.
    pub(super) fn start(
        server: &'static str,
        mut command: Command,
        port: Option<u16>,
        log: &Path,
    ) -> Result<Self, FaultError> {
        let failed = || FaultError::system(format!("start {server}"));
        let file = File::options().create(true).append(true).open(log).map_err(failed())?;
        let begin = file.metadata().map_err(failed())?.len();
        let output = file.try_clone().map_err(failed())?;
        command.stdin(Stdio::null()).stdout(output).stderr(file);
        let child = spawn_tied(command).map_err(failed())?;
        Ok(Self { server, port, log: log.to_owned(), begin, child })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails when it has ended, which it must not while it starts.
    pub(super) fn still_runs(&mut self) -> Result<(), FaultError> {
        if let Ok(None) = self.child.try_wait() {
            return Ok(());
        }
        let log = self.log();
        if let Some(port) = self.port
            && log.contains("Address already in use")
        {
            return Err(FaultError::PortTaken { server: self.server, port });
        }
        Err(FaultError::NotStarted { server: self.server, log: last_lines(&log) })
    }

    fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let begin = usize::try_from(self.begin).unwrap_or(0).min(bytes.len());
        String::from_utf8_lossy(&bytes[begin..]).into_owned()
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), FaultError> {
        // The child is not reaped yet, so the number is still its own.
        signal_child(self.child.id(), signal)
            .map_err(|cause| FaultError::system(format!("send {signal}"))(cause.into()))
    }
}

/// Signals a child that has not been reaped. After `SIGSTOP` all of it has stopped when this returns,
/// or it has ended: otherwise some of its threads might go on for a moment, and answer.
pub fn signal_child(id: u32, signal: Signal) -> nix::Result<()> {
    let pid = Pid::from_raw(id.cast_signed());
    kill(pid, signal)?;
    if signal != Signal::SIGSTOP {
        return Ok(());
    }
    let until = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::Pid(pid), until) {
            Err(Errno::EINTR) => {}
            waited => return waited.map(drop),
        }
    }
}

impl Drop for FaultyProcess {
    fn drop(&mut self) {
        // Neither fails for a child that was not reaped; for one that was there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The kernel ties a child to the *thread* that made it. Those of a runtime come and go, so one
/// that stays makes them all.
fn spawn_tied(mut command: Command) -> io::Result<Child> {
    type SpawnRequest = (Command, mpsc::Sender<io::Result<Child>>);
    static MAKER: LazyLock<mpsc::Sender<SpawnRequest>> = LazyLock::new(|| {
        let (orders, queue) = mpsc::channel::<SpawnRequest>();
        std::thread::spawn(move || {
            for (mut command, made) in queue {
                // The caller waits for it.
                let _ = made.send(command.spawn());
            }
        });
        orders
    });
    end_with_us(&mut command, Signal::SIGKILL);
    let (made, child) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts servers is gone");
    MAKER.send((command, made)).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
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

fn last_lines(log: &str) -> String {
    const LINES: usize = 8;
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
