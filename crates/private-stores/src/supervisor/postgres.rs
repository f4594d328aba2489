//! What is PostgreSQL's own: the cluster, the settings, what a crash leaves.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::{
    account::Account,
    events::Events,
    postgres_session::{converse, sqlstate},
    process::{Health, Hooks, ServerProcess, Site, run_to_end},
};
use crate::{
    Home, Plan, Server, StoresError,
    binaries::{Binaries, PostgresBinaries, first_number},
    remains::{REMAINS_MAX, if_there, kill_remains, processes_in, remove_directory},
};

/// What makes a server a PostgreSQL. It stops fast (ends the sessions, writes a checkpoint), then at
/// once (recovers next time), then by a kill. Its death with the supervisor is a SIGQUIT, so that it takes
/// its own children along.
const HOOKS: Hooks = Hooks {
    name: "postgres",
    socket,
    health,
    before_start: clear_remains,
    after_stop: kill_remains,
    stop: &[
        (Duration::ZERO, Signal::SIGINT),
        (Duration::from_secs(5), Signal::SIGQUIT),
        (Duration::from_secs(10), Signal::SIGKILL),
    ],
    orphaned: Signal::SIGQUIT,
};

const DATABASE: &str = "seckill";
const SOCKET: &str = ".s.PGSQL.5432";
/// What the caller's environment says about PostgreSQL is about another one.
const FOREIGN: &[&str] = &[
    "PGDATA",
    "PGPORT",
    "PGHOST",
    "PGUSER",
    "PGDATABASE",
    "PGOPTIONS",
    "PGTZ",
    "PGCLIENTENCODING",
];

const SETTINGS: &[&str] = &[
    "listen_addresses=",
    "port=5432",
    "max_connections=400",
    // What PostgreSQL takes by itself (128 MB) holds three hundred thousand orders with their
    // indexes; beyond that each would cost half as much again.
    "shared_buffers=512MB",
    // Nobody replicates from a private server: less to write for each commit.
    "wal_level=minimal",
    "max_wal_senders=0",
    // No checkpoint in the middle of a measurement.
    "max_wal_size=1GB",
    "checkpoint_timeout=15min",
    // Short statements only: compiling them costs more than running them.
    "jit=off",
    "logging_collector=off",
    // A refused duplicate is an ordinary answer here and an ERROR to PostgreSQL:
    // a sale would write thousands. (`log` ranks above `error` in this setting.)
    "log_min_messages=log",
];

/// Nothing waits for the disk. A commit is still handed to the system before it is
/// acknowledged, so that a killed server loses none; a killed machine may.
const CARELESS: &[&str] = &["fsync=off", "full_page_writes=off"];

/// An installed PostgreSQL and the user who may run it, for one who starts it without us.
#[derive(Debug, Clone)]
pub struct PostgresPrograms {
    directory: PathBuf,
    account: Account,
}

impl PostgresPrograms {
    /// Finds it.
    ///
    /// # Errors
    /// [`StoresError::MissingBinaries`] where it is not installed; root, and no user to run it as.
    pub fn find() -> Result<Self, StoresError> {
        let plan = Plan { home: Home::Throwaway, postgres: true, redis: false, durable: true };
        let server = Binaries::find(&plan, None)?.postgres.map(|found| found.postgres);
        let directory = server.as_deref().and_then(Path::parent).unwrap_or(Path::new("/"));
        Ok(Self { directory: directory.to_owned(), account: Account::choose(&[])? })
    }

    /// One of its programs, to run as that user.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        let mut command = foreign_to_nothing(&self.directory.join(name));
        self.account.apply(&mut command);
        command
    }

    /// Makes `path`, missing or not, a directory that this user alone may enter.
    ///
    /// # Errors
    /// What the system says against it.
    pub fn private_directory(&self, path: &Path) -> Result<(), StoresError> {
        self.account.private_directory(path)
    }
}

/// The socket in the sockets' directory.
pub(super) fn socket(sockets: &Path) -> PathBuf {
    sockets.join(SOCKET)
}

/// What a URL has as it is (RFC 3986).
const IN_A_URL: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The URL, in the form that both sqlx and libpq read.
pub(super) fn url(sockets: &Path) -> String {
    let host = percent_encode(sockets.as_os_str().as_encoded_bytes(), &IN_A_URL);
    format!("postgres://postgres@localhost/{DATABASE}?host={host}")
}

/// The major version that wrote the cluster in `data`, if there is one.
pub(super) fn data_major(data: &Path) -> Option<u32> {
    first_number(&fs::read_to_string(data.join("PG_VERSION")).ok()?)
}

