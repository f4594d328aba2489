//! Server processes (`seckill serve`) that a command starts, uses and stops.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use child_process::ChildProcess;
use nix::sys::signal::Signal;
use tokio::time::timeout;

use crate::sibling::Sibling;

/// A node is ready within this time, or it counts as failed.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// A node has finished its open requests within this time, or it is killed.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
/// Variables of gateways, which `serve` refuses beside the log and the sandbox, and of the receiver of events.
const OF_GATEWAYS: [&str; 8] = [
    "SECKILL_SMS_URL",
    "SECKILL_SMS_SECRET",
    "SECKILL_PAYMENTS",
    "SECKILL_PAYMENTS_URL",
    "SECKILL_PAYMENTS_SECRET",
    "SECKILL_PAYMENTS_SECRET_PREVIOUS",
    "SECKILL_EVENTS_URL",
    "SECKILL_EVENTS_SECRET",
];

/// What a node is started with.
#[derive(Clone)]
#[allow(missing_debug_implementations)] // the URLs and the secret must not be printed
pub struct NodeOptions {
    /// PostgreSQL.
    pub database_url: String,
    /// Redis.
    pub redis_url: String,
    /// What its names there begin with.
    pub key_prefix: String,
    /// Signs and checks the tokens.
    pub secret: String,
    /// Name of the strategy: how it sells.
    pub strategy: &'static str,
    /// The most purchases under way at once.
    pub burst: usize,
    /// The most connections from one address, from which a whole crowd comes.
    pub connections: u32,
    /// Where it listens; `None`: at a free port of the loopback address.
    pub listen: Option<SocketAddr>,
    /// The phone of its administrator.
    pub admin_phone: Option<&'static str>,
    /// Whether buyers pay at its sandbox, whatever the environment says.
    pub has_sandbox: bool,
}

/// One running `seckill serve`. It stops with this process, whatever ends it.
#[derive(Debug)]
pub struct Node {
    /// Where it listens.
    pub address: SocketAddr,
    child: ChildProcess,
}

impl Node {
    /// Starts a node and waits until it listens.
    ///
    /// # Errors
    /// When it does not come up; the node's own words are on standard error.
    pub async fn start(options: NodeOptions) -> anyhow::Result<Self> {
        let mut command = Command::new(Sibling::Server.path()?);
        let listen = options.listen.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 0).into());
        command
            .args(["serve", "--listen", &listen.to_string(), "--until-stdin-closes"])
            .args(["--strategy", options.strategy])
            .args(["--burst", &options.burst.to_string()])
            .args(["--connections-per-address", &options.connections.to_string()])
            // No balancer has to notice that it ends, and none is before it.
            .args(["--drain-delay", "0s", "--base-path", ""])
            // Where these secrets came from files.
            .env_remove("DATABASE_URL_FILE")
            .env_remove("REDIS_URL_FILE")
            .env_remove("SECKILL_SECRET_FILE")
            // In the environment, where other users of the machine cannot read them.
            .env("DATABASE_URL", options.database_url)
            .env("REDIS_URL", options.redis_url)
            .env("SECKILL_KEY_PREFIX", options.key_prefix)
            // The URL names the files.
            .env_remove("SECKILL_REDIS_CA")
            .env_remove("SECKILL_REDIS_CERT")
            .env_remove("SECKILL_REDIS_KEY")
            .env("SECKILL_SECRET", options.secret)
            // The users have their tokens already; at this level the log shows no code.
            .env("SECKILL_SMS", "log")
            .env("SECKILL_ADMIN_PHONES", options.admin_phone.unwrap_or_default())
            .env("RUST_LOG", "warn");
        for name in OF_GATEWAYS {
            command.env_remove(name).env_remove(format!("{name}_FILE"));
        }
        if options.has_sandbox {
            command.env("SECKILL_PAYMENTS", "sandbox");
        }
        Self::spawn(command).await
    }

    /// Starts the process that refuses every purchase (`seckill-tools bare`) on a free port.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub async fn start_bare() -> anyhow::Result<Self> {
        let mut command = Command::new(Sibling::Tools.path()?);
        command.arg("bare");
        Self::spawn(command).await
    }

    /// Waits for the line in which the node tells its address.
    async fn spawn(mut command: Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            ChildProcess::start(command, Signal::SIGTERM).context("cannot start a node")?;
        let address = |line: &str| line.rsplit_once("http://")?.1.parse().ok();
        let address = child.ready(READY_WITHIN, address).await.context("a node did not come up")?;
        Ok(Self { address, child })
    }

    /// Its process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills it with SIGKILL, and waits until it is gone.
    ///
    /// # Errors
    /// When the system does not say how it ended.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot wait for a node")?;
        Ok(())
    }

    /// Tells the node to finish its open requests, and waits until it has ended.
    ///
    /// # Errors
    /// When it did not end in time, or not with success.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        // The end of its input tells it.
        let status = timeout(STOPPED_WITHIN, self.child.wait())
            .await
            .context("a node did not stop in time")?
            .context("cannot wait for a node")?;
        ensure!(status.success(), "a node ended with {status}");
        Ok(())
    }
}
