//! The locks of the two buyers, read from their servers.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Serialize;
use zookeeper_client::Client;

use crate::lock_servers::LockServers;
use redis_link::Redis;

/// A lock that somebody has, or a place in its queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LockView {
    /// Where it is.
    pub server: String,
    /// The key, with the user's number for the user's id.
    pub key: String,
    /// How it is kept.
    pub kind: &'static str,
    /// The holder, where the lock names one.
    pub holder: Option<String>,
    /// How often the holder has it, where that is counted.
    pub holds: Option<i64>,
    /// What is left of the lease; `None` where it never ends.
    pub ttl_ms: Option<i64>,
}

/// Connections to the lock's servers, and the actors behind the names that stand in them.
pub(super) struct LockReader {
    redis: Vec<Redis>,
    zookeeper: Option<Client>,
    holders: BTreeMap<String, &'static str>,
}

/// One lock as it is written on a server.
struct LockEntry {
    kind: &'static str,
    /// The holder's own name for itself.
    value: String,
    holds: Option<i64>,
    ttl_ms: Option<i64>,
}

impl LockReader {
    pub(super) async fn connect(servers: &LockServers) -> anyhow::Result<Self> {
        let redis = servers.redis_urls.iter().map(|url| Redis::new(url)).collect::<Result<_, _>>();
        let zookeeper = match &servers.zookeeper {
            Some(address) => Some(Client::connect(address).await?),
            None => None,
        };
        Ok(Self { redis: redis?, zookeeper, holders: BTreeMap::new() })
    }

    /// Deletes the lock of a run that was broken off. Its holders' names mean nothing any more.
    pub(super) async fn forget(&mut self, key: &str) -> anyhow::Result<()> {
        self.holders.clear();
        for redis in &self.redis {
            redis.query::<()>(redis::cmd("DEL").arg(key)).await?;
        }
        Ok(())
    }

    /// The names that are new under `key` are `actor`'s.
    pub(super) async fn is_of(&mut self, key: &str, actor: &'static str) -> anyhow::Result<()> {
        for (_, entry) in self.entries(key).await? {
            if says_whose(&entry.value) {
                self.holders.entry(entry.value).or_insert(actor);
            }
        }
        Ok(())
    }

    /// What is at `key`, which is shown as `name`.
    pub(super) async fn look(&self, key: &str, name: &str) -> anyhow::Result<Vec<LockView>> {
        let view = |(server, entry): (String, LockEntry)| LockView {
            server,
            key: name.to_owned(),
            kind: entry.kind,
            holder: self.holders.get(&entry.value).map(|actor| (*actor).to_owned()),
            holds: entry.holds,
            ttl_ms: entry.ttl_ms,
        };
        Ok(self.entries(key).await?.into_iter().map(view).collect())
    }

    async fn entries(&self, key: &str) -> anyhow::Result<Vec<(String, LockEntry)>> {
        let mut entries = Vec::new();
        for (nth, redis) in (1..).zip(&self.redis) {
            let server = format!("Redis {nth}");
            entries.extend(in_redis(redis, key).await?.map(|entry| (server, entry)));
        }
        if let Some(zookeeper) = &self.zookeeper {
            entries.extend(in_zookeeper(zookeeper, key).await?);
        }
        Ok(entries)
    }
}

/// The rungs before r10 write the same into every lock.
fn says_whose(value: &str) -> bool {
    value.contains('-')
}

async fn in_redis(redis: &Redis, key: &str) -> anyhow::Result<Option<LockEntry>> {
    let kind: String = redis.query(redis::cmd("TYPE").arg(key)).await?;
    let ttl_ms: i64 = redis.query(redis::cmd("PTTL").arg(key)).await?;
    let ttl_ms = (ttl_ms >= 0).then_some(ttl_ms);
    Ok(match kind.as_str() {
        "string" => {
            let value: Option<String> = redis.query(redis::cmd("GET").arg(key)).await?;
            value.map(|value| LockEntry { kind: "string", value, holds: None, ttl_ms })
        }
        "hash" => {
            let fields: BTreeMap<String, i64> =
                redis.query(redis::cmd("HGETALL").arg(key)).await.context("not a lock")?;
            fields.into_iter().next().map(|(value, holds)| LockEntry {
                kind: "hash",
                value,
                holds: Some(holds),
                ttl_ms,
            })
        }
        _ => None,
    })
}

/// The queue, the holder first.
async fn in_zookeeper(client: &Client, key: &str) -> anyhow::Result<Vec<(String, LockEntry)>> {
    let mut places = match client.list_children(&format!("/{key}")).await {
        Ok(places) => places,
        Err(zookeeper_client::Error::NoNode) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    places.sort();
    let entry = |(nth, value): (usize, String)| {
        let kind = if nth == 0 { "first in the queue" } else { "in the queue" };
        ("ZooKeeper".to_owned(), LockEntry { kind, value, holds: None, ttl_ms: None })
    };
    Ok(places.into_iter().enumerate().map(entry).collect())
}
