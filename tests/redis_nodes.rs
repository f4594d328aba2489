//! Bare Redis servers of one test, for what the run's shared server is no use: replicas,
//! sentinels, clusters, several masters at once; and servers to kill, pause and restart.
//!
//! Each has a directory and a TCP port of its own on 127.0.0.1. It ends when its [`Node`] is
//! dropped, also in a panic, and when this process ends in any other way.

mod cluster;
mod sentinels;

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, mpsc};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult};
use tempfile::TempDir;

use crate::eventually::{PATIENCE, eventually};

pub use cluster::Cluster;
pub use sentinels::Sentinels;

/// Arguments of a server that has on disk whatever it acknowledged.
pub const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// Another process may take a free port before the server does; hardly ever twice.
const ATTEMPTS: usize = 5;

/// One `redis-server`.
pub struct Node {
    directory: TempDir,
    port: u16,
    bus_port: u16,
    arguments: Vec<String>,
    /// `None` while it is down.
    child: Option<Child>,
}

impl Node {
    /// Starts a server with these arguments besides its own, and waits until it answers.
    /// Without any it keeps nothing on disk.
    pub async fn start(arguments: &[&str]) -> Self {
        for _ in 0..ATTEMPTS {
            let mut node = Self::stopped(arguments);
            if node.run().await.is_ok() {
                return node;
            }
        }
        panic!("no free port for a redis-server in {ATTEMPTS} attempts");
    }

    /// A server that was never started.
    fn stopped(arguments: &[&str]) -> Self {
        Self {
            directory: tempfile::Builder::new().prefix("seckill-redis-").tempdir().unwrap(),
            port: free_port(),
            bus_port: free_port(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            child: None,
        }
    }

    /// Runs the server until it answers; an error when its port is taken.
    async fn run(&mut self) -> Result<(), PortTaken> {
        self.child = Some(spawn(|program| self.program(program)));
        let mut ended = false;
        eventually("a redis-server answers", async || {
            ended = self.child.as_mut().unwrap().try_wait().unwrap().is_some();
            ended || self.answers()
        })
        .await;
        if !ended {
            return Ok(());
        }
        self.child = None;
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        assert!(log.contains("Address already in use"), "redis-server did not start:\n{log}");
        Err(PortTaken)
    }

    fn program(&self, program: &str) -> Command {
        let log = fs::File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = Command::new(program);
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        // A configuration file must come first.
        let configured = self.configuration().exists();
        command.args(configured.then(|| self.configuration()));
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"]);
        command.arg("--unixsocket").arg(self.socket()).arg("--dir").arg(self.directory.path());
        if !self.arguments.iter().any(|argument| argument == "--sentinel") {
            // A replica is served at once, not when others may have come, too.
            command.args(["--save", "", "--repl-diskless-sync-delay", "0"]);
            command.args(["--cluster-port", &self.bus_port.to_string()]);
        }
        command.args(&self.arguments);
        command
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn configuration(&self) -> PathBuf {
        self.directory.path().join("redis.conf")
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// Whether it answers on its socket, where nobody else can; it listens on its port first.
    fn answers(&self) -> bool {
        let ask = || -> io::Result<[u8; 5]> {
            let mut stream = UnixStream::connect(self.socket())?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(b"PING\r\n")?;
            let mut answer = [0; 5];
            stream.read_exact(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| &answer != b"-LOAD")
    }

    /// As `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://{}/", self.address())
    }

    /// The same server by its socket, which is where `proxy::Proxy` goes.
    pub fn socket_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// What the server answers, on a connection of its own.
    pub async fn try_command<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let client = Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut command = Cmd::new();
        command.arg(words);
        command.query_async(&mut connection).await
    }

    pub async fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_command(words).await.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// A field of INFO or CLUSTER INFO; empty where there is none.
    pub async fn field(&self, words: &[&str], name: &str) -> String {
        let text: String = self.command(words).await;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_default().to_owned()
    }

    /// Makes it a replica, and waits until it has what the master has.
    pub async fn replica_of(&self, master: &Node) {
        self.replica_at(master.port).await;
    }

    /// As [`Node::replica_of`], of whatever listens on the port: a proxy before the master.
    pub async fn replica_at(&self, port: u16) {
        self.command::<()>(&["REPLICAOF", "127.0.0.1", &port.to_string()]).await;
        eventually("the replica is in step", async || {
            self.field(&["INFO", "replication"], "master_link_status").await == "up"
        })
        .await;
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().expect("the server runs").id();
        kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops it in the middle of whatever it does; connections stay open.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Kills it, if it runs, and starts it again on the same port, with what is on its disk.
    pub async fn restart(&mut self) {
        self.kill();
        for _ in 0..ATTEMPTS {
            if self.run().await.is_ok() {
                return;
            }
            // Somebody's connection has the port as its own end, and will not for long.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("port {} was taken while its server was down", self.port);
    }

    /// As [`Node::restart`], with an empty disk.
    pub async fn restart_empty(&mut self) {
        self.kill();
        for entry in fs::read_dir(self.directory.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap();
            } else if path != self.configuration() {
                fs::remove_file(path).unwrap();
            }
        }
        self.restart().await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

#[derive(Debug)]
struct PortTaken;

/// A port that nobody has, and that this process never gives out again: a server that is
/// down must not be mistaken for another test's.
fn free_port() -> u16 {
    static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        if GIVEN.lock().unwrap().insert(port) {
            return port;
        }
    }
}

/// Starts what `command` makes for a program of this name. Valkey is Redis under its free
/// licence, and what newer distributions ship.
fn spawn(command: impl Fn(&str) -> Command) -> Child {
    for program in ["redis-server", "valkey-server"] {
        match spawn_tied(command(program)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            child => return child.unwrap(),
        }
    }
    panic!("there is no redis-server");
}

/// The kernel ties a child to the *thread* that made it. Those of a test come and go, so one
/// that stays makes them all.
fn spawn_tied(mut command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static MAKER: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
        let (orders, queue) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, made) in queue {
                made.send(command.spawn()).unwrap();
            }
        });
        orders
    });
    die_with_this_process(&mut command);
    let (made, child) = mpsc::channel();
    MAKER.send((command, made)).unwrap();
    child.recv().unwrap()
}

