//! A node, as the lab sees it: a child process in which attempts are made, and that can be killed and paused. The two
//! say a line of JSON each to the other: an order, or what an actor did.

use std::collections::{HashMap, VecDeque};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use child_process::ChildProcess;
use nix::sys::signal::Signal;
use program::sibling::Sibling;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::lock_servers::LockServers;
use super::told::Failure;
use ladder::{Answer, Awaited, Detail, PaymentNotice, Point, Purchase, Rung, WorkTurn};

/// Places in a rung's queue in a replay: few, so that it can be seen to fill.
pub(super) const FEW_PLACES: usize = 5;

/// What a node is to be: the first line it reads.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct NodePlan {
    /// The rung that it sells by.
    pub(super) rung: String,
    /// PostgreSQL.
    pub(super) database_url: String,
    /// The lock's Redis servers.
    pub(super) redis_urls: Vec<String>,
    /// ZooKeeper, as `host:port`.
    pub(super) zookeeper: Option<String>,
    /// What all keys begin with.
    pub(super) key_prefix: String,
    /// Serve HTTP, instead of acting as it is told to.
    pub(super) http: bool,
    /// Make ready its consumer, where the rung has one.
    pub(super) consumer: bool,
    /// How far its clock is ahead.
    pub(super) clock_ahead: Duration,
}

impl NodePlan {
    /// A node that acts by `rung`, with `servers` for its lock and names that begin with `key_prefix`.
    pub(super) fn new(
        rung: &Rung,
        database_url: String,
        servers: &LockServers,
        key_prefix: String,
    ) -> Self {
        Self {
            rung: rung.id.to_owned(),
            database_url,
            redis_urls: servers.redis_urls.clone(),
            zookeeper: servers.zookeeper.clone(),
            key_prefix,
            http: false,
            consumer: true,
            clock_ahead: Duration::ZERO,
        }
    }
}

/// An order to a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NodeRequest {
    /// There is a new actor of this name, which waits until it is told to go.
    Enter(String, Task),
    /// The actor goes on to its next pause point.
    Go(String),
    /// An actor that waits in this process is to say so again, unless it waits no more.
    Look(String),
    /// Every attempt is dropped where it is, and nothing of it is left here.
    BreakOff,
}

/// What an actor is here for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    Buy(Attempt),
    /// The buyer asks what became of an attempt that was accepted.
    Ask(Attempt),
    /// One turn of the consumer.
    Work,
    Pay(PaymentNotice),
    /// One turn of what ends unpaid orders of this voucher.
    Expire(i64),
    /// An operator puts so many more of this voucher on sale.
    Restock(i64, i32),
}

/// What a buyer wants, as in [`Purchase`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// Which of the cell's users, from 0; in a process, the user's number.
    pub(super) user: i64,
    pub(super) voucher: i64,
    pub(super) also: Option<i64>,
    pub(super) lease: Duration,
    pub(super) patience: Duration,
    /// The key of the request, where it is not one of its own.
    pub(super) request: Option<u128>,
}

impl Attempt {
    /// A lease that no replay outlasts.
    const LONG_LEASE: Duration = Duration::from_secs(120);

    /// A lease whose end a replay waits for.
    pub(super) const SHORT_LEASE: Duration = Duration::from_millis(500);

    /// A buyer of one voucher, with a lease that does not end meanwhile.
    pub(super) const fn new(user: i64, voucher: i64) -> Self {
        let (lease, patience) = (Self::LONG_LEASE, Purchase::PATIENCE);
        Self { user, voucher, also: None, lease, patience, request: None }
    }

    /// With a lease that ends soon.
    pub(super) const fn short(self) -> Self {
        Self { lease: Self::SHORT_LEASE, ..self }
    }

    /// Buys another voucher on the way.
    pub(super) const fn and(self, also: i64) -> Self {
        Self { also: Some(also), ..self }
    }
}

/// What a node says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NodeReport {
    /// It listens: for orders, or at this address.
    Ready(Option<String>),
    /// No attempt is left.
    BrokenOff,
    /// An actor did something: who, and what.
    Acted(String, Act),
}

/// What an actor did, and where that brought it to a stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Act {
    /// It is at a pause point, and stays there until it is told to go.
    At(Point, Detail),
    /// It waits for another actor.
    Waits(Awaited),
    /// It was answered.
    Done(Answer),
    /// It was a turn of a consumer, of a payment or of what ends orders, and is over.
    Worked(WorkTurn),
    /// Nobody knows of the attempt that was asked about.
    NeverHeardOf,
    /// It found that it had lost its lock, and wrote nothing.
    LostLock,
    /// It came to no answer.
    Failed(Failure),
}

