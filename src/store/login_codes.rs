//! Login codes, in Redis, so that all nodes share them.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::login_limits::Rate;
use super::{Keys, StoreError};
use redisson_lock::connection::{Redis, ScriptCall};

/// How long a code is good for.
pub const CODE_TTL: Duration = Duration::from_secs(120);

/// A code that was guessed wrongly this often is void.
pub const MAX_WRONG_TRIES: u32 = 5;

static ISSUE_CODE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../lua/login/issue_code.lua")));
static REDEEM_CODE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../lua/login/redeem_code.lua")));

/// The code that is to be sent to `phone`: the one that is good already, so that nobody can void
/// another person's code by asking for one, or else `fresh`.
pub async fn issue(
    redis: &Redis,
    keys: &Keys,
    phone: &str,
    fresh: &str,
) -> Result<String, StoreError> {
    let key = keys.login_code(phone);
    let ttl_ms = CODE_TTL.as_millis() as u64;
    Ok(redis.invoke(&ScriptCall::new(&ISSUE_CODE).key(key).arg(fresh).arg(ttl_ms)).await?)
}

/// What became of a code that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redemption {
    /// It was the one kept for the phone, and is used up.
    Right,
    /// It was not, or there is none.
    Wrong,
    /// It was not looked at: too many wrong ones were tried before. When to come again.
    Refused(Duration),
}

/// Uses up `code` if it is the one kept for `phone`. `wrong_tries` limits how many wrong ones may be
/// tried; a try counts only while there is a code to guess.
///
/// # Errors
/// When Redis does not answer; the code may then be used up.
pub async fn redeem(
    redis: &Redis,
    keys: &Keys,
    wrong_tries: Rate,
    phone: &str,
    code: &str,
) -> Result<Redemption, StoreError> {
    let call = ScriptCall::new(&REDEEM_CODE)
        .key(keys.login_code(phone))
        .key(keys.wrong_tries(phone))
        .arg(code)
        .arg(MAX_WRONG_TRIES)
        .arg(wrong_tries.limit)
        .arg(wrong_tries.window.as_millis() as u64);
    let answer: i64 = redis.invoke(&call).await?;
    Ok(match answer {
        1 => Redemption::Right,
        0 => Redemption::Wrong,
        wait_ms => Redemption::Refused(Duration::from_millis(wait_ms.unsigned_abs())),
    })
}
