//! The lock's scripts, each a function. A script has the name of its file in `lua/`.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{FromRedisValue, Value};

use super::claim::{Admission, Claim};
use super::error::LockError;
use super::options::{Acknowledged, LockState};
use super::redisson_names::{channel, in_slot};
use redis_link::{LinkError, LuaScript, Redis, ScriptCall};

macro_rules! script {
    ($name:ident, $file:literal) => {
        static $name: LazyLock<LuaScript> =
            LazyLock::new(|| LuaScript::new(include_str!(concat!("../lua/", $file))));
    };
}
script!(ACQUIRE, "acquire.lua");
script!(RELEASE, "release.lua");
script!(RENEW, "renew.lua");
script!(INSPECT, "inspect.lua");
script!(KIND, "kind.lua");
script!(FORGET_TOKEN, "forget_token.lua");

/// The script of a fair lock: its queue, the plain script as a function, and what is done with both.
macro_rules! fair_script {
    ($name:ident, $plain:literal, $own:literal) => {
        static $name: LazyLock<LuaScript> = LazyLock::new(|| {
            LuaScript::new(concat!(
                include_str!("../lua/fair_queue.lua"),
                "\nlocal function plain()\n",
                include_str!(concat!("../lua/", $plain)),
                "\nend\n",
                include_str!(concat!("../lua/", $own)),
            ))
        });
    };
}
fair_script!(FAIR_ACQUIRE, "acquire.lua", "fair_acquire.lua");
fair_script!(FAIR_RELEASE, "release.lua", "fair_release.lua");
// An operator who breaks a lock open need not know whether it is a fair one.
fair_script!(FORCE_RELEASE, "force_release.lua", "fair_release.lua");

/// The script that takes a lock, for programs that measure how fast Redis runs it.
#[cfg(feature = "__scripts")]
pub const ACQUIRE_LUA: &str = include_str!("../lua/acquire.lua");

/// How long the record of an owner's grants outlives their leases. A release is sent again
/// until the lease has ended, and no longer.
const RECORD_MARGIN: Duration = Duration::from_secs(60);

/// Before the name, in the key of its last fencing token.
pub(super) const TOKEN_PREFIX: &str = "redisson_lock_token:";

impl Claim {
    /// `plain`, or for a fair lock `fair`.
    fn script(&self, plain: &'static LuaScript, fair: &'static LuaScript) -> &'static LuaScript {
        if matches!(self.admission, Admission::Plain) { plain } else { fair }
    }

    /// The end of a call: the counter of a `fenced` one, and for a fair lock its queue. `flag`: whether to join
    /// the queue, or to leave it.
    fn end(&self, call: ScriptCall, fenced: bool, flag: bool, sharded: bool) -> ScriptCall {
        let counter = fenced.then(|| in_slot(TOKEN_PREFIX, &self.name, None));
        match (&self.admission, counter) {
            (Admission::Plain, None) => call,
            (Admission::Plain, Some(counter)) => call.key(counter),
            // The place of its key is never empty: proxies want keys by fixed numbers.
            (_, counter) => {
                let call = call.key(counter.as_ref().unwrap_or(&self.name));
                with_queue(call, &self.name, flag, sharded)
            }
        }
    }

    /// The keys of a call: the lock, and the record where there may be one.
    fn keys(&self, script: &'static LuaScript) -> ScriptCall {
        let call = ScriptCall::new(script).key(&self.name);
        if self.owner.is_shared() {
            call.key(in_slot("redisson_unlock_latch:", &self.name, Some(&self.owner)))
        } else {
            call
        }
    }
}

/// What an acquire was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcquireAnswer {
    Granted {
        token: Option<u64>,
    },
    /// Another owner holds the lock for so long yet; `None`: without an end.
    Held {
        remaining: Option<Duration>,
    },
}

/// `sending` is told on which connection, before anything is sent.
pub(super) async fn acquire(
    redis: &Redis,
    claim: &Claim,
    sending: impl FnOnce(u64),
) -> Result<AcquireAnswer, LockError> {
    let call = acquire_call(claim, !redis.is_one_server());
    let answer = redis.call(&call, sending).await;
    acquired(answer.map_err(|error| LockError::from_redis(error, &claim.name))?, claim)
}

