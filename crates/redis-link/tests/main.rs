//! Connections to real servers.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod addresses;
mod closed;
mod dedicated;
mod foreign;
mod tls;
mod topologies;

use std::sync::LazyLock;
use std::time::Duration;

use redis_link::{LinkError, LuaScript, Redis, ScriptCall};

const SECOND: Duration = Duration::from_secs(1);

/// A script that writes.
fn increment_call(key: &str) -> ScriptCall {
    static INCREMENT: LazyLock<LuaScript> =
        LazyLock::new(|| LuaScript::new("return redis.call('incr', KEYS[1])"));
    ScriptCall::new(&INCREMENT).key(key)
}

/// A call on a dedicated connection; nothing has to acknowledge it.
async fn increment_alone(redis: &Redis) -> Result<i64, LinkError> {
    let called = redis.call_acknowledged::<i64>(&increment_call("n"), 0, SECOND, || ()).await;
    called.map(|(number, _)| number)
}
