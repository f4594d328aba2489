//! A node, as the lab sees it: a child process that is told what to do, and that can be killed
//! and paused.

use std::collections::{HashMap, VecDeque};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use child_process::ChildProcess;
use nix::sys::signal::Signal;
use program::sibling::Sibling;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};

use super::protocol::{Act, NodePlan, NodeReport, NodeRequest};

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
        match node.hear().await? {
            NodeReport::Ready(address) => node.address = address,
            NodeReport::Acted { .. } | NodeReport::BrokenOff => {
                bail!("a node acted before it was ready")
            }
        }
        Ok(node)
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
        if let NodeReport::Acted { actor, act } = self.hear().await? {
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

    /// Until `actor` has done something that nobody has asked about yet.
    pub(super) async fn listen_for(&mut self, actor: &str) -> anyhow::Result<()> {
        while !self.has_heard(actor) {
            self.listen().await?;
        }
        Ok(())
    }

    /// Whether the next thing that `actor` did is that it waits; that is forgotten.
    pub(super) fn forget_waiting(&mut self, actor: &str) -> bool {
        let Some(acts) = self.heard.get_mut(actor) else { return false };
        acts.pop_front_if(|act| matches!(act, Act::Waits(_))).is_some()
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
