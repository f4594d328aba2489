//! PostgreSQL servers that replicate; those that the program starts for itself do not.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use child_process::end_with_us;
use faults::Proxy;
use nix::sys::signal::Signal;
use private_stores::PostgresPrograms;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use url::Url;

use testkit::processes::{place, send, send_with_children};
use testkit::wait::eventually;

/// What the primary calls its standby.
pub const STANDBY: &str = "standby";

/// A server on a UNIX socket in a directory of its own. Started from a test's own thread, with
/// which it ends.
pub struct PostgresNode {
    pub url: String,
    child: Child,
    directory: TempDir,
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

impl PostgresNode {
    pub async fn primary() -> Self {
        Self::start(|programs, data| {
            let mut initdb = programs.command("initdb");
            initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
            succeed(initdb.arg("--no-sync").arg("-D").arg(data));
        })
        .await
    }

    /// A copy of the server behind `proxy`, which goes on following it through the proxy.
    pub async fn standby_of(proxy: &Proxy) -> Self {
        let primary = format!(
            "host=127.0.0.1 port={} user=postgres application_name={STANDBY}",
            proxy.port()
        );
        Self::start(|programs, data| {
            let mut copy = programs.command("pg_basebackup");
            copy.args(["--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf"]);
            succeed(copy.arg("--no-sync").arg("--dbname").arg(&primary).arg("-D").arg(data));
        })
        .await
    }

    async fn start(make_data: impl FnOnce(&PostgresPrograms, &Path)) -> Self {
        let (programs, directory) = (PostgresPrograms::find().unwrap(), place());
        programs.private_directory(directory.path()).unwrap();
        let data = directory.path().join("data");
        // The proxy before the primary runs on the other threads.
        tokio::task::block_in_place(|| make_data(&programs, &data));
        let log = File::create(directory.path().join("log")).unwrap();
        let mut command = programs.command("postgres");
        command.arg("-D").arg(&data).args(["-c", "listen_addresses=", "-c", "port=5432"]);
        // The death of a server loses nothing that it has written; that of a machine may.
        command.args(["-c", "fsync=off"]);
        command.arg("-c").arg(format!("unix_socket_directories={}", directory.path().display()));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        end_with_us(&mut command, Signal::SIGQUIT);
        let child = command.spawn().unwrap();
        let host = directory.path().to_str().unwrap();
        let url =
            Url::parse_with_params("postgres://postgres@localhost/postgres", [("host", host)]);
        let node = Self { url: url.unwrap().into(), child, directory };
        eventually("the server answers", async || node.connect().await.is_ok()).await;
        node
    }

    async fn connect(&self) -> sqlx::Result<PgConnection> {
        PgConnection::connect(&self.url).await
    }

    pub async fn proxy(&self) -> Proxy {
        Proxy::before_socket(self.directory.path().join(".s.PGSQL.5432")).await.unwrap()
    }

    pub async fn run(&self, statement: &str) {
        let mut connection = self.connect().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
    }

    /// Waits until the answer to `question` is yes.
    pub async fn until(&self, question: &'static str) {
        let mut connection = self.connect().await.unwrap();
        eventually(question, async || {
            sqlx::query_scalar(question).fetch_one(&mut connection).await.unwrap()
        })
        .await;
    }

    /// SIGKILL, of all its processes.
    pub fn kill(&mut self) {
        send_with_children(self.child.id(), Signal::SIGKILL);
        self.child.wait().unwrap();
    }
}

impl Drop for PostgresNode {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            send(self.child.id(), Signal::SIGQUIT);
            let _ = self.child.wait();
        }
    }
}
