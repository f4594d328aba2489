//! A bare Redis server.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::FaultError;
use super::patience::{PATIENCE, Patience};
use super::process::{FaultyProcess, PortAttempts, StartingProcess, directory, free_port};
use private_stores::redis_server;

const SERVER: &str = "redis-server";

/// How long a server that is asked whether it is there may take.
const SILENCE: Duration = Duration::from_secs(1);

/// One `redis-server` on a TCP port and a UNIX socket of its own.
///
/// It keeps the port for as long as it lives, also while it is down.
#[derive(Debug)]
pub struct RedisNode {
    /// Can be killed and paused. Before the directory, because fields are dropped in order.
    pub process: FaultyProcess,
    directory: TempDir,
    port: u16,
    bus_port: u16,
    tls_port: u16,
    arguments: Vec<String>,
}

impl RedisNode {
    /// Arguments of a server that has on disk whatever it acknowledged.
    pub const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

    /// Starts a server with these arguments besides its own, and waits until it answers.
    /// Without any it keeps nothing on disk.
    ///
    /// # Errors
    /// [`FaultError::Missing`] where Redis is not installed; else why it did not start.
    pub async fn start(arguments: &[&str]) -> Result<Self, FaultError> {
        Self::start_in(None, "", arguments).await
    }

    /// As [`RedisNode::start`], with its directory in `home`.
    ///
    /// # Errors
    /// As [`RedisNode::start`].
    pub async fn start_at(home: Option<&Path>) -> Result<Self, FaultError> {
        Self::start_in(home, "", &[]).await
    }

    /// As [`RedisNode::start`], with a configuration file of this content, in which the server
    /// may write. A sentinel wants one.
    ///
    /// # Errors
    /// As [`RedisNode::start`].
    pub async fn start_configured(
        configuration: &str,
        arguments: &[&str],
    ) -> Result<Self, FaultError> {
        Self::start_in(None, configuration, arguments).await
    }

    async fn start_in(
        home: Option<&Path>,
        configuration: &str,
        arguments: &[&str],
    ) -> Result<Self, FaultError> {
        let mut attempts = PortAttempts::default();
        loop {
            let mut node = Self {
                process: FaultyProcess::down(SERVER),
                directory: directory("seckill-redis-", home)?,
                port: free_port()?,
                bus_port: free_port()?,
                tls_port: free_port()?,
                arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            };
            fs::write(node.configuration(), configuration)
                .map_err(FaultError::system("write redis.conf"))?;
            let started = node.run().await;
            if !attempts.again(&started).await {
                return started.map(|()| node);
            }
        }
    }

    /// Runs the server until it answers.
    async fn run(&mut self) -> Result<(), FaultError> {
        let (program, log) = (self.program()?, self.directory.path().join("log"));
        let mut starting = StartingProcess::start(SERVER, program, Some(self.port), &log)?;
        while !self.answers().await {
            starting.again().await?;
        }
        self.process = starting.started();
        Ok(())
    }

    fn program(&self) -> Result<Command, FaultError> {
        let mut command = Command::new(executable()?);
        command.current_dir(self.directory.path());
        // The file must come first.
        command.arg(self.configuration());
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"]);
        command.arg("--unixsocket").arg(self.socket()).arg("--dir").arg(self.directory.path());
        if !self.arguments.iter().any(|argument| argument == "--sentinel") {
            // A replica is served at once, not when others may have come, too.
            command.args(["--save", "", "--repl-diskless-sync-delay", "0"]);
            command.args(["--cluster-port", &self.bus_port.to_string()]);
        }
        if self.arguments.iter().any(|argument| argument == "--tls-cert-file") {
            command.args(["--tls-port", &self.tls_port.to_string()]);
        }
        command.args(&self.arguments);
        Ok(command)
    }

    fn configuration(&self) -> PathBuf {
        self.directory.path().join("redis.conf")
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// Whether it answers, a replica that has lost its master included; not while it is down,
    /// paused or loading.
    ///
    /// Asks on its socket, where nobody else can be; it listens on its port first.
    pub async fn answers(&self) -> bool {
        let ask = async || -> io::Result<[u8; 5]> {
            let mut stream = UnixStream::connect(self.socket()).await?;
            stream.write_all(b"PING\r\n").await?;
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).await?;
            Ok(answer)
        };
        timeout(SILENCE, ask()).await.is_ok_and(|said| said.is_ok_and(|said| &said != b"-LOAD"))
    }

    /// As `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The TCP port, on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port for clients with TLS, on 127.0.0.1, where its arguments name a certificate.
    #[must_use]
    pub fn tls_port(&self) -> u16 {
        self.tls_port
    }

