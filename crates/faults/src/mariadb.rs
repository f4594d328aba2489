//! A bare MariaDB server.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::unistd::geteuid;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::FaultError;
use super::process::{FaultyProcess, StartingProcess, directory};

const SERVER: &str = "MariaDB";

const MISSING: FaultError =
    FaultError::NotInstalled { server: "MariaDB", install: "apt-get install mariadb-server-core" };

/// Servers lie where only root looks, so these come after `PATH`.
const FIND: &str = "PATH=$PATH:/usr/sbin:/usr/local/sbin:/usr/libexec:/opt/homebrew/bin \
                    && command -v mariadbd";

/// How long a server that is asked whether it is there may take.
const SILENCE: Duration = Duration::from_secs(1);

/// One MariaDB server on a UNIX socket of its own.
///
/// It has no users: the directory, which only the user of this process may enter, is what keeps
/// others out. So it needs no system tables either, and starts in half a second from nothing. It
/// keeps what it committed over [`MariaDbNode::restart`]; nothing waits for the disk.
#[derive(Debug)]
pub struct MariaDbNode {
    /// Can be killed and paused. Before the directory, because fields are dropped in order.
    pub process: FaultyProcess,
    directory: TempDir,
}

impl MariaDbNode {
    /// Whether it could be started.
    ///
    /// # Errors
    /// [`FaultError::NotInstalled`], with the sentence that says how to get it.
    pub fn find() -> Result<(), FaultError> {
        executable().map(drop)
    }

    /// Starts a server, and waits until it answers.
    ///
    /// # Errors
    /// [`FaultError::NotInstalled`] where MariaDB is not installed; else why it did not start.
    pub async fn start() -> Result<Self, FaultError> {
        Self::start_at(None).await
    }

    /// As [`MariaDbNode::start`], with its directory in `home`.
    ///
    /// # Errors
    /// As [`MariaDbNode::start`].
    pub async fn start_at(home: Option<&Path>) -> Result<Self, FaultError> {
        let mut node = Self {
            process: FaultyProcess::down(SERVER),
            directory: directory("seckill-mariadb-", home)?,
        };
        std::fs::create_dir(node.data()).map_err(FaultError::system("make a directory"))?;
        node.run().await.map(|()| node)
    }

    async fn run(&mut self) -> Result<(), FaultError> {
        let mut command = Command::new(executable()?);
        let place = self.directory.path();
        // The first argument, or it is none.
        command.arg("--no-defaults").current_dir(place);
        for (name, path) in
            [("datadir", self.data()), ("socket", self.socket()), ("tmpdir", place.to_owned())]
        {
            command.arg(format!("--{name}={}", path.display()));
        }
        if geteuid().is_root() {
            // It refuses root unless it is told so.
            command.arg("--user=root");
        }
        command.args([
            "--skip-networking",
            "--skip-grant-tables",
            "--innodb-buffer-pool-size=16M",
            "--innodb-log-file-size=4M",
            "--innodb-flush-log-at-trx-commit=0",
            // Containers often forbid io_uring.
            "--innodb-use-native-aio=0",
        ]);
        let log = place.join("log");
        let mut starting = StartingProcess::start(SERVER, command, None, &log)?;
        while !self.answers().await {
            starting.again().await?;
        }
        self.process = starting.started();
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// For a client: the UNIX socket. Any user name will do, without a password.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Whether it serves; not while it is down, paused or recovering.
    pub async fn answers(&self) -> bool {
        let greeting = async {
            // It speaks first: the length of what it says, in four bytes, and the version of the
            // protocol, which is ten.
            let mut begin = [0_u8; 5];
            UnixStream::connect(self.socket()).await?.read_exact(&mut begin).await?;
            Ok::<bool, std::io::Error>(begin[4] == 10)
        };
        matches!(timeout(SILENCE, greeting).await, Ok(Ok(true)))
    }

    /// Kills it, if it runs, and starts it again with what it has committed.
    ///
    /// # Errors
    /// As [`MariaDbNode::start`].
    pub async fn restart(&mut self) -> Result<(), FaultError> {
        self.process.kill();
        self.run().await
    }
}

/// Asks the shell, which knows `PATH`.
fn executable() -> Result<PathBuf, FaultError> {
    let output = Command::new("sh").args(["-c", FIND]).stdin(Stdio::null()).output();
    let path = output.ok().filter(|output| output.status.success());
    let path = path.and_then(|output| String::from_utf8(output.stdout).ok());
    match path.as_deref().map(str::trim) {
        Some(path) if Path::new(path).is_file() => Ok(path.into()),
        _ => Err(MISSING),
    }
}
