//! A bare ZooKeeper server.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::FaultError;
use super::process::{FaultyProcess, PortAttempts, StartingProcess, directory, free_port};
use private_stores::on_search_path;

const SERVER: &str = "ZooKeeper";

const MISSING: FaultError = FaultError::NotInstalled {
    server: "ZooKeeper",
    install: "apt-get install libzookeeper-java default-jre-headless",
};

/// The server alone, without the election of a leader among many.
const MAIN: &str = "org.apache.zookeeper.server.ZooKeeperServerMain";

/// A start of 0.4 s instead of 0.6: no second compiler, no collector for many cores. The last
/// two are for what is left behind and what is written: no file in the place for temporary
/// ones, no line a connection.
const JAVA_OPTIONS: [&str; 6] = [
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

/// How long a server that is asked whether it is there may take.
const SILENCE: Duration = Duration::from_secs(1);

/// One ZooKeeper server that is its own ensemble, on a TCP port of its own.
///
/// It keeps what it acknowledged, sessions included, over [`ZooKeeperNode::restart`].
#[derive(Debug)]
pub struct ZooKeeperNode {
    /// Can be killed and paused. After a pause that is longer than a session, that session has
    /// ended, though its client lives: what the client sent meanwhile is read too late. Before the directory, because fields are dropped in order.
    pub process: FaultyProcess,
    directory: TempDir,
    port: u16,
}

impl ZooKeeperNode {
    /// The server's clock: it finds out within one tick that a session has ended.
    pub const TICK: Duration = Duration::from_millis(200);

    /// The shortest session a client can have: two ticks. It gets this when it asks for less.
    ///
    /// One of a second is the shortest that is at ease on a busy machine: with four busy
    /// processes to two cores a client with this one lost its connection, though not its
    /// session, every two seconds, and one with a second once in thirty.
    pub const SESSION_MIN: Duration = Duration::from_millis(400);

    /// Whether it could be started.
    ///
    /// # Errors
    /// [`FaultError::NotInstalled`], with the sentence that says how to get it.
    pub fn find() -> Result<(), FaultError> {
        Installation::find().map(drop)
    }

    /// Starts a server, and waits until it answers, which takes it half a second.
    ///
    /// # Errors
    /// [`FaultError::NotInstalled`] where ZooKeeper or Java is not installed; else why it did not
    /// start.
    pub async fn start() -> Result<Self, FaultError> {
        Self::start_at(None).await
    }

    /// As [`ZooKeeperNode::start`], with its directory in `home`.
    ///
    /// # Errors
    /// As [`ZooKeeperNode::start`].
    pub async fn start_at(home: Option<&Path>) -> Result<Self, FaultError> {
        let mut attempts = PortAttempts::default();
        loop {
            let (process, port) = (FaultyProcess::down(SERVER), free_port()?);
            let directory = directory("seckill-zookeeper-", home)?;
            let mut node = Self { process, directory, port };
            node.configure().map_err(FaultError::system("write zoo.cfg"))?;
            let started = node.run().await;
            if !attempts.again(&started).await {
                return started.map(|()| node);
            }
        }
    }

    fn configure(&self) -> io::Result<()> {
        fs::create_dir(self.data())?;
        let (tick, port, data) = (Self::TICK.as_millis(), self.port, self.data());
        // `conf` tells which server it is that answers on the port.
        let text = format!(
            "tickTime={tick}\n\
             maxSessionTimeout=3600000\n\
             dataDir={}\n\
             clientPort={port}\n\
             clientPortAddress=127.0.0.1\n\
             maxClientCnxns=0\n\
             admin.enableServer=false\n\
             4lw.commands.whitelist=conf,ruok,srvr,cons,dump,wchs\n",
            data.display()
        );
        fs::write(self.configuration(), text)
    }

    async fn run(&mut self) -> Result<(), FaultError> {
        let installation = Installation::find()?;
        let mut command = Command::new(&installation.java);
        command.current_dir(self.directory.path()).args(JAVA_OPTIONS);
        command.arg("-cp").arg(&installation.class_path).arg(MAIN).arg(self.configuration());
        let log = self.directory.path().join("log");
        let mut starting = StartingProcess::start(SERVER, command, Some(self.port), &log)?;
        while !self.answers().await {
            starting.again().await?;
        }
        self.process = starting.started();
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn configuration(&self) -> PathBuf {
        self.directory.path().join("zoo.cfg")
    }

    /// Whether it serves; not while it is down, paused or recovering.
    pub async fn answers(&self) -> bool {
        let ours = format!("dataDir={}", self.data().display());
        let said = timeout(SILENCE, self.four_letters("conf")).await;
        said.is_ok_and(|said| said.is_ok_and(|text| text.contains(&ours)))
    }

    /// Its version, while it answers.
    pub async fn version(&self) -> Option<String> {
        let said = timeout(SILENCE, self.four_letters("srvr")).await.ok()?.ok()?;
        let version = said.lines().find_map(|line| line.strip_prefix("Zookeeper version: "))?;
        version.split(['-', ',']).next().map(str::to_owned)
    }

    async fn four_letters(&self, word: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }

    /// For a client: `host:port`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The TCP port, on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it, if it runs, and starts it again on the same port with what is on its disk. A
    /// session that was alive has its whole time-out again to come back.
    ///
    /// # Errors
    /// As [`ZooKeeperNode::start`].
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
}

/// What it takes to run it.
struct Installation {
    java: PathBuf,
    class_path: String,
}

impl Installation {
    fn find() -> Result<Self, FaultError> {
        let class_path = class_path(Path::new("/"));
        let java = on_search_path("java");
        match (java, class_path) {
            (Some(java), Some(class_path)) => Ok(Self { java, class_path }),
            _ => Err(MISSING),
        }
    }
}

/// Where the classes are below `root`. Debian's archive names in itself what it depends on,
/// all but something that writes the log; Apache's directory holds everything.
fn class_path(root: &Path) -> Option<String> {
    let debian = root.join("usr/share/java");
    if debian.join("zookeeper.jar").is_file() {
        let jars = ["zookeeper.jar", "slf4j-simple.jar"].map(|jar| debian.join(jar));
        return Some(jars.map(|jar| jar.display().to_string()).join(":"));
    }
    let apache = root.join("opt/zookeeper/lib");
    let is_the_server = |file: fs::DirEntry| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.starts_with("zookeeper-") && name.ends_with(".jar")
    };
    let found = fs::read_dir(&apache).ok()?.flatten().any(is_the_server);
    found.then(|| format!("{}/*", apache.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_are_found_as_debian_and_as_apache_lay_them_out() {
        let root = tempfile::tempdir().unwrap();
        let place = |path: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        place("opt/zookeeper/lib/slf4j-api-1.7.30.jar");
        assert_eq!(class_path(root.path()), None);
        place("opt/zookeeper/lib/zookeeper-3.9.3.jar");
        let apache = format!("{}/opt/zookeeper/lib/*", root.path().display());
        assert_eq!(class_path(root.path()), Some(apache));
        place("usr/share/java/zookeeper.jar");
        let debian = class_path(root.path()).unwrap();
        assert!(debian.ends_with("/usr/share/java/slf4j-simple.jar"), "{debian}");
    }
}
