//! The server's handle on Redis, which the locks share: what was sent is never sent again.

pub use redis_link::Redis;

use super::StoreError;
use super::outage::redis_outage_log;

/// Says in the log what no waiting mends: a user who may not send scripts, a wrong password.
pub async fn say_what_redis_refuses(redis: Redis) {
    if let Err(error) = redis.may_run_scripts().await
        && !error.retry_may_help()
    {
        tracing::error!(%error, "Redis refuses this server: no purchase and no login will succeed");
    }
}

/// A handle that connects when it is first used, and writes outages to the log as the server does.
pub fn redis(url: &str) -> Result<Redis, StoreError> {
    Ok(Redis::new(url)?.on_outage(redis_outage_log()))
}
