//! The lock's scripts, each a function. A script has the name of its file in `lua/lock`.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{FromRedisValue, RedisError, Script, Value};

use super::error::LockError;
use super::options::{Acknowledged, LockState};
use super::owner::Owner;
use crate::store::{Redis, ScriptCall, StoreError};

macro_rules! script {
    ($name:ident, $file:literal) => {
        static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!(concat!("../../lua/lock/", $file))));
    };
}
script!(ACQUIRE, "acquire.lua");
script!(RELEASE, "release.lua");
script!(RENEW, "renew.lua");
script!(INSPECT, "inspect.lua");
script!(FORCE_RELEASE, "force_release.lua");

/// The script that takes a lock, for who measures what Redis makes of it.
pub const ACQUIRE_LUA: &str = include_str!("../../lua/lock/acquire.lua");

/// How long the record of an owner's grants outlives their leases. A release is sent again
/// until the lease has ended, and no longer.
const RECORD_MARGIN: Duration = Duration::from_secs(60);

/// How long the last fencing token of a name is kept. Longer than the longest lease, so
/// that whoever held the lock last has long been told; after it the clock alone (see
/// `acquire.lua`) keeps tokens growing, and names that went out of use leave nothing.
const FENCE_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

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
}

impl Claim {
    pub(super) fn new(name: &str, owner: Owner, lease: Duration, fenced: bool) -> Self {
        static GRANTS: AtomicU64 = AtomicU64::new(1);
        let grant = GRANTS.fetch_add(1, Ordering::Relaxed);
        if fenced {
            owner.share();
        }
        let recorded = owner.is_shared();
        Self { name: name.to_owned(), owner, lease, grant, recorded, fenced }
    }

    fn lease_ms(&self) -> u64 {
        self.lease.as_millis() as u64
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
    let answer = redis.call(&acquire_call(claim), sending).await;
    acquired(answer.map_err(|error| LockError::from_store(error, &claim.name))?, &claim.name)
}

/// The same on a connection of its own, with the number of replicas that have it too.
pub(super) async fn acquire_acknowledged(
    redis: &Redis,
    claim: &Claim,
    wanted: Acknowledged,
    sending: impl FnOnce(),
) -> Result<(AcquireAnswer, usize), LockError> {
    let call = acquire_call(claim);
    let answer = redis.call_acknowledged(&call, wanted.replicas, wanted.within, sending).await;
    let (answer, acknowledged) =
        answer.map_err(|error| LockError::from_store(error, &claim.name))?;
    Ok((acquired(answer, &claim.name)?, acknowledged))
}

/// The call that takes the lock of `claim`.
pub(super) fn acquire_call(claim: &Claim) -> ScriptCall {
    let mut call = claim.keys(&ACQUIRE);
    if claim.fenced {
        call = call.key(in_slot("redisson_lock_token:", &claim.name, None));
    }
    call.arg(claim.lease_ms())
        .arg(claim.owner.field())
        .arg(claim.grant)
        .arg(RECORD_MARGIN.as_millis())
        .arg(FENCE_KEPT.as_millis())
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
        text => Some(text.parse().map_err(|_| LockError::NotALock(name.to_owned()))?),
    };
    Ok(AcquireAnswer::Granted { token })
}

fn read<T: FromRedisValue>(answer: Value, name: &str) -> Result<T, LockError> {
    let read = T::from_redis_value(answer).map_err(RedisError::from).map_err(StoreError::from);
    read.map_err(|error| LockError::from_store(error, name))
}

/// As `PTTL` counts: below zero there is no end.
fn milliseconds(left: i64) -> Option<Duration> {
    u64::try_from(left).ok().map(Duration::from_millis)
}

/// Holds left, `None` when nothing is held by this claim. It may be sent again: it gives
/// back one hold all the same.
pub(super) async fn release(redis: &Redis, claim: &Claim) -> Result<Option<u64>, LockError> {
    let answer = redis.invoke(&telling_shard(redis, release_call(claim))).await;
    released(answer.map_err(|error| LockError::from_store(error, &claim.name))?, &claim.name)
}

/// The call that releases one hold of `claim`.
pub(super) fn release_call(claim: &Claim) -> ScriptCall {
    let call = claim.keys(&RELEASE).arg(claim.lease_ms()).arg(claim.owner.field());
    let call = call.arg(channel(&claim.name)).arg(claim.grant).arg(u8::from(claim.recorded));
    call.arg(RECORD_MARGIN.as_millis())
}

/// Has a release in a cluster told as a sharded message, too (the last argument): Redisson 3.19 and
/// later listens there to no other.
fn telling_shard(redis: &Redis, call: ScriptCall) -> ScriptCall {
    if redis.is_one_server() { call } else { call.arg("sharded") }
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
    Ok(renewed.map_err(|error| LockError::from_store(error, &claim.name))? == 1)
}

/// The state of the lock; `None`: it is free.
pub(super) async fn inspect(redis: &Redis, name: &str) -> Result<Option<LockState>, LockError> {
    let call = ScriptCall::new(&INSPECT).key(name);
    let answer: Result<(i64, Vec<(String, u64)>), _> = redis.invoke(&call).await;
    let (left, fields) = answer.map_err(|error| LockError::from_store(error, name))?;
    let holder = fields.into_iter().next();
    Ok(holder.map(|(owner, holds)| LockState { owner, holds, remaining: milliseconds(left) }))
}

/// Whether somebody held it.
pub(super) async fn force_release(redis: &Redis, name: &str) -> Result<bool, LockError> {
    let call = ScriptCall::new(&FORCE_RELEASE).key(name).arg(channel(name));
    let call = telling_shard(redis, call);
    let freed: Result<i64, _> = redis.invoke(&call).await;
    Ok(freed.map_err(|error| LockError::from_store(error, name))? == 1)
}

/// Redisson's channel of a lock.
pub(super) fn channel(name: &str) -> String {
    in_slot("redisson_lock__channel:", name, None)
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
        assert_eq!(channel("lock:order:1"), "redisson_lock__channel:{lock:order:1}");
        assert_eq!(channel("lock:{a}:1"), "redisson_lock__channel:lock:{a}:1");
    }
}
