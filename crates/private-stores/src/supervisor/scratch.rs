//! A temporary directory with a short name: the home of the sockets, and of
//! everything else when the servers are thrown away.
//!
//! The supervisor removes it. If the supervisor was killed, its owner does; if both
//! were (the machine lost power, a container was killed), the next supervisor of
//! the same user sweeps it away: a `lock` file that nobody holds tells.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{Flock, FlockArg},
    unistd::geteuid,
};

use super::account::Account;
use crate::StoresError;
use crate::remains::remove_directory;

const PREFIX: &str = "seckill-servers-";
const RANDOM_LETTERS: usize = 6;
const LOCK: &str = "lock";

/// The longest socket path: `sun_path` less its final zero.
const SOCKET_PATH_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };
/// The longest socket name below the sockets' directory (PostgreSQL's).
const LONGEST_SOCKET: &str = "/sockets/.s.PGSQL.5432";

/// A temporary directory of a living supervisor. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Scratch {
    directory: PathBuf,
    _lock: Flock<File>,
}

impl Scratch {
    /// Makes the directory, and `sockets` in it for `account` alone.
    pub(super) fn create(account: &Account) -> Result<Self, StoresError> {
        let base = choose_base(&[std::env::temp_dir(), PathBuf::from("/tmp")], account)?;
        sweep(&base);
        let directory = tempfile::Builder::new()
            .prefix(PREFIX)
            .rand_bytes(RANDOM_LETTERS)
            .tempdir_in(&base)
            .map_err(|e| StoresError::at("make a temporary directory in", &base, &e))?;
        let lock = take_lock(directory.path(), account)
            .map_err(|e| StoresError::at("set up the temporary directory", directory.path(), &e))?;
        let scratch = Self { directory: directory.keep(), _lock: lock };
        account.private_directory(&scratch.sockets())?;
        Ok(scratch)
    }

    pub(super) fn path(&self) -> &Path {
        &self.directory
    }

    pub(super) fn sockets(&self) -> PathBuf {
        self.path().join("sockets")
    }

    /// Removes the directory, and says so when that fails.
    pub(super) fn remove(self) -> Result<(), StoresError> {
        remove_directory(&self.directory)
            .map_err(|e| StoresError::at("remove", &self.directory, &e))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // On the way out of a failure that is told already.
        let _ = remove_directory(&self.directory);
    }
}

/// The lock is taken before the file gets its name, so that no sweeper ever
/// sees a living supervisor's lock free.
fn take_lock(directory: &Path, account: &Account) -> io::Result<Flock<File>> {
    fs::set_permissions(directory, Permissions::from_mode(account.passage_mode()))?;
    let early = directory.join("lock.early");
    let lock =
        Flock::lock(File::create(&early)?, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| e)?;
    fs::rename(&early, directory.join(LOCK))?;
    Ok(lock)
}

/// The first of `bases` that leaves room for a socket path and lets `account` in.
fn choose_base(bases: &[PathBuf], account: &Account) -> Result<PathBuf, StoresError> {
    let mut refusal = String::new();
    for base in bases {
        let base = fs::canonicalize(base).unwrap_or_else(|_| base.clone());
        let length =
            base.as_os_str().len() + 1 + PREFIX.len() + RANDOM_LETTERS + LONGEST_SOCKET.len();
        if length > SOCKET_PATH_MAX {
            refusal = format!(
                "is too long a name: a socket in it would take {length} bytes of at most {SOCKET_PATH_MAX}"
            );
        } else if let Some(closed) = account.first_closed_directory(&base) {
            refusal = format!(
                "cannot be used: the user {} may not enter {}",
                account.name(),
                closed.display()
            );
        } else if !base.is_dir() {
            refusal = "is not a directory".to_owned();
        } else {
            return Ok(base);
        }
    }
    let names: Vec<String> = bases.iter().map(|base| base.display().to_string()).collect();
    Err(StoresError::Directory(format!(
        "no place for the servers' sockets in {}: the last {refusal}; set TMPDIR to a short, accessible directory",
        names.join(" or ")
    )))
}

/// Removes what supervisors that could not clean up left behind. Best effort.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let ours =
            entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == geteuid().as_raw());
        let Some(lock) = ours.then(|| File::open(entry.path().join(LOCK)).ok()).flatten() else {
            continue;
        };
        if Flock::lock(lock, FlockArg::LockExclusiveNonblock).is_ok() {
            // The guard is dropped already: the file goes, and nobody waits for it.
            let _ = remove_directory(&entry.path());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn anyone() -> Account {
        Account::choose(&[]).unwrap()
    }

    #[test]
    fn a_long_base_is_passed_over_for_a_short_one() {
        let long = PathBuf::from(format!("/tmp/{}", "x".repeat(80)));
        let base = choose_base(&[long.clone(), PathBuf::from("/tmp")], &anyone()).unwrap();
        assert_eq!(base, fs::canonicalize("/tmp").unwrap());
        let error = choose_base(&[long], &anyone()).unwrap_err();
        assert!(error.to_string().contains("too long a name"), "{error}");
    }

    #[test]
    fn sweeping_removes_the_abandoned_and_spares_the_living() {
        let base = tempfile::tempdir().unwrap();
        let abandoned = base.path().join(format!("{PREFIX}gone"));
        let living = base.path().join(format!("{PREFIX}here"));
        let starting = base.path().join(format!("{PREFIX}soon"));
        for directory in [&abandoned, &living, &starting] {
            fs::create_dir(directory).unwrap();
        }
        File::create(abandoned.join(LOCK)).unwrap();
        let _held = take_lock(&living, &anyone()).unwrap();
        sweep(base.path());
        assert!(!abandoned.exists() && living.exists() && starting.exists());
    }
}