/// Makes the cluster if it is missing, and prepares the server.
pub(super) fn prepare(
    binaries: &PostgresBinaries,
    site: &Site<'_>,
    events: &Events,
) -> Result<ServerProcess, StoresError> {
    let data = site.directory.join("postgres");
    match data_major(&data) {
        None => make_cluster(binaries, &data, site, events)?,
        Some(major) if major == binaries.major => {}
        Some(major) => {
            return Err(StoresError::Directory(format!(
                "{} was written by PostgreSQL {major}, but the version found here is {}: install PostgreSQL {major}, \
                 or choose another directory with --data-dir",
                data.display(),
                binaries.major
            )));
        }
    }
    let mut command = foreign_to_nothing(&binaries.postgres);
    command.arg("-D").arg(&data);
    // It takes a list, in which a comma would end one.
    let sockets = site.sockets.display().to_string().replace('"', "\"\"");
    let place = format!("unix_socket_directories=\"{sockets}\"");
    let careless = if site.durable { &[] } else { CARELESS };
    for setting in SETTINGS.iter().chain(careless).copied().chain([place.as_str()]) {
        command.args(["-c", setting]);
    }
    Ok(ServerProcess::prepare(Server::Postgres, &HOOKS, command, site))
}

/// `initdb` beside the final place, then one rename: a crash leaves no half cluster.
fn make_cluster(
    binaries: &PostgresBinaries,
    data: &Path,
    site: &Site<'_>,
    events: &Events,
) -> Result<(), StoresError> {
    let unfinished = data.with_extension("unfinished");
    remove_directory(&unfinished).map_err(|e| StoresError::at("remove", &unfinished, &e))?;
    site.account.private_directory(&unfinished)?;
    let mut command = foreign_to_nothing(&binaries.initdb);
    command.arg("-D").arg(&unfinished);
    command.args([
        "--username=postgres",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C",
        "--no-instructions",
    ]);
    if !site.durable {
        command.arg("--no-sync");
    }
    let log = site.directory.join("postgres.log");
    // A killed initdb leaves a `postgres --single` that still writes.
    run_to_end(command, site.account, &log, events).inspect_err(|_| kill_remains(&unfinished))?;
    fs::rename(&unfinished, data).map_err(|e| StoresError::at("make", data, &e))
}

fn foreign_to_nothing(program: &Path) -> Command {
    let mut command = Command::new(program);
    for name in FOREIGN {
        command.env_remove(name);
    }
    // The caller's locale may not exist on this system, which initdb refuses; and
    // its working directory may be closed to the servers' user.
    command.env("LC_ALL", "C").env("TZ", "UTC").current_dir("/");
    command
}

/// Whether the server answers a session.
pub(super) fn health(socket: &Path) -> Health {
    match converse(directory_of(socket), "postgres", None, Duration::from_secs(2)) {
        Ok(()) => Health::Ready,
        // cannot_connect_now: starting up, recovering or shutting down.
        Err(error) if sqlstate(&error).as_deref() == Some("57P03") => Health::Starting,
        Err(_) => Health::Silent,
    }
}

/// Creates the database unless it exists. `create database` knows no `if not exists`.
pub(super) fn ensure_database(socket: &Path) -> Result<(), StoresError> {
    let (sockets, patience) = (directory_of(socket), Duration::from_secs(60));
    let outcome = match converse(sockets, DATABASE, None, patience) {
        Err(error) if sqlstate(&error).as_deref() == Some("3D000") => {
            converse(sockets, "postgres", Some("create database seckill"), patience)
        }
        other => other,
    };
    outcome.map_err(|error| {
        StoresError::Server(format!("cannot create the database {DATABASE}: {error}"))
    })
}

fn directory_of(socket: &Path) -> &Path {
    socket.parent().unwrap_or(Path::new("/"))
}

/// Waits for the last processes of a killed server, then removes its lock files.
///
/// PostgreSQL trusts `postmaster.pid` as long as *some* process of the same user
/// has that number, which in a container, where numbers start at 1 each time,
/// can block it for ever. We hold the home's own lock and have looked, so we know.
pub(super) fn clear_remains(
    data: &Path,
    socket: &Path,
    events: &Events,
) -> Result<(), StoresError> {
    let began = Instant::now();
    loop {
        let alive = processes_in(data);
        if alive.is_empty() {
            break;
        }
        if began.elapsed() > REMAINS_MAX {
            return Err(StoresError::Busy(format!(
                "a PostgreSQL server still runs in {} (process {}): stop it first",
                data.display(),
                alive[0]
            )));
        }
        events.pause(Duration::from_millis(10))?;
    }
    for path in [
        data.join("postmaster.pid"),
        socket.to_owned(),
        socket.with_file_name(format!("{SOCKET}.lock")),
    ] {
        if_there(fs::remove_file(&path)).map_err(|e| StoresError::at("remove", &path, &e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_carries_any_directory() {
        assert_eq!(
            url(Path::new("/tmp/a b&c/sockets")),
            "postgres://postgres@localhost/seckill?host=%2Ftmp%2Fa%20b%26c%2Fsockets"
        );
    }
}