/// A running node. It ends with this, and with the lab's process, whatever ends that.
pub(super) struct NodeProcess {
    child: ChildProcess,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// What was heard of actors that nobody has asked about yet.
    heard: HashMap<String, VecDeque<Act>>,
    /// Where it listens, when it serves HTTP.
    pub(super) address: Option<String>,
}

impl NodeProcess {
    /// Starts a node and waits until it is ready.
    pub(super) async fn start(plan: &NodePlan) -> anyhow::Result<Self> {
        let mut command = Command::new(Sibling::Lab.path()?);
        command.args(["lab", "node"]).env("RUST_LOG", "error");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = ChildProcess::start(command, Signal::SIGKILL)
            .context("cannot start a node of the lab")?;
        let (stdin, stdout, _) = child.pipes();
        let stdin = stdin.context("a node has no input")?;
        let lines = BufReader::new(stdout.context("a node has no output")?).lines();
        let mut node = Self { child, stdin, lines, heard: HashMap::new(), address: None };
        node.order(plan).await?;
        let NodeReport::Ready(address) = node.hear().await? else {
            bail!("a node acted before it was ready")
        };
        Ok(Self { address, ..node })
    }

    /// Gives an order: a line of JSON.
    pub(super) async fn order(&mut self, line: &impl serde::Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        self.stdin.write_all(&line).await.context("a node of the lab has ended")
    }

    async fn hear(&mut self) -> anyhow::Result<NodeReport> {
        let line = self.lines.next_line().await?.context("a node of the lab has ended")?;
        serde_json::from_str(&line).context("a node says something strange")
    }

    /// The next thing that `actor` does. Dropping the future loses nothing.
    pub(super) async fn next_act(&mut self, actor: &str) -> anyhow::Result<Act> {
        loop {
            if let Some(act) = self.heard.get_mut(actor).and_then(VecDeque::pop_front) {
                return Ok(act);
            }
            self.listen().await?;
        }
    }

    /// Until somebody here does something. Dropping the future loses nothing.
    pub(super) async fn listen(&mut self) -> anyhow::Result<()> {
        if let NodeReport::Acted(actor, act) = self.hear().await? {
            self.heard.entry(actor).or_default().push_back(act);
        }
        Ok(())
    }

    /// Drops every attempt of the node where it is, and forgets what was heard of it.
    pub(super) async fn break_off(&mut self) -> anyhow::Result<()> {
        self.order(&NodeRequest::BreakOff).await?;
        while !matches!(self.hear().await?, NodeReport::BrokenOff) {}
        self.heard.clear();
        Ok(())
    }

    /// Listens for a moment whether the actor does something that nobody has asked about yet.
    pub(super) async fn says_something(
        &mut self,
        actor: &str,
        patience: Duration,
    ) -> anyhow::Result<bool> {
        match timeout(patience, self.listen_for(actor)).await {
            Ok(heard) => heard.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Whether an actor that waits in this process still does. What it waits for was given back
    /// before this is asked, or was not.
    pub(super) async fn still_waits(&mut self, actor: &str) -> anyhow::Result<bool> {
        if !self.has_heard(actor) {
            self.order(&NodeRequest::Look(actor.to_owned())).await?;
            self.listen_for(actor).await?;
        }
        let acts = self.heard.get_mut(actor);
        let waits = |act: &mut Act| matches!(act, Act::Waits(_));
        Ok(acts.is_some_and(|acts| acts.pop_front_if(waits).is_some()))
    }

    async fn listen_for(&mut self, actor: &str) -> anyhow::Result<()> {
        while !self.has_heard(actor) {
            self.listen().await?;
        }
        Ok(())
    }

    /// Whether `actor` did something that nobody has asked about yet.
    pub(super) fn has_heard(&self, actor: &str) -> bool {
        self.heard.get(actor).is_some_and(|acts| !acts.is_empty())
    }

    /// Its process.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// `SIGSTOP`, or `SIGCONT`.
    pub(super) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        self.child.signal(signal).context("cannot signal a node of the lab")
    }

    /// `SIGKILL`, and waits until it is gone.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.map(drop).context("cannot kill a node of the lab")
    }

    /// Closes its input, which is the order to finish and end.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.stdin);
        let status = self.child.wait().await?;
        if !status.success() {
            bail!("a node of the lab ended with {status}");
        }
        Ok(())
    }
}
