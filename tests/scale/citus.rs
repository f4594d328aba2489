//! A coordinator and workers of Citus on loopback, each a PostgreSQL server in a directory of its own.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use child_process::end_with_us;
use nix::sys::signal::Signal;
use private_stores::PostgresPrograms;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

use testkit::needs::needs;
use testkit::processes::{place, send, send_with_children};
use testkit::program::Program;
use testkit::wait::eventually;

pub const DATABASE: &str = "seckill";

const SETTINGS: [&str; 7] = [
    "shared_preload_libraries=citus",
    "wal_level=logical",
    "jit=off",
    // A server of Citus makes a certificate that nobody can check.
    "citus.node_conninfo=sslmode=disable",
    "listen_addresses=127.0.0.1",
    "log_min_messages=notice",
    "log_error_verbosity=terse",
];

/// Whether the tests of this room can run.
pub fn is_installed() -> bool {
    let shared = PostgresPrograms::find().unwrap().command("pg_config").arg("--sharedir").output();
    let shared = String::from_utf8(shared.unwrap().stdout).unwrap();
    let extension = PathBuf::from(shared.trim()).join("extension/citus.control");
    let found = extension.exists().then_some(());
    needs("Citus", found.ok_or("Citus is not installed (scripts/setup.sh scale)")).is_some()
}

/// One server. Started from a test's own thread, with which it ends.
pub struct Server {
    pub port: u16,
    programs: PostgresPrograms,
    child: Option<Child>,
    directory: TempDir,
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

impl Server {
    /// With the extension, but in no cluster yet.
    pub async fn start() -> Self {
        let (programs, directory) = (PostgresPrograms::find().unwrap(), place());
        programs.private_directory(directory.path()).unwrap();
        let mut initdb = programs.command("initdb");
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        initdb.arg("--no-sync").arg("-D").arg(directory.path().join("data"));
        tokio::task::block_in_place(|| succeed(&mut initdb));
        // The death of a server loses nothing that it has written; that of a machine may.
        let configuration = directory.path().join("data/postgresql.conf");
        File::options()
            .append(true)
            .open(configuration)
            .unwrap()
            .write_all(b"fsync = off\n")
            .unwrap();
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let mut server = Self { port, programs, child: None, directory };
        server.start_again().await;
        server.run_in("postgres", &format!("create database {DATABASE}")).await;
        server.run("create extension citus").await;
        server
    }

    /// Starts it after [`Server::kill`], with what it had.
    pub async fn start_again(&mut self) {
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        let mut command = self.programs.command("postgres");
        command.arg("-D").arg(self.directory.path().join("data"));
        command.arg("-c").arg(format!("port={}", self.port));
        let sockets = format!("unix_socket_directories={}", self.directory.path().display());
        for setting in SETTINGS.into_iter().chain([sockets.as_str()]) {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        end_with_us(&mut command, Signal::SIGQUIT);
        let mut child = command.spawn().unwrap();
        let url = self.url_of("postgres");
        eventually("the server answers", async || {
            if child.try_wait().unwrap().is_some() {
                panic!("the server did not start: {}", self.log());
            }
            PgConnection::connect(&url).await.is_ok()
        })
        .await;
        self.child = Some(child);
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// All it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap()
    }

    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url()).await.unwrap()
    }

    pub async fn run(&self, statement: &str) {
        self.run_in(DATABASE, statement).await;
    }

    async fn run_in(&self, database: &str, statement: &str) {
        let mut connection = PgConnection::connect(&self.url_of(database)).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// SIGSTOP, of all its processes: it answers nothing, and nothing says so.
    pub fn pause(&self) {
        send_with_children(self.pid(), Signal::SIGSTOP);
    }

    /// SIGCONT: it goes on.
    pub fn resume(&self) {
        send_with_children(self.pid(), Signal::SIGCONT);
    }

    /// SIGKILL, of all its processes.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        send_with_children(child.id(), Signal::SIGKILL);
        child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child
            && let Ok(None) = child.try_wait()
        {
            // It may be paused, and would not hear.
            send_with_children(child.id(), Signal::SIGCONT);
            send(child.id(), Signal::SIGQUIT);
            let _ = child.wait();
        }
    }
}

/// A coordinator and workers.
pub struct Citus {
    pub coordinator: Server,
    pub workers: Vec<Server>,
}

impl Citus {
    /// Without any data.
    pub async fn start(workers: usize) -> Self {
        let coordinator = Server::start().await;
        coordinator
            .run(&format!("select citus_set_coordinator_host('127.0.0.1', {})", coordinator.port))
            .await;
        let mut cluster = Self { coordinator, workers: Vec::new() };
        for _ in 0..workers {
            cluster.add_worker().await;
        }
        cluster
    }

    /// With the tables, distributed by the command.
    pub async fn distributed(workers: usize) -> Self {
        let cluster = Self::start(workers).await;
        // Few, so that moving some of them takes seconds.
        cluster.coordinator.run("alter database seckill set citus.shard_count = 8").await;
        cluster.program().says(&["migrate", "--distribute"]).await;
        cluster
    }

    pub async fn add_worker(&mut self) {
        let worker = Server::start().await;
        self.coordinator.run(&format!("select citus_add_node('127.0.0.1', {})", worker.port)).await;
        self.workers.push(worker);
    }

    /// The program on this database.
    pub fn program(&self) -> Program {
        Program::alone().with("DATABASE_URL", &self.coordinator.url())
    }

    /// Which of the workers has the orders of `voucher`.
    pub async fn worker_of(&self, voucher: i64) -> usize {
        let mut connection = self.coordinator.connect().await;
        let port: i32 = sqlx::query_scalar(
            "select nodeport from pg_dist_shard_placement
             where shardid = get_shard_id_for_distribution_column('orders', $1)",
        )
        .bind(voucher)
        .fetch_one(&mut connection)
        .await
        .unwrap();
        self.workers.iter().position(|worker| i32::from(worker.port) == port).unwrap()
    }
}
