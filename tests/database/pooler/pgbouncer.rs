//! PgBouncer, as a distribution packages it, before the PostgreSQL of the tests.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use child_process::{LoggedProcess, end_with_us};
use nix::sys::signal::Signal;
use private_stores::PostgresPrograms;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use url::Url;

use testkit::needs::needs;
use testkit::processes::place;
use testkit::shop::world::World;
use testkit::wait::eventually;

/// The name of its socket; no TCP port is opened.
const PORT: &str = "6432";

/// One process, on a UNIX socket in a directory of its own.
pub struct PgBouncer {
    process: LoggedProcess,
    directory: TempDir,
    sessions: u32,
}

impl PgBouncer {
    /// Before the server of `world`, with so many sessions for each database.
    pub async fn start(world: &World, pool_mode: &str, sessions: u32, settings: &str) -> Self {
        let (programs, directory) = (PostgresPrograms::find().unwrap(), place());
        programs.private_directory(directory.path()).unwrap();
        let server = Url::parse(&world.database_url).unwrap();
        let host = server.query_pairs().find(|(name, _)| name == "host").unwrap().1.into_owned();
        let configuration = format!(
            "[databases]\n* = host={host} port=5432 user=postgres\n[pgbouncer]\nlisten_addr =\n\
             listen_port = {PORT}\nunix_socket_dir = {}\nauth_type = any\npool_mode = {pool_mode}\n\
             default_pool_size = {sessions}\nmax_client_conn = 400\n{settings}\n",
            directory.path().display()
        );
        let file = directory.path().join("pgbouncer.ini");
        fs::write(&file, configuration).unwrap();
        let mut command = programs.command(program().unwrap().to_str().unwrap());
        end_with_us(command.arg(file), Signal::SIGKILL);
        let process = LoggedProcess::start(&mut command, &directory.path().join("log")).unwrap();
        let pooler = Self { process, directory, sessions };
        eventually("the pooler answers", async || {
            let options = pooler.options(world);
            PgConnection::connect_with(&options).await.is_ok()
        })
        .await;
        pooler
    }

    pub fn url(&self, world: &World) -> String {
        let mut url = Url::parse(&world.database_url).unwrap();
        let directory = self.directory.path().to_str().unwrap();
        url.query_pairs_mut().clear().append_pair("host", directory).append_pair("port", PORT);
        url.into()
    }

    /// For another client than ours.
    pub fn options(&self, world: &World) -> PgConnectOptions {
        PgConnectOptions::from_str(&self.url(world)).unwrap().extra_float_digits(None)
    }

    pub fn sessions(&self) -> u32 {
        self.sessions
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.process.kill();
    }
}

/// Whether tests behind a pooler can run.
pub fn is_installed() -> bool {
    let found = program().ok_or("no pgbouncer: scripts/setup.sh pooler installs it");
    needs("PgBouncer", found).is_some()
}

/// Debian keeps it where only root looks.
fn program() -> Option<&'static Path> {
    [
        "/usr/sbin/pgbouncer",
        "/usr/bin/pgbouncer",
        "/usr/local/bin/pgbouncer",
        "/opt/homebrew/bin/pgbouncer",
    ]
    .map(Path::new)
    .into_iter()
    .find(|path| path.exists())
}

/// PgBouncer keeps the names of statements apart from 1.21 on.
pub fn knows_prepared_statements() -> bool {
    let said = Command::new(program().unwrap()).arg("--version").output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let version = said.lines().next().and_then(|line| line.strip_prefix("PgBouncer "));
    let mut parts = version.unwrap().split('.').map(|part| part.parse().unwrap_or(0u32));
    (parts.next(), parts.next()) >= (Some(1), Some(21))
}
