//! Login codes and request rates, in Redis, so that all nodes share them.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::{Keys, Redis, ScriptCall, StoreError};

/// How long a code is good for.
pub const CODE_TTL: Duration = Duration::from_secs(120);

/// A code that was guessed wrongly this often is void.
pub const MAX_WRONG_TRIES: u32 = 5;

static ISSUE_CODE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../lua/login/issue_code.lua")));
static REDEEM_CODE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../lua/login/redeem_code.lua")));
static RATE_LIMIT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../lua/login/rate_limit.lua")));

/// Keeps `code` for `phone`, in place of an earlier one.
///
/// # Errors
/// When Redis does not answer.
pub async fn issue(redis: &Redis, keys: &Keys, phone: &str, code: &str) -> Result<(), StoreError> {
    let key = keys.login_code(phone);
    let ttl_ms = CODE_TTL.as_millis() as u64;
    let call = ScriptCall::new(&ISSUE_CODE).key(key).arg(code).arg(ttl_ms);
    redis.invoke::<i64>(&call).await?;
    Ok(())
}

/// Uses up `code` if it is the one kept for `phone`.
///
/// # Errors
/// When Redis does not answer; the code may then be used up.
pub async fn redeem(
    redis: &Redis,
    keys: &Keys,
    phone: &str,
    code: &str,
) -> Result<bool, StoreError> {
    let key = keys.login_code(phone);
    let call = ScriptCall::new(&REDEEM_CODE).key(key).arg(code).arg(MAX_WRONG_TRIES);
    let right: i64 = redis.invoke(&call).await?;
    Ok(right == 1)
}

/// How often something may be asked for.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// What, as it stands in the key.
    pub what: &'static str,
    /// Requests allowed in a window.
    pub limit: u32,
    /// The window.
    pub window: Duration,
}

/// Counts one request of `who`. `Some(wait)` when it is one too many.
///
/// # Errors
/// When Redis does not answer.
pub async fn count_request(
    redis: &Redis,
    keys: &Keys,
    rate: Rate,
    who: &str,
) -> Result<Option<Duration>, StoreError> {
    let key = keys.rate(rate.what, who);
    let window_ms = rate.window.as_millis() as u64;
    let call = ScriptCall::new(&RATE_LIMIT).key(key).arg(rate.limit).arg(window_ms);
    let wait_ms: u64 = redis.invoke(&call).await?;
    Ok((wait_ms > 0).then(|| Duration::from_millis(wait_ms)))
}