/// The same on a connection of its own, with the number of replicas that have it too.
pub(super) async fn acquire_acknowledged(
    redis: &Redis,
    claim: &Claim,
    wanted: Acknowledged,
    sending: impl FnOnce(),
) -> Result<(AcquireAnswer, usize), LockError> {
    let call = acquire_call(claim, !redis.is_one_server());
    let answer = redis.call_acknowledged(&call, wanted.replicas, wanted.within, sending).await;
    let (answer, acknowledged) =
        answer.map_err(|error| LockError::from_redis(error, &claim.name))?;
    Ok((acquired(answer, claim)?, acknowledged))
}

/// The call that takes the lock of `claim`; `sharded`: in a cluster.
pub(super) fn acquire_call(claim: &Claim, sharded: bool) -> ScriptCall {
    let call = claim.keys(claim.script(&ACQUIRE, &FAIR_ACQUIRE));
    let call = call.arg(claim.lease_ms()).arg(claim.owner.field()).arg(claim.grant);
    let call = call.arg(RECORD_MARGIN.as_millis());
    claim.end(call, claim.fenced, claim.waits_in_redis(), sharded)
}

/// The queue of a fair lock, at the end of a call's keys and arguments.
fn with_queue(call: ScriptCall, name: &str, flag: bool, sharded: bool) -> ScriptCall {
    let call = call.key(queue(name));
    let call = call.key(in_slot("redisson_lock_timeout:", name, None));
    let call = call.key(in_slot("lock_turn:", name, None));
    call.arg(u8::from(flag)).arg(u8::from(sharded)).arg(channel(name, None))
}

/// The queue of a fair lock.
fn queue(name: &str) -> String {
    in_slot("redisson_lock_queue:", name, None)
}

/// What [`acquire_call`] was answered.
pub(super) fn acquired(answer: Value, claim: &Claim) -> Result<AcquireAnswer, LockError> {
    let (granted, number, token): (i64, i64, String) = read(answer, &claim.name)?;
    let token = match (granted, token.as_str()) {
        (0, "") => return Ok(AcquireAnswer::Held { remaining: milliseconds(number) }),
        (1, _) if number < 1 => return Err(absurd("a grant of", number)),
        (1, "") if !claim.fenced => None,
        // Something that is no lock's has written to the counter's key.
        (1, text) if claim.fenced => {
            Some(text.parse().map_err(|_| LockError::not_a_lock(&claim.name))?)
        }
        _ => return Err(absurd("neither a grant nor a refusal, but", granted)),
    };
    Ok(AcquireAnswer::Granted { token })
}

/// A script answered what it has no way to answer. It is told as a defect, which is never tried again, and
/// not by a panic: the number is from outside this process.
fn absurd(what: &str, number: i64) -> LockError {
    LockError::Redis(LinkError::defect(format!("a script of the lock answered {what} {number}")))
}

/// The answer of a script that says 1 for yes and 0 for no.
fn yes_or_no(answer: i64) -> Result<bool, LockError> {
    match answer {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(absurd("neither yes nor no, but", other)),
    }
}

fn read<T: FromRedisValue>(answer: Value, name: &str) -> Result<T, LockError> {
    let read =
        T::from_redis_value(answer).map_err(redis::RedisError::from).map_err(LinkError::from);
    read.map_err(|error| LockError::from_redis(error, name))
}

/// As `PTTL` counts: below zero there is no end.
fn milliseconds(left: i64) -> Option<Duration> {
    u64::try_from(left).ok().map(Duration::from_millis)
}

/// Gives back the hold of this claim: the holds left, or `None` where it has none. It may be sent again, and
/// gives back one hold all the same. `leaves`: its owner also leaves the queue of a fair lock.
pub(super) async fn release(
    redis: &Redis,
    claim: &Claim,
    leaves: bool,
) -> Result<Option<u64>, LockError> {
    let call = release_call(claim, leaves, !redis.is_one_server());
    let answer = redis.invoke(&call).await;
    released(answer.map_err(|error| LockError::from_redis(error, &claim.name))?, claim)
}

