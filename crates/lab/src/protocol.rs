//! What the lab and its nodes say to each other: a line of JSON each.

use std::io::Write;

use serde::{Deserialize, Serialize};

use super::lock_servers::LockServers;
use super::told::Failure;
use ladder::{Answer, Awaited, Detail, PaymentNotice, Point, Resources, Rung, RungError, WorkTurn};

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
}

/// Places in a rung's queue in a replay: few, so that it can be seen to fill.
pub(super) const FEW_PLACES: usize = 5;

impl NodePlan {
    /// A node that serves `rung` over HTTP, with `servers` for its lock and names that begin
    /// with `key_prefix`.
    pub(super) fn http(
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
            http: true,
            consumer: true,
        }
    }

    /// What the rung is given to work with.
    pub(super) fn resources(&self) -> Result<Resources, RungError> {
        let zookeeper = self.zookeeper.clone();
        let resources =
            Resources::open(&self.database_url, &self.redis_urls, zookeeper, &self.key_prefix)?;
        Ok(Resources { queue: if self.http { Resources::QUEUE } else { FEW_PLACES }, ..resources })
    }
}

/// An order to a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NodeRequest {
    /// A new attempt, which waits until it is told to go.
    Enter(Attempt),
    /// The same buyer asks what became of an attempt that was accepted; waits in the same way.
    Ask(Attempt),
    /// The actor of this name is one turn of the consumer; waits in the same way.
    Work(String),
    /// The actor of this name is a notice of the payment gateway; waits in the same way.
    Pay(String, PaymentNotice),
    /// The actor of this name is one turn of what ends unpaid orders of this voucher; waits in the same
    /// way.
    Expire(String, i64),
    /// The actor of this name is an operator who puts so many more of this voucher on sale; waits in the
    /// same way.
    Restock(String, i64, i32),
    /// The actor goes on to its next pause point.
    Go(String),
    /// An actor that waits in this process is to say so again, unless it waits no more.
    Look(String),
    /// Every attempt is dropped where it is, and nothing of it is left here.
    BreakOff,
}

/// An attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// The actor that is meant from now on.
    pub(super) actor: String,
    /// As in `ladder::Purchase`.
    pub(super) user: i64,
    /// As in `ladder::Purchase`.
    pub(super) voucher: i64,
    /// As in `ladder::Purchase`.
    pub(super) also: Option<i64>,
    /// As in `ladder::Purchase`.
    pub(super) lease_ms: u64,
    /// As in `ladder::Purchase`.
    pub(super) patience_ms: u64,
    /// As in `ladder::Purchase`.
    pub(super) request: String,
}

/// What a node says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NodeReport {
    /// It listens: for orders, or at this address.
    Ready(Option<String>),
    /// No attempt is left.
    BrokenOff,
    /// An actor did something.
    Acted {
        /// Who.
        actor: String,
        /// What.
        act: Act,
    },
}

/// What an actor did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Act {
    /// It is at a pause point, and stays there until it is told to go.
    At(Point, Detail),
    /// It waits for another actor of its process.
    Waits(Awaited),
    /// It is through.
    Done(Answer),
    /// So is a consumer's turn.
    Worked(WorkTurn),
    /// Nobody knows of the attempt that was asked about.
    NeverHeardOf,
    /// It found that it had lost its lock, and wrote nothing.
    LostLock,
    /// It came to no answer.
    Failed(Failure),
}

/// Writes a line at once. A lab that does not read any more has ended, and so does the node.
pub(super) fn say(said: &NodeReport) {
    let mut stdout = std::io::stdout().lock();
    let line = serde_json::to_string(said).unwrap_or_default();
    if writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err() {
        std::process::exit(1);
    }
}
