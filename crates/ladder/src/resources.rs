//! What a rung is given to work with.

use std::time::Duration;

use sqlx::postgres::{PgPool, PgPoolOptions};

use super::RungError;
use super::queue_keys::QueueKeys;
use redis_link::Redis;
use seckill::store::Keys;

/// More than any schedule has actors; what a rush has beyond waits in line.
const MAX_CONNECTIONS: u32 = 12;

/// How long an attempt of a rush waits for a connection: it queues, it does not fail.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);

/// A rung's database, its lock servers, its names.
#[derive(Debug, Clone)]
pub struct Resources {
    /// PostgreSQL: the tables `seckill_vouchers` and `orders`, with the constraints that the
    /// rung's row of the registry says.
    pub database: PgPool,
    /// The same, as a URL.
    pub database_url: String,
    /// The Redis servers of the lock: one, or as many as the rung has nodes.
    pub redis: Vec<Redis>,
    /// ZooKeeper, as `host:port`.
    pub zookeeper: Option<String>,
    /// Names the locks, as production does.
    pub keys: Keys,
    /// Names what the asynchronous rungs keep in Redis.
    pub queue_keys: QueueKeys,
    /// Places in a queue between answer and database, where a rung's queue is bounded.
    pub queue: usize,
    /// How far the clock of this process is ahead of the others.
    pub clock_ahead: Duration,
}

impl Resources {
    /// Places in a queue for a crowd.
    pub const QUEUE: usize = 1 << 20;

    /// Connects when something is first used. All keys begin with `key_prefix`.
    ///
    /// # Errors
    /// When a URL is malformed.
    pub fn open(
        database_url: &str,
        redis_urls: &[String],
        zookeeper: Option<String>,
        key_prefix: &str,
    ) -> Result<Self, RungError> {
        let database = PgPoolOptions::new()
            .max_connections(MAX_CONNECTIONS)
            .acquire_timeout(CONNECT_WITHIN)
            .test_before_acquire(false)
            .connect_lazy(database_url)?;
        let redis = redis_urls.iter().map(|url| Redis::new(url)).collect::<Result<_, _>>()?;
        Ok(Self {
            database,
            database_url: database_url.to_owned(),
            redis,
            zookeeper,
            keys: Keys::with_prefix(key_prefix),
            queue_keys: QueueKeys::with_prefix(key_prefix),
            queue: Self::QUEUE,
            clock_ahead: Duration::ZERO,
        })
    }

    /// The first Redis.
    ///
    /// # Errors
    /// When there is none.
    pub fn first_redis(&self) -> Result<Redis, RungError> {
        self.redis.first().cloned().ok_or(RungError::Lacks("a Redis"))
    }
}
