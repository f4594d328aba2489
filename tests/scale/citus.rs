//! A coordinator and workers of Citus on loopback, each a PostgreSQL server in a directory of its own.

use std::net::TcpListener;
use std::path::PathBuf;

use faults::PostgresNode;
use nix::sys::signal::Signal;
use private_stores::PostgresPrograms;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use testkit::needs::needs;
use testkit::processes::send_with_children;
use testkit::program::Program;

const DATABASE: &str = "seckill";

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
    node: PostgresNode,
}

impl Server {
    /// With the extension, but in no cluster yet.
    pub async fn start() -> Self {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let mut settings = SETTINGS.map(str::to_owned).to_vec();
        settings.push(format!("port={port}"));
        let node = PostgresNode::primary_with(None, settings).await.unwrap();
        let server = Self { port, node };
        server.run_in("postgres", &format!("create database {DATABASE}")).await;
        server.run("create extension citus").await;
        server
    }

    /// Starts it after [`Server::kill`], with what it had.
    pub async fn start_again(&mut self) {
        self.node.start_again().await.unwrap();
    }

    /// All it has logged.
    pub fn log(&self) -> String {
        self.node.log()
    }

    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    pub fn pid(&self) -> u32 {
        self.node.pid().unwrap()
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

    /// To all its processes. After SIGSTOP it answers nothing, and nothing says so.
    pub fn signal(&self, signal: Signal) {
        send_with_children(self.pid(), signal);
    }

    /// SIGKILL, of all its processes.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.node.kill();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that is paused cannot end.
        if let Some(pid) = self.node.pid() {
            send_with_children(pid, Signal::SIGCONT);
        }
    }
}

/// A coordinator and workers.
pub struct Citus {
    pub coordinator: Server,
    pub workers: Vec<Server>,
}

impl Citus {
    /// With the tables, distributed by the command; `None`: Citus is not installed.
    pub async fn distributed(workers: usize) -> Option<Self> {
        if !is_installed() {
            return None;
        }
        let mut cluster = Self { coordinator: Server::start().await, workers: Vec::new() };
        cluster.set_host().await;
        for _ in 0..workers {
            cluster.add_worker().await;
        }
        // Few, so that moving some of them takes seconds.
        cluster.coordinator.run("alter database seckill set citus.shard_count = 8").await;
        cluster.program().says(&["migrate", "--distribute"]).await;
        Some(cluster)
    }

    pub async fn set_host(&self) {
        let port = self.coordinator.port;
        let set = format!("select citus_set_coordinator_host('127.0.0.1', {port})");
        self.coordinator.run(&set).await;
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
