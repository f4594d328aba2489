//! The lock's scripts, each a function. A script has the name of its file in `lua/lock`.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Script, ScriptInvocation};

use super::{LockError, Owner};
use crate::store::Redis;

macro_rules! script {
    ($name:ident, $file:literal) => {
        static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!(concat!("../../lua/lock/", $file))));
    };
}
script!(ACQUIRE, "acquire.lua");
script!(RELEASE, "release.lua");
script!(RENEW, "renew.lua");

/// How long the record of an owner's grants outlives their leases. A release is sent again
/// until the lease has ended, and no longer.
const RECORD_MARGIN: Duration = Duration::from_secs(60);

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
}

impl Claim {
    pub(super) fn new(name: &str, owner: Owner, lease: Duration) -> Self {
        static GRANTS: AtomicU64 = AtomicU64::new(1);
        let grant = GRANTS.fetch_add(1, Ordering::Relaxed);
        let recorded = owner.is_shared();
        Self { name: name.to_owned(), owner, lease, grant, recorded }
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.recorded
    }

    fn lease_ms(&self) -> u64 {
        self.lease.as_millis() as u64
    }

    /// The keys of a call: the lock, and the record where there may be one.
    fn keys<'a>(&self, script: &'a Script) -> ScriptInvocation<'a> {
        let mut call = script.key(&self.name);
        if self.owner.is_shared() {
            call.key(record(&self.name, &self.owner));
        }
        call
    }
}

/// `true` when granted, with the number of holds the owner has now. `sending` is told on
/// which connection, before anything is sent.
pub(super) async fn acquire(
    redis: &Redis,
    claim: &Claim,
    sending: impl FnOnce(u64),
) -> Result<(bool, i64), LockError> {
    let mut call = claim.keys(&ACQUIRE);
    call.arg(claim.lease_ms()).arg(claim.owner.field());
    call.arg(claim.grant).arg(RECORD_MARGIN.as_millis() as u64);
    let answer: Result<(i64, i64), _> = redis.invoke_noting(&call, sending).await;
    let (granted, number) = answer.map_err(|error| LockError::from_store(error, &claim.name))?;
    Ok((granted == 1, number))
}

/// Holds left, `None` when nothing is held by this claim. It may be sent again: it gives
/// back one hold all the same.
pub(super) async fn release(redis: &Redis, claim: &Claim) -> Result<Option<u64>, LockError> {
    let mut call = claim.keys(&RELEASE);
    call.arg(claim.lease_ms()).arg(claim.owner.field()).arg(channel(&claim.name));
    call.arg(claim.grant).arg(u8::from(claim.recorded));
    call.arg(RECORD_MARGIN.as_millis() as u64);
    let holds: Result<i64, _> = redis.invoke(&call).await;
    let holds = holds.map_err(|error| LockError::from_store(error, &claim.name))?;
    Ok(u64::try_from(holds).ok())
}

/// `true` when the lease was lengthened, `false` when nothing is held by this claim any more.
pub(super) async fn renew(redis: &Redis, claim: &Claim) -> Result<bool, LockError> {
    let mut call = claim.keys(&RENEW);
    call.arg(claim.lease_ms()).arg(claim.owner.field());
    call.arg(claim.grant).arg(u8::from(claim.recorded));
    call.arg(RECORD_MARGIN.as_millis() as u64);
    let renewed: Result<i64, _> = redis.invoke(&call).await;
    Ok(renewed.map_err(|error| LockError::from_store(error, &claim.name))? == 1)
}

/// Redisson's channel of a lock. The braces keep it in the lock's cluster slot.
fn channel(name: &str) -> String {
    if name.contains('{') {
        format!("redisson_lock__channel:{name}")
    } else {
        format!("redisson_lock__channel:{{{name}}}")
    }
}

/// The record of one owner's grants of a lock, in the lock's cluster slot.
fn record(name: &str, owner: &Owner) -> String {
    if name.contains('{') {
        format!("redisson_unlock_latch:{name}:{}", owner.field())
    } else {
        format!("redisson_unlock_latch:{{{name}}}:{}", owner.field())
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
