//! The server's handle on Redis. Its connections are those of the lock's crate: what was sent is never
//! sent again.

pub use redisson_lock::connection::Redis;

use super::StoreError;
use super::outage::redis_outage_log;

/// A handle that connects when it is first used, and writes outages to the log as the server does.
pub fn redis(url: &str) -> Result<Redis, StoreError> {
    Ok(Redis::new(url)?.on_outage(redis_outage_log()))
}