    /// The port on which members of a cluster talk to it.
    #[must_use]
    pub fn bus_port(&self) -> u16 {
        self.bus_port
    }

    /// For a client, by TCP.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address())
    }

    /// The same server by its UNIX socket.
    #[must_use]
    pub fn socket_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// What the server answers, on a connection of its own.
    ///
    /// # Errors
    /// What Redis said against it, or that nothing answered.
    pub async fn command<T: FromRedisValue>(&self, words: &[&str]) -> Result<T, FaultError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let client = Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut command = Cmd::new();
        command.arg(words);
        Ok(command.query_async(&mut connection).await?)
    }

    /// A field of INFO or CLUSTER INFO; empty where there is none.
    ///
    /// # Errors
    /// As [`RedisNode::command`].
    pub async fn field(&self, words: &[&str], name: &str) -> Result<String, FaultError> {
        let text: String = self.command(words).await?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(value.unwrap_or_default().to_owned())
    }

    /// Makes it a replica, and waits until it has what the master has.
    ///
    /// # Errors
    /// As [`RedisNode::command`], and [`FaultError::InVain`].
    pub async fn replica_of(&self, master: &Self) -> Result<(), FaultError> {
        self.replica_at(master.port).await
    }

    /// As [`RedisNode::replica_of`], of whatever listens on the port: a proxy before the
    /// master.
    ///
    /// # Errors
    /// As [`RedisNode::replica_of`].
    pub async fn replica_at(&self, port: u16) -> Result<(), FaultError> {
        self.command::<()>(&["REPLICAOF", "127.0.0.1", &port.to_string()]).await?;
        self.until_link_is("up", "the replica is in step").await
    }

    /// Waits until a replica has noticed that its master is gone. Pausing the replica would
    /// not cut it off: what was sent to it lies in its socket, and is done when it resumes.
    ///
    /// # Errors
    /// As [`RedisNode::replica_of`].
    pub async fn until_cut_off(&self) -> Result<(), FaultError> {
        self.until_link_is("down", "the replica has lost its master").await
    }

    async fn until_link_is(&self, status: &str, what: &str) -> Result<(), FaultError> {
        let patience = Patience::until(what);
        while self.field(&["INFO", "replication"], "master_link_status").await? != status {
            patience.again().await?;
        }
        Ok(())
    }

    /// Makes a replica a master.
    ///
    /// # Errors
    /// As [`RedisNode::command`].
    pub async fn promote(&self) -> Result<(), FaultError> {
        self.command(&["REPLICAOF", "NO", "ONE"]).await
    }

    /// Kills it, if it runs, and starts it again on the same port, with what is on its disk.
    ///
    /// # Errors
    /// As [`RedisNode::start`].
    pub async fn restart(&mut self) -> Result<(), FaultError> {
        self.process.kill();
        let mut attempts = PortAttempts::default();
        loop {
            let started = self.run().await;
            if !attempts.again(&started).await {
                return started;
            }
        }
    }

    /// How long its log is, all of which is on the disk when this returns.
    ///
    /// # Errors
    /// When it keeps none.
    pub fn log_on_disk(&self) -> Result<u64, FaultError> {
        let length = || {
            let log = fs::File::open(self.append_log())?;
            log.sync_all()?;
            Ok(log.metadata()?.len())
        };
        length().map_err(FaultError::system("read the log of Redis"))
    }

    /// Kills it and cuts its log to what was on the disk, as a power cut would. (`kill -9` alone
    /// does not: the operating system has what Redis has written, and writes it to the disk.)
    ///
    /// # Errors
    /// When it keeps none.
    pub fn lose_power(&mut self, on_disk: u64) -> Result<(), FaultError> {
        self.process.kill();
        let cut = || fs::OpenOptions::new().write(true).open(self.append_log())?.set_len(on_disk);
        cut().map_err(FaultError::system("cut the log of Redis"))
    }

    fn append_log(&self) -> PathBuf {
        self.directory.path().join("appendonlydir/appendonly.aof.1.incr.aof")
    }

    /// As [`RedisNode::restart`], with an empty disk.
    ///
    /// # Errors
    /// As [`RedisNode::start`].
    pub async fn restart_empty(&mut self) -> Result<(), FaultError> {
        self.process.kill();
        self.wipe().map_err(FaultError::system("empty the server's directory"))?;
        self.restart().await
    }

    fn wipe(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.directory.path())? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(path)?;
            } else if path != self.configuration() {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Looked for until it is found; then it is there.
fn executable() -> Result<&'static PathBuf, FaultError> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found);
    }
    let found = redis_server().map_err(|error| FaultError::Missing(error.to_string()))?;
    Ok(FOUND.get_or_init(|| found))
}
