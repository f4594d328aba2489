//! Bare Redis servers of one test, for what the run's shared server is no use: replicas,
//! sentinels, clusters, several masters at once; and servers to kill, pause and restart.
//!
//! They are the lab's; here what fails ends the test.

mod certificates;
mod cluster;
mod sentinels;

use std::ops::Deref;

use faults::{FaultError, Proxy, RedisNode};
use redis::FromRedisValue;

pub use certificates::Certificates;
pub use cluster::{Cluster, migrate};
pub use sentinels::Sentinels;

/// Arguments of a server that has on disk whatever it acknowledged.
pub const DURABLE: [&str; 4] = RedisNode::DURABLE;

/// One `redis-server`: a [`RedisNode`] whose failures end the test.
pub struct Node(RedisNode);

impl Deref for Node {
    type Target = RedisNode;

    fn deref(&self) -> &RedisNode {
        &self.0
    }
}

impl Node {
    pub async fn start(arguments: &[&str]) -> Self {
        Self(RedisNode::start(arguments).await.unwrap())
    }

    /// A master and its replica.
    pub async fn pair() -> (Self, Self) {
        let (master, replica) = (Self::start(&[]).await, Self::start(&[]).await);
        replica.replica_of(&master).await;
        (master, replica)
    }

    /// The same, and between them a proxy that can cut them apart.
    pub async fn pair_over_proxy() -> (Self, Self, Proxy) {
        let (master, replica) = (Self::start(&[]).await, Self::start(&[]).await);
        let proxy = Proxy::start(&master.socket_url()).await.unwrap();
        replica.replica_at(proxy.port()).await;
        (master, replica, proxy)
    }

    /// Where it speaks TLS, with [`Certificates::arguments`].
    pub fn tls_address(&self) -> String {
        format!("127.0.0.1:{}", self.tls_port())
    }

    /// For a client that logs in as a user with these rules.
    pub async fn url_of_user(&self, rules: &[&str]) -> String {
        let user = ["ACL", "SETUSER", "u", "reset", "on", ">p"];
        self.command::<()>(&[&user, rules].concat()).await;
        self.url().replace("://", "://u:p@")
    }

    pub fn pid(&self) -> u32 {
        self.process.pid().expect("the server runs")
    }

    pub async fn try_command<T: FromRedisValue>(&self, words: &[&str]) -> Result<T, FaultError> {
        self.0.command(words).await
    }

    pub async fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_command(words).await.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    pub async fn field(&self, words: &[&str], name: &str) -> String {
        self.0.field(words, name).await.unwrap()
    }

    pub async fn replica_of(&self, master: &Node) {
        self.0.replica_of(&master.0).await.unwrap();
    }

    pub async fn replica_at(&self, port: u16) {
        self.0.replica_at(port).await.unwrap();
    }

    pub fn kill(&mut self) {
        self.0.process.kill();
    }

    pub fn pause(&self) {
        self.process.pause().unwrap();
    }

    pub fn resume(&self) {
        self.process.resume().unwrap();
    }

    pub async fn restart(&mut self) {
        self.0.restart().await.unwrap();
    }

    pub async fn restart_empty(&mut self) {
        self.0.restart_empty().await.unwrap();
    }
}
