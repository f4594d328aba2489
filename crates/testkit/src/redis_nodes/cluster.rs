//! A cluster of masters.

use super::Node;
use crate::wait::eventually;

const SLOTS: usize = 16_384;

const MEMBER: [&str; 4] = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];

/// Masters that share the slots, without replicas.
pub struct Cluster {
    pub nodes: Vec<Node>,
}

impl Cluster {
    /// Starts `count` masters, each with an equal share of the slots, and waits until all of
    /// them serve.
    pub async fn start(count: usize) -> Self {
        Self::start_with(count, &[]).await
    }

    /// As [`Cluster::start`], with more arguments for each server.
    pub async fn start_with(count: usize, more: &[&str]) -> Self {
        let mut nodes = Vec::new();
        for index in 0..count {
            let node = Node::start(&[&MEMBER, more].concat()).await;
            let (first, last) = (SLOTS * index / count, SLOTS * (index + 1) / count - 1);
            let range = [first.to_string(), last.to_string()];
            node.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]).await;
            // Otherwise they would first have to settle who is right.
            let epoch = (index + 1).to_string();
            node.command::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
            nodes.push(node);
        }
        for node in &nodes[1..] {
            meet(&nodes[0], node).await;
        }
        let cluster = Self { nodes };
        cluster.settled().await;
        cluster
    }

    /// Waits until every node serves and knows every other.
    pub async fn settled(&self) {
        let (count, slots) = (self.nodes.len().to_string(), SLOTS.to_string());
        for node in &self.nodes {
            eventually("the cluster is ready", async || {
                node.field(&["CLUSTER", "INFO"], "cluster_state").await == "ok"
                    && node.field(&["CLUSTER", "INFO"], "cluster_size").await == count
                    && node.field(&["CLUSTER", "INFO"], "cluster_slots_ok").await == slots
            })
            .await;
        }
    }

    /// For `store::Redis`.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.nodes.iter().map(|node| node.address()).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// Starts a replica of one of the masters, and waits until it has what that has.
    pub async fn add_replica(&self, index: usize) -> Node {
        let (master, replica) = (&self.nodes[index], Node::start(&MEMBER).await);
        meet(master, &replica).await;
        let id: String = master.command(&["CLUSTER", "MYID"]).await;
        // It can follow only whom it has heard of.
        eventually("the replica may follow", async || {
            replica.try_command::<()>(&["CLUSTER", "REPLICATE", &id]).await.is_ok()
        })
        .await;
        eventually("the replica is in step", async || {
            replica.field(&["INFO", "replication"], "master_link_status").await == "up"
        })
        .await;
        // The others let it take over, for which they have to have heard of it.
        for node in &self.nodes {
            eventually("everybody knows the replica", async || {
                let nodes: String = node.command(&["CLUSTER", "NODES"]).await;
                nodes.lines().any(|line| line.contains("slave") && line.contains(&id))
            })
            .await;
        }
        // And it asks those for their votes whom it knows: what its master has not told it
        // when that dies it never learns.
        let count = self.nodes.len() + 1; // and perhaps other replicas
        eventually("the replica knows everybody", async || {
            let nodes: String = replica.command(&["CLUSTER", "NODES"]).await;
            let met = |line: &&str| line.contains(" connected") && !line.contains("handshake");
            nodes.lines().filter(met).count() >= count
        })
        .await;
        replica
    }

    pub async fn slot_of(&self, key: &str) -> usize {
        self.nodes[0].command(&["CLUSTER", "KEYSLOT", key]).await
    }

    /// Which of the nodes was given the key's slot at the start.
    pub async fn index_of(&self, key: &str) -> usize {
        let (slot, count) = (self.slot_of(key).await, self.nodes.len());
        (0..count).find(|index| slot < SLOTS * (index + 1) / count).unwrap()
    }

    pub async fn node_of(&self, key: &str) -> &Node {
        &self.nodes[self.index_of(key).await]
    }
}

async fn meet(node: &Node, other: &Node) {
    let ports = [other.port().to_string(), other.bus_port().to_string()];
    let words = ["CLUSTER", "MEET", "127.0.0.1", &ports[0], &ports[1]];
    node.command::<()>(&words).await;
}

/// Moves the slot of `name`; `meanwhile` runs when the source says that it is on its way.
pub async fn migrate(cluster: &Cluster, name: &str, to: &Node, meanwhile: impl AsyncFnOnce()) {
    let from = cluster.node_of(name).await;
    let slot = cluster.slot_of(name).await.to_string();
    let [source, target]: [String; 2] =
        [from.command(&["CLUSTER", "MYID"]).await, to.command(&["CLUSTER", "MYID"]).await];
    to.command::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]).await;
    from.command::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]).await;
    meanwhile().await;
    let keys: Vec<String> = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]).await;
    let port = to.port().to_string();
    for key in keys {
        from.command::<()>(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]).await;
    }
    for node in [to, from] {
        node.command::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &target]).await;
    }
}
