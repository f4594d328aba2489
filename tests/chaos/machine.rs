//! What takes more than a signal: a disk that can be full, and a clock that can jump. Not every
//! machine allows them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use private_stores::{Home, Plan, Servers};
use tempfile::TempDir;

use super::plan::Fault;
use testkit::processes::place;

/// Room for the data of all the rounds of a run, and for PostgreSQL's log of what it writes.
const ROOM: &str = "1g";

/// What this machine allows.
pub struct Machine {
    disk: Result<(), String>,
    clock: Result<PathBuf, String>,
}

impl Machine {
    pub fn look() -> Self {
        Self { disk: try_disk(), clock: find_faketime() }
    }

    /// Why this machine has no such fault, if it has none.
    pub fn refuses(&self, fault: Fault) -> Option<&str> {
        match fault {
            Fault::DiskFull(_) => self.disk.as_ref().err().map(String::as_str),
            Fault::ClockJump(_) => self.clock.as_ref().err().map(String::as_str),
            _ => None,
        }
    }

    /// A clock for one node.
    pub fn clock(&self) -> Clock {
        Clock::new(self.clock.as_ref().expect("the fault was not refused").clone())
    }
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned()
}

fn try_disk() -> Result<(), String> {
    let place = place();
    let mut command = Command::new("unshare");
    command.args(["--mount", "mount", "-t", "tmpfs", "tmpfs"]).arg(place.path());
    let output = command.output().map_err(|error| format!("unshare: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(words(&output)) }
}

fn find_faketime() -> Result<PathBuf, String> {
    let in_usual_places =
        ["/usr/lib", "/usr/lib64", "/usr/local/lib"].into_iter().flat_map(|lib| {
            let below = fs::read_dir(lib).into_iter().flatten().flatten().map(|entry| entry.path());
            [PathBuf::from(lib)].into_iter().chain(below)
        });
    in_usual_places
        .flat_map(|lib| [lib.join("faketime"), lib])
        .map(|directory| directory.join("libfaketimeMT.so.1"))
        .find(|library| library.exists())
        .ok_or_else(|| "libfaketime is not installed".to_owned())
}

/// A small file system, on which servers keep their data. It is mounted where those servers
/// alone see it, so that it goes with the last of them.
pub struct SmallDisk {
    mount_point: TempDir,
    /// The servers' supervisor.
    supervisor: u32,
}

impl SmallDisk {
    pub fn start() -> (Self, Servers) {
        let (mount_point, script) = (place(), place());
        // What takes the place of the program that is to keep the servers: it becomes that
        // program, on the small disk.
        let program = script.path().join("private-stores");
        let text = format!(
            "#!/bin/sh\nexec unshare --mount sh -ec 'mount -t tmpfs -o size={ROOM},mode=755 tmpfs \
             \"$1\"; shift; exec \"$@\"' sh '{}' '{}' \"$@\"\n",
            mount_point.path().display(),
            testkit::processes::program("private-stores").display(),
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let home = Home::Kept(mount_point.path().join("data"));
        let plan = Plan { home, postgres: true, redis: true, durable: true };
        let servers = Servers::start_by(&program, &plan).unwrap();
        let supervisor = servers.supervisor_pid().unwrap();
        (Self { mount_point, supervisor }, servers)
    }

    /// Not one block is left.
    pub fn fill(&self) {
        // A server may write between the two.
        let filled = (0..50).any(|_| {
            self.run("mount -o remount,size=$(df --output=used -k \"$1\" | tail -n 1 | tr -d ' ')k \"$1\"")
        });
        assert!(filled, "the disk cannot be filled");
    }

    pub fn free(&self) {
        assert!(self.run(&format!("mount -o remount,size={ROOM} \"$1\"")));
    }

    fn run(&self, script: &str) -> bool {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.supervisor.to_string(), "--mount", "sh", "-ec", script]);
        command.arg("sh").arg(self.mount_point.path()).output().unwrap().status.success()
    }
}

/// A clock that one node is started with.
pub struct Clock {
    directory: TempDir,
    library: PathBuf,
}

impl Clock {
    fn new(library: PathBuf) -> Self {
        let clock = Self { directory: place(), library };
        clock.show(0);
        clock
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("offset")
    }

    /// From now on (the library looks once a second) it is so many minutes fast.
    pub fn show(&self, minutes: i64) {
        let early = self.directory.path().join("early");
        fs::write(&early, format!("{minutes:+}m\n")).unwrap();
        fs::rename(early, self.file()).unwrap();
    }

    /// The clock jumps as when an operator sets it: what measures a span of time does not.
    pub fn apply(&self, command: &mut tokio::process::Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", self.file())
            .env("FAKETIME_CACHE_DURATION", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}
