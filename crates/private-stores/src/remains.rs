//! What a supervisor that was killed leaves: processes of PostgreSQL, directories.

use std::{
    fs, io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Longer than the processes of a killed server take to notice.
pub(super) const REMAINS_MAX: Duration = Duration::from_secs(10);

/// How long a killed process may go on writing.
const DYING_MAX: Duration = Duration::from_secs(5);

/// Kills what a dead server left, and waits until it is gone: a session that
/// was paused, for one, has not noticed anything.
pub(super) fn kill_remains(data: &Path) {
    let began = Instant::now();
    loop {
        let alive = processes_in(data);
        if alive.is_empty() || began.elapsed() > REMAINS_MAX {
            return;
        }
        for pid in alive {
            // Gone meanwhile is as good as killed.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The PostgreSQL processes of the cluster in `data`: each has it as its working
/// directory. Unlike the number in `postmaster.pid` that also finds sessions
/// that outlived a killed server, beside which no new one may start.
#[cfg(target_os = "linux")]
pub(super) fn processes_in(data: &Path) -> Vec<i32> {
    use std::os::unix::fs::MetadataExt;
    let (Ok(data), Ok(entries)) = (fs::metadata(data), fs::read_dir("/proc")) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .filter(|(_, path)| {
            fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == "postgres")
        })
        .filter(|(_, path)| {
            fs::metadata(path.join("cwd"))
                .is_ok_and(|cwd| (cwd.dev(), cwd.ino()) == (data.dev(), data.ino()))
        })
        .map(|(pid, _)| pid)
        .collect()
}

/// Without `/proc`: the process that `postmaster.pid` names, if it lives.
#[cfg(not(target_os = "linux"))]
pub(super) fn processes_in(data: &Path) -> Vec<i32> {
    let named = fs::read_to_string(data.join("postmaster.pid")).ok();
    let pid = named.and_then(|text| text.lines().next()?.parse::<i32>().ok());
    pid.filter(|pid| kill(Pid::from_raw(*pid), None).is_ok()).into_iter().collect()
}

/// The result of removing or moving what need not be there.
pub(super) fn if_there(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Removes a directory, if it is there, from under processes that are just
/// dying: one that creates a file in this moment makes the removal fail once.
pub(super) fn remove_directory(path: &Path) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match if_there(fs::remove_dir_all(path)) {
            Err(e)
                if e.kind() == io::ErrorKind::DirectoryNotEmpty && began.elapsed() < DYING_MAX =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
}