#[allow(unsafe_code)]
fn die_with_this_process(command: &mut Command) {
    let parent = nix::unistd::getpid();
    let in_the_child = move || -> io::Result<()> {
        #[cfg(target_os = "linux")]
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // A parent that died before this line could not send it any more.
        if nix::unistd::getppid() != parent {
            return Err(nix::errno::Errno::ESRCH.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. These are two
    // plain system calls, which allocate nothing, take no lock and cannot panic.
    unsafe { command.pre_exec(in_the_child) };
}

#[tokio::test]
async fn a_node_forgets_or_keeps_what_it_had_as_it_was_started() {
    let mut forgetful = Node::start(&[]).await;
    let mut durable = Node::start(&DURABLE).await;
    for node in [&mut forgetful, &mut durable] {
        node.command::<()>(&["SET", "name", "value"]).await;
        node.restart().await;
    }
    assert_eq!(forgetful.command::<Option<String>>(&["GET", "name"]).await, None);
    assert_eq!(durable.command::<String>(&["GET", "name"]).await, "value");
    durable.restart_empty().await;
    assert_eq!(durable.command::<Option<String>>(&["GET", "name"]).await, None);
    durable.kill();
    assert!(durable.try_command::<()>(&["PING"]).await.is_err());
}

#[tokio::test]
async fn a_replica_gets_what_its_master_got_and_while_paused_says_nothing() {
    let (master, replica) = (Node::start(&[]).await, Node::start(&[]).await);
    replica.replica_of(&master).await;
    master.command::<()>(&["SET", "name", "value"]).await;
    eventually("the replica has it", async || {
        replica.command::<Option<String>>(&["GET", "name"]).await.as_deref() == Some("value")
    })
    .await;
    replica.pause();
    assert!(!replica.answers());
    replica.resume();
    eventually("it answers again", async || replica.answers()).await;
}

#[tokio::test]
async fn a_node_that_is_dropped_is_gone() {
    let node = Node::start(&[]).await;
    let (address, directory) = (node.address(), node.directory.path().to_owned());
    drop(node);
    assert!(std::net::TcpStream::connect(address).is_err());
    assert!(!directory.exists());
}
