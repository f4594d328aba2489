//! On what a run ran: without that nobody can repeat it, nor know whether it means anything. What is not found out is
//! `None`: not every user may read every setting.

use redis_link::Redis;
use sqlx::PgExecutor;

/// Processors that this program may use.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What a PostgreSQL is set to; its version is `server_version`.
pub async fn postgresql(executor: impl PgExecutor<'_>, setting: &str) -> Option<String> {
    let query = sqlx::query_scalar("select current_setting($1)").bind(setting);
    query.fetch_one(executor).await.ok()
}

/// The version of a Redis, or of what is in its place.
pub async fn redis(redis: &Redis) -> Option<String> {
    let info: String = redis.query(redis::cmd("INFO").arg("server")).await.ok()?;
    value_of(&info, "valkey_version").or_else(|| value_of(&info, "redis_version"))
}

/// The first value of this name in lines `name : value`.
#[must_use]
pub fn value_of(text: &str, name: &str) -> Option<String> {
    let (_, value) = text.lines().find(|line| line.starts_with(name))?.split_once(':')?;
    Some(value.trim().to_owned())
}
