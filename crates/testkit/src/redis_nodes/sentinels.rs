//! Sentinels that watch one master.

use faults::RedisNode;

use super::Node;
use crate::wait::eventually;

/// What the sentinels call the master.
const NAME: &str = "mymaster";

/// Sentinels that find a silent master dead after half a second.
pub struct Sentinels {
    pub nodes: Vec<Node>,
    quorum: usize,
}

impl Sentinels {
    /// Starts `count` sentinels of `master`, which has its replicas already, and waits until
    /// they know them and each other. `quorum` of them make a master dead.
    pub async fn start(master: &Node, count: usize, quorum: usize) -> Self {
        Self::start_with(master, master.port(), (count, quorum), &[]).await
    }

    /// As [`Sentinels::start`], of the master's other port, with more arguments for each.
    pub async fn start_with(
        master: &Node,
        port: u16,
        (count, quorum): (usize, usize),
        more: &[&str],
    ) -> Self {
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(Self::one(port, quorum, more).await);
        }
        let replicas = master.field(&["INFO", "replication"], "connected_slaves").await;
        let sentinels = Self { nodes, quorum };
        for node in &sentinels.nodes {
            eventually("the sentinels know each other", async || {
                let known: Vec<String> = node.command(&["SENTINEL", "MASTER", NAME]).await;
                let is = |name: &str, value: &str| {
                    known.chunks(2).any(|pair| pair[0] == name && pair[1] == value)
                };
                is("num-other-sentinels", &(count - 1).to_string())
                    && is("num-slaves", &replicas)
                    && is("flags", "master")
            })
            .await;
        }
        sentinels
    }

    async fn one(port: u16, quorum: usize, more: &[&str]) -> Node {
        // A sentinel wants a file, in which it writes what it learns.
        let configuration = format!(
            "sentinel monitor {NAME} 127.0.0.1 {port} {quorum}\n\
             sentinel down-after-milliseconds {NAME} 500\n\
             sentinel failover-timeout {NAME} 2000\n"
        );
        Node(
            RedisNode::start_configured(&configuration, &[&["--sentinel"], more].concat())
                .await
                .unwrap(),
        )
    }

    /// For `store::Redis`.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.nodes.iter().map(|node| node.address()).collect();
        format!("redis+sentinel://{}/{NAME}", addresses.join(","))
    }

    /// The port of the master, as all sentinels that answer have it; `None` while they differ.
    async fn master_port(&self) -> Option<u16> {
        let mut ports = Vec::new();
        for node in &self.nodes {
            let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
            if let Ok((_, port)) = node.try_command::<(String, u16)>(&words).await {
                ports.push(port);
            }
        }
        ports.dedup();
        (ports.len() == 1).then(|| ports[0])
    }

    /// Has them watch another master by the same name.
    pub async fn watch(&self, master: &Node) {
        let (port, quorum) = (master.port().to_string(), self.quorum.to_string());
        for node in &self.nodes {
            node.command::<()>(&["SENTINEL", "REMOVE", NAME]).await;
            let words = ["SENTINEL", "MONITOR", NAME, "127.0.0.1", &port, &quorum];
            node.command::<()>(&words).await;
        }
    }

    /// Waits until they have made `node` the master.
    pub async fn promoted(&self, node: &Node) {
        eventually("the sentinels promote the replica", async || {
            self.master_port().await == Some(node.port())
                && node.field(&["INFO", "replication"], "role").await == "master"
        })
        .await;
    }
}