/// The call that releases one hold of `claim`; `sharded`: in a cluster.
pub(super) fn release_call(claim: &Claim, leaves: bool, sharded: bool) -> ScriptCall {
    let call = claim.keys(claim.script(&RELEASE, &FAIR_RELEASE));
    let call = call.arg(claim.lease_ms()).arg(claim.owner.field());
    let call = call.arg(channel(&claim.name, None)).arg(claim.grant).arg(u8::from(claim.recorded));
    let call = call.arg(RECORD_MARGIN.as_millis()).arg(claim.kept_ms());
    claim.end(telling_shard(call, sharded), false, leaves, sharded)
}

/// Has a release in a cluster told as a sharded message, too (the last argument): Redisson 3.19 and
/// later listens there to no other.
fn telling_shard(call: ScriptCall, sharded: bool) -> ScriptCall {
    if sharded { call.arg("sharded") } else { call }
}

/// What [`release_call`] was answered.
pub(super) fn released(answer: Value, claim: &Claim) -> Result<Option<u64>, LockError> {
    match read::<i64>(answer, &claim.name)? {
        -1 => Ok(None),
        holds => u64::try_from(holds).map(Some).map_err(|_| absurd("that it left holds:", holds)),
    }
}

/// `true` when the lease was lengthened, `false` when nothing is held by this claim any more.
pub(super) async fn renew(redis: &Redis, claim: &Claim) -> Result<bool, LockError> {
    let call = claim.keys(&RENEW).arg(claim.lease_ms()).arg(claim.owner.field());
    let call = call.arg(claim.grant).arg(u8::from(claim.recorded)).arg(RECORD_MARGIN.as_millis());
    let renewed: Result<i64, _> = redis.invoke(&call).await;
    yes_or_no(renewed.map_err(|error| LockError::from_redis(error, &claim.name))?)
}

/// The state of the lock; `None`: it is free.
pub(super) async fn inspect(redis: &Redis, name: &str) -> Result<Option<LockState>, LockError> {
    let from_redis = |error| LockError::from_redis(error, name);
    let call = ScriptCall::new(&INSPECT).key(name);
    let answer: Result<(i64, Vec<(String, u64)>), _> = redis.invoke(&call).await;
    let (left, fields) = answer.map_err(from_redis)?;
    let Some((owner, holds)) = fields.into_iter().next() else { return Ok(None) };
    // By itself: in a cluster the queue of some names would be in another slot than the lock.
    let queued = redis.query(redis::cmd("LLEN").arg(queue(name))).await.map_err(from_redis);
    let queued = match queued {
        // Something else is there; or this user may not look at queues, and so has no fair locks.
        Err(error) if !error.retry_may_help() => 0,
        queued => queued?,
    };
    Ok(Some(LockState { owner, holds, remaining: milliseconds(left), queued }))
}

/// The error, with what stands at the name where that is no lock.
pub(super) async fn explained(error: LockError, redis: &Redis) -> LockError {
    let LockError::NotALock { name, found: None } = error else { return error };
    let call = ScriptCall::new(&KIND).key(&name);
    let answer: Result<(String, String, String), _> = redis.invoke(&call).await;
    // The value is gone meanwhile, or the user may not look: then the error does not say.
    let found = answer.ok().and_then(|(kind, mode, value)| found(&kind, &mode, &value));
    LockError::NotALock { name, found }
}

/// What a value of this type is, in words; `None` for one that is gone.
fn found(kind: &str, mode: &str, value: &str) -> Option<&'static str> {
    Some(match (kind, mode) {
        ("none", _) => return None,
        ("hash", "read" | "write") => "Redisson's read-write lock (RReadWriteLock)",
        ("hash", _) => "a hash, such as an RMap",
        ("string", _) if value.parse::<i64>().is_ok() => {
            "a number, such as an RSemaphore, an RCountDownLatch or an RAtomicLong"
        }
        ("string", _) => "a string",
        ("list", _) => "a list",
        ("set", _) => "a set",
        ("zset", _) => "a sorted set",
        ("stream", _) => "a stream",
        _ => "a value of some module",
    })
}

