//! The servers on which a rung keeps its lock, where it has some of its own.

use anyhow::Context;

use super::told::LockServer;
use super::world::World;
use faults::{FaultError, Proxy, RedisNode, ZooKeeperNode};
use ladder::{LockKind, Rung};

/// The lock's servers: the world's Redis for one, fresh ones for several.
#[derive(Default)]
pub(super) struct LockServers {
    /// Those that are nobody else's.
    pub(super) nodes: Vec<RedisNode>,
    pub(super) zookeeper_node: Option<ZooKeeperNode>,
    /// Where a process finds the rung's Redis servers.
    pub(super) redis_urls: Vec<String>,
    /// Where it finds ZooKeeper, as `host:port`.
    pub(super) zookeeper: Option<String>,
    /// Networks that a process goes through, for as long as the replay lasts.
    pub(super) networks: Vec<Proxy>,
}

impl LockServers {
    /// Those of `rung`, where nothing happens to them.
    pub(super) async fn start(world: &World, rung: &Rung) -> Result<Self, FaultError> {
        match rung.lock {
            LockKind::NoLock if rung.asks_redis_first() => {
                Ok(Self { redis_urls: vec![world.redis_url().to_owned()], ..Self::default() })
            }
            LockKind::Redis(1) | LockKind::Stream => {
                Ok(Self { redis_urls: vec![world.redis_url().to_owned()], ..Self::default() })
            }
            LockKind::Redis(several) => Self::fresh(world, several).await,
            LockKind::NoLock | LockKind::Database | LockKind::Mutex => Ok(Self::default()),
            LockKind::ZooKeeper => {
                Ok(Self { zookeeper: Some(world.zookeeper().await?), ..Self::default() })
            }
        }
    }

    /// `count` Redis servers that nobody else uses.
    pub(super) async fn fresh(world: &World, count: usize) -> Result<Self, FaultError> {
        let mut servers = Self::default();
        for _ in 0..count {
            let node = RedisNode::start_at(world.home()).await?;
            servers.redis_urls.push(node.url());
            servers.nodes.push(node);
        }
        Ok(servers)
    }

    /// Puts servers of the rung's own in the place of those that others use, too.
    pub(super) async fn none_shared(
        &mut self,
        world: &World,
        rung: &Rung,
    ) -> Result<(), FaultError> {
        match rung.lock {
            LockKind::NoLock if rung.asks_redis_first() => {
                *self = Self::fresh(world, 1).await?;
            }
            LockKind::Redis(_) | LockKind::Stream if self.nodes.is_empty() => {
                *self = Self::fresh(world, self.redis_urls.len()).await?;
            }
            LockKind::ZooKeeper => {
                let node = ZooKeeperNode::start_at(world.home()).await?;
                self.zookeeper = Some(node.connect_string());
                self.zookeeper_node = Some(node);
            }
            LockKind::Redis(_) | LockKind::Stream => {}
            LockKind::NoLock | LockKind::Database | LockKind::Mutex => {}
        }
        Ok(())
    }

    /// `kill -9` of one of the lock's own servers: which.
    pub(super) fn kill_last(&mut self) -> anyhow::Result<LockServer> {
        if let Some(node) = &mut self.zookeeper_node {
            node.process.kill();
            return Ok(LockServer::ZooKeeper);
        }
        let of = self.nodes.len();
        let last = self.nodes.last_mut().context("the rung has no server of its own")?;
        last.process.kill();
        Ok(if of == 1 { LockServer::Redis } else { LockServer::OneRedis { nth: of, of } })
    }
}
