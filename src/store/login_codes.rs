//! Login codes, in Redis, so that all nodes share them.

use std::sync::LazyLock;
use std::time::Duration;

use redis_link::LuaScript;

use super::login_limits::Rate;
use super::{Keys, LoginLimits, StoreError};
use redis_link::{Redis, ScriptCall};

/// How long a code is good for.
pub const CODE_TTL: Duration = Duration::from_secs(120);

static ISSUE_CODE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../../lua/login/issue_code.lua")));
static CHECK_CODE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../../lua/login/check_code.lua")));
static USE_CODE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../../lua/login/use_code.lua")));

/// The login codes of one phone, for who asks from one address.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // the names say it
pub struct LoginCodes<'a> {
    pub redis: &'a Redis,
    pub keys: &'a Keys,
    pub phone: &'a str,
    pub address: &'a str,
}

/// What a code that was tried is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The one kept for the phone.
    Right,
    /// Another one: the try is counted.
    Wrong,
    /// There is nothing to guess: the phone has no code.
    NoCode,
    /// It was not looked at, for this limit. When to come again.
    Refused(Rate, Duration),
}

impl LoginCodes<'_> {
    /// The code that is to be sent to the phone, and how long it is good: the one that is good already, so that nobody
    /// can void another person's code by asking for one, or else `fresh`. Asking again does not lengthen its time.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn issue(&self, fresh: &str) -> Result<(String, Duration), StoreError> {
        let ttl_ms = CODE_TTL.as_millis() as u64;
        let key = self.keys.login_code(self.phone);
        let call = ScriptCall::new(&ISSUE_CODE).key(key).arg(fresh).arg(ttl_ms).arg(self.address);
        let (code, left_ms) = self.redis.invoke(&call).await?;
        Ok((code, Duration::from_millis(left_ms)))
    }

    /// Compares `code` with the one kept for the phone, which stays. Wrong tries count against the address,
    /// then against the phone: the owner, who asked for the code, is let in whatever strangers have tried.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn check(&self, limits: &LoginLimits, code: &str) -> Result<Check, StoreError> {
        let Self { redis, keys, phone, address } = self;
        let all = limits["wrong-tries-per-phone"];
        let own = limits["wrong-tries-per-phone-and-address"];
        let call = ScriptCall::new(&CHECK_CODE)
            .key(keys.login_code(phone))
            .key(keys.wrong_tries(phone))
            .key(keys.wrong_tries_from(phone, address))
            .arg(code)
            .arg(*address)
            .arg(all.limit)
            .arg(all.window.as_millis() as u64)
            .arg(own.limit)
            .arg(own.window.as_millis() as u64);
        let (answer, wait_ms): (i64, u64) = redis.invoke(&call).await?;
        let wait = Duration::from_millis(wait_ms);
        Ok(match answer {
            0 => Check::Wrong,
            1 => Check::Right,
            2 => Check::NoCode,
            3 => Check::Refused(own, wait),
            4 => Check::Refused(all, wait),
            other => unreachable!("check_code.lua answered {other}"),
        })
    }

    /// Uses up `code`, once. Whether it was still there.
    ///
    /// # Errors
    /// When Redis does not answer; the code may then be used up.
    pub async fn use_up(&self, code: &str) -> Result<bool, StoreError> {
        let call = ScriptCall::new(&USE_CODE).key(self.keys.login_code(self.phone)).arg(code);
        Ok(self.redis.invoke::<i64>(&call).await? == 1)
    }
}
