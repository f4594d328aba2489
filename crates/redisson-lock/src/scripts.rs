//! The lock's scripts, each a function. A script has the name of its file in `lua/lock`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::{FromRedisValue, Script, Value};

use super::error::LockError;
use super::options::{Acknowledged, LockState};
use super::owner::Owner;
use crate::connection::{Redis, RedisError, ScriptCall};

macro_rules! script {
    ($name:ident, $file:literal) => {
        static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!(concat!("../lua/", $file))));
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
        static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(concat!(
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
// Whether the lock is a fair one, nobody need know who breaks it open.
fair_script!(FORCE_RELEASE, "force_release.lua", "fair_release.lua");

/// The script that takes a lock, for who measures what Redis makes of it.
pub const ACQUIRE_LUA: &str = include_str!("../lua/acquire.lua");

/// How long the record of an owner's grants outlives their leases. A release is sent again
/// until the lease has ended, and no longer.
const RECORD_MARGIN: Duration = Duration::from_secs(60);

/// Before the name, in the key of its last fencing token.
pub(super) const TOKEN_PREFIX: &str = "redisson_lock_token:";

/// When an acquire may be granted.
#[derive(Debug, Clone)]
pub(super) enum Turn {
    /// When the lock is free.
    Anybodys,
    /// When it is free, and nobody stands in the queue of the fair lock before the caller, who does not
    /// stand in it.
    IfNobodyWaits,
    /// The same; the caller stands in the queue until its wait is over, which this says.
    InQueue(Arc<AtomicBool>),
}

/// A lock name and who wants or has it, by which grant.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) name: String,
    pub(super) owner: Owner,
    pub(super) lease: Duration,
    /// Names this acquire, its renewals and its release in the record. Owners never leave
    /// their process, so a number of the process serves.
    grant: u64,
    /// Whether the acquire goes into the record of its owner's grants. Where nobody else
    /// has the owner there is only one grant, and a record of it would tell nothing more
    /// than the lock does.
    recorded: bool,
    /// Whether a fencing token is wanted. It stands in the record.
    fenced: bool,
    pub(super) turn: Turn,
}

impl Claim {
    pub(super) fn new(name: &str, owner: Owner, lease: Duration, fenced: bool, turn: Turn) -> Self {
        static GRANTS: AtomicU64 = AtomicU64::new(1);
        let grant = GRANTS.fetch_add(1, Ordering::Relaxed);
        // Each try in the queue is by the same owner: the record tells a late one from the next.
        if fenced || matches!(turn, Turn::InQueue(_)) {
            owner.share();
        }
        let recorded = owner.is_shared();
        Self { name: name.to_owned(), owner, lease, grant, recorded, fenced, turn }
    }

    fn lease_ms(&self) -> u64 {
        self.lease.as_millis() as u64
    }

    /// Whether a place in the queue of a fair lock may stand in Redis because of it.
    pub(super) fn waits_in_redis(&self) -> bool {
        matches!(self.turn, Turn::InQueue(_))
    }

    /// Whether that place has to go: the wait is over.
    pub(super) fn has_waited(&self) -> bool {
        matches!(&self.turn, Turn::InQueue(over) if over.load(Ordering::Acquire))
    }

    /// The channel on which it hears that it may be its turn.
    pub(super) fn channel(&self) -> String {
        match self.turn {
            Turn::Anybodys => channel(&self.name, None),
            Turn::IfNobodyWaits | Turn::InQueue(_) => channel(&self.name, Some(&self.owner)),
        }
    }

    /// `plain`, or for a fair lock `fair`.
    fn script(&self, plain: &'static Script, fair: &'static Script) -> &'static Script {
        if matches!(self.turn, Turn::Anybodys) { plain } else { fair }
    }

    /// The end of a call: for a fair lock its queue. `flag`: whether to join the queue, or to leave it.
    fn end(&self, call: ScriptCall, flag: bool, sharded: bool) -> ScriptCall {
        match self.turn {
            Turn::Anybodys => call,
            Turn::IfNobodyWaits | Turn::InQueue(_) => with_queue(call, &self.name, flag, sharded),
        }
    }

    /// The keys of a call: the lock, and the record where there may be one.
    fn keys(&self, script: &'static Script) -> ScriptCall {
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
    /// Somebody else holds it, for so long yet; `None`: without an end.
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
    acquired(answer.map_err(|error| LockError::from_redis(error, &claim.name))?, &claim.name)
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
    Ok((acquired(answer, &claim.name)?, acknowledged))
}

/// The call that takes the lock of `claim`; `sharded`: in a cluster.
pub(super) fn acquire_call(claim: &Claim, sharded: bool) -> ScriptCall {
    let mut call = claim.keys(claim.script(&ACQUIRE, &FAIR_ACQUIRE));
    if claim.fenced {
        call = call.key(in_slot(TOKEN_PREFIX, &claim.name, None));
    }
    let call = call.arg(claim.lease_ms()).arg(claim.owner.field()).arg(claim.grant);
    let call = call.arg(RECORD_MARGIN.as_millis());
    claim.end(call, claim.waits_in_redis(), sharded)
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
pub(super) fn acquired(answer: Value, name: &str) -> Result<AcquireAnswer, LockError> {
    let (granted, number, token): (i64, i64, String) = read(answer, name)?;
    if granted != 1 {
        return Ok(AcquireAnswer::Held { remaining: milliseconds(number) });
    }
    let token = match token.as_str() {
        "" => None,
        // What stands at the counter's key was not written by a lock.
        text => Some(text.parse().map_err(|_| LockError::not_a_lock(name))?),
    };
    Ok(AcquireAnswer::Granted { token })
}

fn read<T: FromRedisValue>(answer: Value, name: &str) -> Result<T, LockError> {
    let read =
        T::from_redis_value(answer).map_err(redis::RedisError::from).map_err(RedisError::from);
    read.map_err(|error| LockError::from_redis(error, name))
}

/// As `PTTL` counts: below zero there is no end.
fn milliseconds(left: i64) -> Option<Duration> {
    u64::try_from(left).ok().map(Duration::from_millis)
}

/// Holds left, `None` when nothing is held by this claim. It may be sent again: it gives
/// back one hold all the same. `leaves`: it also leaves the queue of a fair lock.
pub(super) async fn release(
    redis: &Redis,
    claim: &Claim,
    leaves: bool,
) -> Result<Option<u64>, LockError> {
    let call = release_call(claim, leaves, !redis.is_one_server());
    let answer = redis.invoke(&call).await;
    released(answer.map_err(|error| LockError::from_redis(error, &claim.name))?, &claim.name)
}

/// The call that releases one hold of `claim`; `sharded`: in a cluster.
pub(super) fn release_call(claim: &Claim, leaves: bool, sharded: bool) -> ScriptCall {
    let call = claim.keys(claim.script(&RELEASE, &FAIR_RELEASE));
    let call = call.arg(claim.lease_ms()).arg(claim.owner.field());
    let call = call.arg(channel(&claim.name, None)).arg(claim.grant).arg(u8::from(claim.recorded));
    let call = telling_shard(call.arg(RECORD_MARGIN.as_millis()), sharded);
    claim.end(call, leaves, sharded)
}

/// Has a release in a cluster told as a sharded message, too (the last argument): Redisson 3.19 and
/// later listens there to no other.
fn telling_shard(call: ScriptCall, sharded: bool) -> ScriptCall {
    if sharded { call.arg("sharded") } else { call }
}

/// What [`release_call`] was answered.
pub(super) fn released(answer: Value, name: &str) -> Result<Option<u64>, LockError> {
    Ok(u64::try_from(read::<i64>(answer, name)?).ok())
}

/// `true` when the lease was lengthened, `false` when nothing is held by this claim any more.
pub(super) async fn renew(redis: &Redis, claim: &Claim) -> Result<bool, LockError> {
    let call = claim.keys(&RENEW).arg(claim.lease_ms()).arg(claim.owner.field());
    let call = call.arg(claim.grant).arg(u8::from(claim.recorded)).arg(RECORD_MARGIN.as_millis());
    let renewed: Result<i64, _> = redis.invoke(&call).await;
    Ok(renewed.map_err(|error| LockError::from_redis(error, &claim.name))? == 1)
}

/// The state of the lock; `None`: it is free.
pub(super) async fn inspect(redis: &Redis, name: &str) -> Result<Option<LockState>, LockError> {
    let from_redis = |error| LockError::from_redis(error, name);
    let call = ScriptCall::new(&INSPECT).key(name);
    let answer: Result<(i64, Vec<(String, u64)>), _> = redis.invoke(&call).await;
    let (left, fields) = answer.map_err(from_redis)?;
    let Some((owner, holds)) = fields.into_iter().next() else { return Ok(None) };
    // By itself: the name of a plain lock may be such that its queue were in another slot.
    let queued = redis.query(redis::cmd("LLEN").arg(queue(name))).await.map_err(from_redis);
    let queued = match queued {
        // Something else is there, or this user may not look at queues, and so has no fair locks.
        Err(error) if !error.retry_may_help() => 0,
        queued => queued?,
    };
    Ok(Some(LockState { owner, holds, remaining: milliseconds(left), queued }))
}

/// With the kind of thing at the name, where the error is that it is no lock.
pub(super) async fn explained(error: LockError, redis: &Redis) -> LockError {
    let LockError::NotALock { name, found: None } = error else { return error };
    let call = ScriptCall::new(&KIND).key(&name);
    let answer: Result<(String, String, String), _> = redis.invoke(&call).await;
    // Gone meanwhile, or the user may not look: then it stays unsaid.
    let found = answer.ok().and_then(|(kind, mode, value)| found(&kind, &mode, &value));
    LockError::NotALock { name, found }
}

/// In words, what has this type; nothing for what is not there or is a lock.
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
    // That of `a` is also that of `{a}`.
    let call = if name.contains('{') { call } else { call.key(format!("{{{name}}}")) };
    let forgotten: Result<i64, _> = redis.invoke(&call.arg(idle.as_secs())).await;
    Ok(forgotten.map_err(|error| LockError::from_redis(error, name))? == 1)
}

/// Whether somebody held it, or `holder` where one is named; nobody else is put out.
pub(super) async fn force_release(
    redis: &Redis,
    name: &str,
    holder: Option<&str>,
) -> Result<bool, LockError> {
    let sharded = !redis.is_one_server();
    let call = ScriptCall::new(&FORCE_RELEASE).key(name).arg(channel(name, None));
    let call = call.arg(holder.unwrap_or_default());
    // Nobody asks, and nobody leaves the queue.
    let call = with_queue(telling_shard(call, sharded), name, false, sharded);
    let freed: Result<i64, _> = redis.invoke(&call).await;
    Ok(freed.map_err(|error| LockError::from_redis(error, name))? == 1)
}

/// Redisson's channel of a plain lock, or that of one who waits for a fair lock.
pub(super) fn channel(name: &str, waiter: Option<&Owner>) -> String {
    in_slot("redisson_lock__channel:", name, waiter)
}

/// A key (or channel) that belongs to a lock, in the lock's cluster slot, as Redisson makes
/// it: the braces keep it there, unless the name has some of its own.
fn in_slot(prefix: &str, name: &str, owner: Option<&Owner>) -> String {
    let (open, close) = if name.contains('{') { ("", "") } else { ("{", "}") };
    match owner {
        Some(owner) => format!("{prefix}{open}{name}{close}:{}", owner.field()),
        None => format!("{prefix}{open}{name}{close}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_is_redissons() {
        assert_eq!(channel("lock:order:1", None), "redisson_lock__channel:{lock:order:1}");
        assert_eq!(channel("lock:{a}:1", None), "redisson_lock__channel:lock:{a}:1");
    }
}
