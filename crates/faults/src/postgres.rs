//! A PostgreSQL server, and one that follows it.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use private_stores::PostgresPrograms;
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use url::Url;

use super::process::{FaultyProcess, StartingProcess, directory};
use super::{FaultError, Proxy};

const SERVER: &str = "PostgreSQL";

/// How long a server that is told to end at once may take.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// One PostgreSQL server on a UNIX socket of its own, in a directory that nobody else may enter.
#[derive(Debug)]
pub struct PostgresNode {
    /// Before the directory, because fields are dropped in order.
    process: FaultyProcess,
    directory: TempDir,
    settings: Vec<String>,
    url: String,
}

impl PostgresNode {
    /// What a standby calls itself, for `synchronous_standby_names`.
    pub const STANDBY: &str = "standby";

    /// Starts an empty server, with its directory in `home`, and waits until it answers.
    ///
    /// # Errors
    /// [`FaultError::Missing`] where PostgreSQL is not installed; else why it did not start.
    pub async fn primary_at(home: Option<&Path>) -> Result<Self, FaultError> {
        Self::primary_with(home, Vec::new()).await
    }

    /// The same with settings that come after its own, as `name=value`. [`PostgresNode::url`] knows nothing of them.
    ///
    /// # Errors
    /// As [`PostgresNode::primary_at`].
    pub async fn primary_with(
        home: Option<&Path>,
        settings: Vec<String>,
    ) -> Result<Self, FaultError> {
        let options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"];
        Self::start(home, "initdb", options.map(str::to_owned).to_vec(), settings).await
    }

    /// Starts a copy of the server behind `proxy`, which goes on following it through the proxy.
    ///
    /// # Errors
    /// As [`PostgresNode::primary_at`].
    pub async fn standby_at(home: Option<&Path>, proxy: &Proxy) -> Result<Self, FaultError> {
        let (port, name) = (proxy.port(), Self::STANDBY);
        let primary = format!("host=127.0.0.1 port={port} user=postgres application_name={name}");
        let options = ["--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf"];
        let mut options = options.map(str::to_owned).to_vec();
        options.push(format!("--dbname={primary}"));
        Self::start(home, "pg_basebackup", options, Vec::new()).await
    }

    /// `maker` with these options makes the data.
    async fn start(
        home: Option<&Path>,
        maker: &str,
        options: Vec<String>,
        settings: Vec<String>,
    ) -> Result<Self, FaultError> {
        let programs = programs()?;
        let directory = directory("seckill-postgres-", home)?;
        programs.private_directory(directory.path()).map_err(missing)?;
        let mut make = programs.command(maker);
        make.args(options).arg("--no-sync").arg("-D").arg(directory.path().join("data"));
        succeed(make).await?;
        // The death of a server loses nothing that it has written; that of a machine may. An argument could not be
        // taken back.
        File::options()
            .append(true)
            .open(directory.path().join("data/postgresql.conf"))
            .and_then(|mut file| file.write_all(b"fsync = off\n"))
            .map_err(FaultError::system("write postgresql.conf"))?;
        let host = directory.path().to_string_lossy().into_owned();
        let url =
            Url::parse_with_params("postgres://postgres@localhost/postgres", [("host", host)]);
        // The text above is a URL.
        let url = url.map(String::from).unwrap_or_default();
        let mut node = Self { process: FaultyProcess::down(SERVER), directory, settings, url };
        node.start_again().await?;
        Ok(node)
    }

    /// Starts one that is down, with what it had, and waits until it answers.
    ///
    /// # Errors
    /// Why it did not start.
    pub async fn start_again(&mut self) -> Result<(), FaultError> {
        let (directory, data) = (self.directory.path(), self.directory.path().join("data"));
        let mut command = programs()?.command("postgres");
        command.arg("-D").arg(&data).args(["-c", "listen_addresses=", "-c", "port=5432"]);
        // A standby that is behind waits for those who read, and breaks off nobody's statement.
        command.args(["-c", "max_standby_streaming_delay=-1"]);
        command.args(["-c", "max_standby_archive_delay=-1"]);
        command.arg("-c").arg(format!("unix_socket_directories=\"{}\"", directory.display()));
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        // What it said before it was killed is no answer.
        let before = status(&data);
        let mut starting = StartingProcess::start(SERVER, command, None, &directory.join("log"))?;
        while !is_ready(&data, &before) {
            starting.again().await?;
        }
        self.process = starting.started();
        Ok(())
    }

    /// Its first process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// All it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// For a client: database and user `postgres`, without a password.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A network before it.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn proxy(&self) -> Result<Proxy, FaultError> {
        Proxy::before_socket(self.directory.path().join(".s.PGSQL.5432")).await
    }

    /// Makes a standby a primary, and waits until it is one. A session that asked for it would be one that reads: what
    /// is still to be replayed could wait for that session, and it for the replay.
    ///
    /// # Errors
    /// When it is none, or does not become one.
    pub async fn promote(&self) -> Result<(), FaultError> {
        let programs = programs()?;
        let mut promote = programs.command("pg_ctl");
        promote.args(["promote", "--wait", "-D"]).arg(self.directory.path().join("data"));
        succeed(promote).await
    }

    /// `kill -9` of the server; its sessions end with it.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

impl Drop for PostgresNode {
    fn drop(&mut self) {
        // At once, and in good order: what it shares with its sessions goes, too.
        let _ = self.process.signal(Signal::SIGQUIT);
        let deadline = Instant::now() + ENDS_WITHIN;
        while !self.process.has_ended() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// What the server says of itself in its own file.
fn status(data: &Path) -> String {
    fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default()
}

/// Whether clients may come: it says so, and not what it said `before`.
fn is_ready(data: &Path, before: &str) -> bool {
    let status = status(data);
    status != before && status.lines().nth(7).is_some_and(|line| line.trim() == "ready")
}

fn missing(error: private_stores::StoresError) -> FaultError {
    FaultError::Missing(error.to_string())
}

fn programs() -> Result<PostgresPrograms, FaultError> {
    PostgresPrograms::find().map_err(missing)
}

async fn succeed(mut command: Command) -> Result<(), FaultError> {
    command.stdin(Stdio::null());
    let run = spawn_blocking(move || command.output()).await;
    let output = run
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
        .map_err(FaultError::system("run a program of PostgreSQL"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(FaultError::NotStarted { server: SERVER, log })
        }
    }
}
