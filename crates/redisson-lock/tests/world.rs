//! What a test of the lock stands on: the run's Redis, and names of its own.

use redis_link::Redis;
use redisson_lock::{LockClient, LockOptions};

/// One test's own world.
pub struct World {
    pub redis_url: String,
    pub redis: Redis,
    /// Begins every name of this test.
    prefix: String,
}

impl World {
    pub async fn new() -> Self {
        let redis_url = testkit::servers::redis_url().await;
        let redis = Redis::new(&redis_url).unwrap();
        Self { redis_url, redis, prefix: format!("t_{}:", uuid::Uuid::new_v4().simple()) }
    }

    /// The name of a lock of this test.
    pub fn name(&self) -> String {
        format!("{}lock:order:7", self.prefix)
    }

    pub fn locks(&self, options: LockOptions) -> LockClient {
        LockClient::new(self.redis.clone(), options)
    }
}
