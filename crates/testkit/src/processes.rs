//! Processes as a test sees them: who lives, whose children, where; and `seckill` itself as
//! one of them.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use child_process::ChildProcess;
use faults::place_of_servers;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::program::Program;
use crate::wait::must;

/// A program of this workspace, which lies beside the tests.
pub fn program(name: &str) -> PathBuf {
    need(name);
    child_process::beside(name).unwrap()
}

/// A copy of such a program, which any user may run as long as the directory is kept: the one where programs are built
/// may be closed to others.
pub fn open_program(name: &str) -> (TempDir, PathBuf) {
    let place = place();
    let copy = place.path().join(name);
    fs::copy(program(name), &copy).unwrap();
    (place, copy)
}

/// Builds a program that a run of one crate's tests has not built: `cargo test` builds the programs of the
/// crates that it tests, and not those of their dependencies.
pub fn need(name: &str) {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock();
    if child_process::beside(name).unwrap().is_file() {
        return;
    }
    #[allow(clippy::disallowed_methods)] // Cargo tells tests where it is
    let cargo = std::env::var_os("CARGO").expect("the programs are built, or Cargo runs the tests");
    let built = std::process::Command::new(cargo)
        .args(["build", "--workspace", "--bin", name])
        .status()
        .unwrap();
    assert!(built.success(), "{name} could not be built");
}

pub fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.try_into().unwrap()), signal).unwrap();
}

/// Signals a server and all its sessions: the first process first, so that it starts no more of
/// them.
pub fn send_with_children(pid: u32, signal: Signal) {
    let sessions = children_of(pid);
    send(pid, signal);
    for session in sessions.into_iter().chain(children_of(pid)) {
        // A session may have ended by itself meanwhile.
        let _ = kill(Pid::from_raw(session.cast_signed()), signal);
    }
}

/// The fields of `/proc/<pid>/stat` after the name; `None` when there is no such process.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}

/// A zombie is dead: whoever inherits it may take its time to reap it.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields[0] != "Z")
}

fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

pub fn children_of(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| stat(*pid).is_some_and(|fields| fields[1] == parent.to_string());
    all().into_iter().filter(is_child).collect()
}

/// Children, their children, and so on.
pub fn descendants_of(parent: u32) -> Vec<u32> {
    let mut found = children_of(parent);
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children_of(*pid));
        next += 1;
    }
    found
}

/// Everything that was started with `TMPDIR=place`, or works in a directory below it:
/// servers overwrite their environment with their title, but they live in their data.
pub fn living_in(place: &Path) -> Vec<u32> {
    let mark = format!("TMPDIR={}\0", place.display());
    let marked = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    let within = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|path| path.starts_with(place))
    };
    all().into_iter().filter(|pid| is_alive(*pid) && (marked(pid) || within(pid))).collect()
}

/// A directory that the servers' user can enter, and that is the test's own.
pub fn place() -> TempDir {
    let place = tempfile::Builder::new().prefix("seckill-test-").tempdir_in(place_of_servers());
    let place = place.unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    place
}

/// `seckill` with nothing configured but what the test adds.
pub fn seckill(arguments: &[&str]) -> Command {
    let mut command = Command::new(program("seckill"));
    command.args(arguments).env("RUST_LOG", "error").kill_on_drop(true);
    for name in ["DATABASE_URL", "REDIS_URL"] {
        command.env_remove(name);
    }
    #[allow(clippy::disallowed_methods)] // to keep a developer's own settings out
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SECKILL_") {
            command.env_remove(name);
        }
    }
    command
}

/// A running `seckill serve`.
pub struct Node {
    pub address: SocketAddr,
    child: ChildProcess,
    /// What follows the line with its address.
    output: Lines<BufReader<ChildStdout>>,
    log: Arc<Mutex<String>>,
    log_reader: JoinHandle<()>,
    /// Its end is the node's, too, where the node was told so: none of those outlives a test that was killed.
    _stdin: Option<ChildStdin>,
}

impl Node {
    /// `seckill serve` in these surroundings, on a port of its own.
    pub async fn serve(program: &Program, arguments: &[&str]) -> Self {
        let mut command = program.command(&["serve", "--listen", "127.0.0.1:0"]);
        Self::start(command.args(arguments).stderr(Stdio::piped())).await
    }

    /// Runs `command`, a `serve`, and waits until it listens. Its log is kept where it is a pipe.
    pub async fn start(command: &mut Command) -> Self {
        Self::listening(command.arg("--until-stdin-closes").stdin(Stdio::piped())).await
    }

    /// The same of one that ends by a signal alone, as people run it.
    pub async fn listening(command: &mut Command) -> Self {
        command.stdout(Stdio::piped());
        let command = std::mem::replace(command, Command::new(""));
        // One that is stopped does not notice that its input has ended.
        let mut child = ChildProcess::start(command, Signal::SIGKILL).unwrap();
        let (stdin, stdout, stderr) = child.pipes();
        let log = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&log);
        let log_reader = tokio::spawn(async move {
            let Some(stderr) = stderr else { return };
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                *kept.lock().unwrap() += &(line + "\n");
            }
        });
        let mut output = BufReader::new(stdout.unwrap()).lines();
        let listens = async {
            loop {
                let line = output.next_line().await.unwrap().expect("the node listens");
                let address = line.strip_prefix("listening on http://");
                if let Some(address) = address.and_then(|address| address.parse().ok()) {
                    return address;
                }
            }
        };
        let address = must("the node listens", listens).await;
        Self { address, child, output, log, log_reader, _stdin: stdin }
    }

    pub fn pid(&self) -> u32 {
        self.child.id().expect("the node runs")
    }

    pub fn send(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub async fn ended(&mut self) -> ExitStatus {
        must("the node ends", self.child.wait()).await.unwrap()
    }

    /// Tells it to stop, and returns what it logged. On its output nothing followed its address.
    pub async fn stop(mut self) -> String {
        self.send(Signal::SIGTERM);
        let status = self.ended().await;
        must("the log ends", &mut self.log_reader).await.unwrap();
        assert!(status.success(), "{status}: {}", self.log());
        assert_eq!(must("the output ends", self.output.next_line()).await.unwrap(), None);
        self.log()
    }
}

impl Drop for Node {
    /// Tells of the node what a test that fails may have met.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let last = log.lines().count().saturating_sub(100);
            log.lines().skip(last).for_each(|line| eprintln!("{}: {line}", self.address));
        }
    }
}
