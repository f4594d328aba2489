//! Server processes that a command starts, uses and stops.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::stores::Stores;
use crate::config::MAX_BURST;
use crate::seckill::Strategy;

/// A node is ready, or it never will be.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// A node has finished what it began, or it is killed.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);

/// This program, to be run once more.
fn own_program() -> anyhow::Result<Command> {
    let exe = std::env::current_exe().context("cannot find the program's own file")?;
    Ok(Command::new(exe))
}

/// One running `seckill serve`. It stops with this process, whatever ends it: it watches
/// the pipe that is its standard input.
#[derive(Debug)]
pub struct Node {
    /// Where it listens.
    pub address: SocketAddr,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Node {
    /// Starts a node on a free port and waits until it listens.
    ///
    /// # Errors
    /// When it does not come up; what it said is on standard error.
    pub async fn start(
        stores: &Stores,
        secret: &str,
        strategy: Strategy,
        burst: usize,
    ) -> anyhow::Result<Self> {
        let mut command = own_program()?;
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--until-stdin-closes"])
            .args(["--strategy", strategy.as_str()])
            .args(["--burst", &burst.clamp(1, MAX_BURST as usize).to_string()])
            // In the environment, where other users of the machine cannot read them.
            .env("DATABASE_URL", &stores.database_url)
            .env("REDIS_URL", &stores.redis_url)
            .env("SECKILL_SECRET", secret)
            .env("RUST_LOG", "warn");
        Self::spawn(command).await
    }

    /// Starts the process that refuses everybody (`seckill bare`) on a free port.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub async fn start_bare() -> anyhow::Result<Self> {
        let mut command = own_program()?;
        command.arg("bare");
        Self::spawn(command).await
    }

    /// Waits for the line that says where it listens.
    async fn spawn(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for us: we stop it when we no longer need it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a node")?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let mut lines = BufReader::new(stdout.context("a node has no output")?).lines();
        let said = timeout(READY_WITHIN, lines.next_line()).await;
        let line = said.context("a node did not come up in time")??;
        let Some(address) = line.as_deref().and_then(|line| line.rsplit_once("http://")) else {
            bail!("a node ended before it listened");
        };
        Ok(Self { address: address.1.parse()?, child, stdin })
    }

    /// What it has resident in memory, in bytes; `None` where the system does not say so.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
        Some(kib * 1024)
    }

    /// Its process.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Tells it to finish what it began, and waits until it has ended.
    ///
    /// # Errors
    /// When it did not end, or not well.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.stdin.take());
        let ended = timeout(STOPPED_WITHIN, self.child.wait()).await;
        let status = ended.context("a node did not stop in time")??;
        if !status.success() {
            bail!("a node ended with {status}");
        }
        Ok(())
    }
}
