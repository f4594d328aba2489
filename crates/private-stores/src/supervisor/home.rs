//! A kept home: the directory whose data outlives the servers.
//!
//! ```text
//! lock            held (flock) by the supervisor that owns the home
//! servers.json    while the servers are ready: how to reach them
//! postgres/ redis/            data, owned by the servers' user
//! postgres.log redis.log      this run's; `.log.old` is the last run's
//! ```

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    unistd::geteuid,
};

use super::{account::Account, events::Events, postgres, process::Health, redis};
use crate::{Plan, Server, StoresError, protocol::Running, remains::if_there};

/// How long another supervisor may be neither ready nor gone.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// What seckill itself puts into its data directory. One that holds nothing
/// else is ours to open to the servers' user.
const OUR_NAMES: &[&str] =
    &["lock", "postgres", "postgres.log", "redis", "redis.log", "secret", "servers.json"];

/// What came of asking for a home.
pub(super) enum HomeClaim {
    /// It is ours.
    Owned(KeptHome),
    /// A living supervisor has it, and its servers answer.
    Attached(Running),
}

/// A home this supervisor holds.
pub(super) struct KeptHome {
    directory: PathBuf,
    _lock: Flock<File>,
}

impl KeptHome {
    /// Takes the home, or finds the servers of the supervisor that has it.
    pub(super) fn claim(
        directory: &Path,
        plan: &Plan,
        account: &Account,
        events: &Events,
    ) -> Result<HomeClaim, StoresError> {
        make_directory(directory, account)?;
        if let Some(closed) = account.first_closed_directory(directory) {
            return Err(StoresError::Directory(format!(
                "the servers run as the user {}, who may not enter {}: choose another directory with --data-dir",
                account.name(),
                closed.display()
            )));
        }
        let path = directory.join("lock");
        let mut lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|e| StoresError::at("open", &path, &e))?;
        let began = Instant::now();
        loop {
            match Flock::lock(lock, FlockArg::LockExclusiveNonblock) {
                Ok(held) => return Self::take_over(directory, held).map(HomeClaim::Owned),
                Err((file, Errno::EWOULDBLOCK)) => lock = file,
                Err((_, e)) => return Err(StoresError::at("lock", &path, &e.into())),
            }
            if let Some(running) = read_answering(directory) {
                return attach(directory, running, plan).map(HomeClaim::Attached);
            }
            if began.elapsed() > WAIT_MAX {
                return Err(StoresError::Busy(format!(
                    "another seckill process holds {} but its servers do not answer: wait until it is ready or \
                     gone, or choose another directory with --data-dir",
                    directory.display()
                )));
            }
            events.pause(Duration::from_millis(20))?;
        }
    }

    fn take_over(directory: &Path, lock: Flock<File>) -> Result<Self, StoresError> {
        let home = Self { directory: directory.to_owned(), _lock: lock };
        home.withdraw()?;
        for name in ["postgres.log", "redis.log"] {
            let log = directory.join(name);
            if_there(fs::rename(&log, log.with_extension("log.old")))
                .map_err(|e| StoresError::at("rename", &log, &e))?;
        }
        Ok(home)
    }

    /// Tells other processes how to reach the servers, in one step.
    pub(super) fn publish(&self, running: &Running) -> Result<(), StoresError> {
        let path = self.directory.join("servers.json");
        let early = self.directory.join("servers.json.early");
        let write = || -> io::Result<()> {
            let mut file =
                File::options().create(true).truncate(true).write(true).mode(0o600).open(&early)?;
            file.write_all(&serde_json::to_vec_pretty(running)?)?;
            fs::rename(&early, &path)
        };
        write().map_err(|e| StoresError::at("write", &path, &e))
    }

    /// Takes that back; nobody attaches from now on.
    pub(super) fn withdraw(&self) -> Result<(), StoresError> {
        let path = self.directory.join("servers.json");
        if_there(fs::remove_file(&path)).map_err(|e| StoresError::at("remove", &path, &e))
    }
}

/// Makes the directory and what is missing on the way to it.
fn make_directory(directory: &Path, account: &Account) -> Result<(), StoresError> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|path| !path.exists()).collect();
    for path in missing.iter().rev() {
        let mode = if *path == directory { account.passage_mode() } else { 0o755 };
        // Twice: at creation, so that it is never wider; then again, whatever the umask took away.
        DirBuilder::new()
            .mode(mode)
            .create(path)
            .or_else(|e| if e.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(e) })
            .and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)))
            .map_err(|e| StoresError::at("make the directory", path, &e))?;
    }
    if missing.is_empty()
        && account.first_closed_directory(directory).as_deref() == Some(directory)
        && is_ours(directory)
    {
        fs::set_permissions(directory, Permissions::from_mode(account.passage_mode()))
            .map_err(|e| StoresError::at("open to the servers' user", directory, &e))?;
    }
    Ok(())
}

/// Whether an existing directory belongs to us and to nothing but seckill.
fn is_ours(directory: &Path) -> bool {
    let owned = fs::metadata(directory).is_ok_and(|meta| meta.uid() == geteuid().as_raw());
    let Ok(mut entries) = fs::read_dir(directory) else {
        return false;
    };
    let known = |name: &str| {
        OUR_NAMES.iter().any(|ours| name.strip_prefix(ours).is_some_and(is_suffix_of_ours))
    };
    owned
        && entries
            .all(|entry| entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(known)))
}

fn is_suffix_of_ours(rest: &str) -> bool {
    ["", ".old", ".early", ".unfinished"].contains(&rest)
}

/// What `servers.json` says, if every server in it answers: a file that a killed
/// supervisor left may be there for a moment after the next one took the lock.
fn read_answering(directory: &Path) -> Option<Running> {
    let running: Running =
        serde_json::from_slice(&fs::read(directory.join("servers.json")).ok()?).ok()?;
    let postgres = || postgres::health(&postgres::socket(&running.sockets)) == Health::Ready;
    let redis = || redis::health(&redis::socket(&running.sockets)) == Health::Ready;
    let answer =
        (running.database_url.is_none() || postgres()) && (running.redis_url.is_none() || redis());
    answer.then_some(running)
}

/// The servers that `plan` wants of those that run.
fn attach(directory: &Path, mut running: Running, plan: &Plan) -> Result<Running, StoresError> {
    for (wanted, server, url, pid) in [
        (plan.postgres, Server::Postgres, &mut running.database_url, &mut running.postgres_pid),
        (plan.redis, Server::Redis, &mut running.redis_url, &mut running.redis_pid),
    ] {
        if wanted && url.is_none() {
            return Err(StoresError::Busy(format!(
                "the seckill process that holds {} runs no {server}: set its URL as that process does, or stop it",
                directory.display()
            )));
        }
        if !wanted {
            (*url, *pid) = (None, None);
        }
    }
    Ok(running)
}