/// Whether the last fencing token of this name was forgotten: see `forget_token.lua`.
pub(super) async fn forget_token(
    redis: &Redis,
    name: &str,
    idle: Duration,
) -> Result<bool, LockError> {
    let call = ScriptCall::new(&FORGET_TOKEN).key(in_slot(TOKEN_PREFIX, name, None)).key(name);
    // The locks `a` and `{a}` have one counter.
    let call = if name.contains('{') { call } else { call.key(format!("{{{name}}}")) };
    let forgotten: Result<i64, _> = redis.invoke(&call.arg(idle.as_secs())).await;
    yes_or_no(forgotten.map_err(|error| LockError::from_redis(error, name))?)
}

/// Frees the lock; where a `holder` is named, only if that one holds it. Returns whether it did.
pub(super) async fn force_release(
    redis: &Redis,
    name: &str,
    holder: Option<&str>,
) -> Result<bool, LockError> {
    let sharded = !redis.is_one_server();
    let call = ScriptCall::new(&FORCE_RELEASE).key(name).arg(channel(name, None));
    let call = call.arg(holder.unwrap_or_default());
    // The caller is no owner: nobody leaves the queue, and there are neither grants nor a counter.
    let call = call.key(name).key(name);
    let call = with_queue(telling_shard(call, sharded), name, false, sharded);
    let freed: Result<i64, _> = redis.invoke(&call).await;
    yes_or_no(freed.map_err(|error| LockError::from_redis(error, name))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(fenced: bool) -> Claim {
        let owner = super::super::owner::Owners::new().next();
        Claim::new("lock:order:1", owner, Duration::from_secs(30), fenced, Admission::Plain)
    }

    #[test]
    fn an_acquire_is_granted_or_refused_and_any_other_answer_is_a_defect() {
        let read = |fenced, granted, number, token: &str| {
            let text = Value::BulkString(token.as_bytes().to_vec());
            let answer = Value::Array(vec![Value::Int(granted), Value::Int(number), text]);
            acquired(answer, &claim(fenced)).map_err(|error| error.to_string())
        };
        let held = |remaining| Ok(AcquireAnswer::Held { remaining });
        assert_eq!(read(false, 1, 1, ""), Ok(AcquireAnswer::Granted { token: None }));
        assert_eq!(read(true, 1, 2, "7"), Ok(AcquireAnswer::Granted { token: Some(7) }));
        assert_eq!(read(true, 0, 29, ""), held(Some(Duration::from_millis(29))));
        assert_eq!(read(false, 0, -1, ""), held(None));
        for (fenced, granted, number, token) in [
            (false, -1, 1, ""),
            (false, 2, 1, ""),   // neither
            (false, 1, 0, ""),   // a grant without a hold
            (false, 1, 1, "7"),  // a token that nobody wanted
            (false, 0, 29, "7"), // a refusal with a token
        ] {
            let told = read(fenced, granted, number, token);
            assert!(
                told.as_ref().is_err_and(|told| told.contains("a script of the lock")),
                "{told:?}"
            );
        }
        for token in ["", "x"] {
            let told = read(true, 1, 1, token);
            assert!(told.as_ref().is_err_and(|told| told.contains("not a lock")), "{told:?}");
        }
    }

    #[test]
    fn a_release_leaves_holds_or_finds_none_and_any_other_answer_is_a_defect() {
        let read = |holds| released(Value::Int(holds), &claim(false));
        assert!(matches!(read(-1), Ok(None)));
        assert!(matches!(read(0), Ok(Some(0))));
        assert!(matches!(read(1), Ok(Some(1))));
        assert!(matches!(read(-2), Err(LockError::Redis(LinkError::Defect(_)))));
        for (answer, told) in [(0, Some(false)), (1, Some(true)), (-1, None), (2, None)] {
            assert_eq!(yes_or_no(answer).ok(), told, "{answer}");
        }
    }
}
