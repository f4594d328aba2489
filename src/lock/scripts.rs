//! The lock's scripts, each a function. A script has the name of its file in `lua/lock`.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

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

/// How long a release that may be sent again is remembered. Longer than anybody sends again.
const LATCH_TTL: Duration = Duration::from_secs(60);

/// A lock name and who wants or has it.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) name: String,
    pub(super) owner: Owner,
    pub(super) lease: Duration,
}

impl Claim {
    fn lease_ms(&self) -> u64 {
        self.lease.as_millis() as u64
    }
}

/// `true` when granted, with the number of holds the owner has now.
pub(super) async fn acquire(redis: &Redis, claim: &Claim) -> Result<(bool, i64), LockError> {
    let mut call = ACQUIRE.key(&claim.name);
    call.arg(claim.lease_ms()).arg(claim.owner.field());
    let answer: Result<(i64, i64), _> = redis.invoke(&call).await;
    let (granted, number) = answer.map_err(|error| LockError::from_store(error, &claim.name))?;
    Ok((granted == 1, number))
}

/// Holds left, `None` when the owner held nothing. With a `latch` (a name for this very
/// release) it may be sent again.
pub(super) async fn release(
    redis: &Redis,
    claim: &Claim,
    latch: Option<&str>,
) -> Result<Option<u64>, LockError> {
    let mut call = RELEASE.key(&claim.name);
    if let Some(latch) = latch {
        call.key(latch);
    }
    call.arg(claim.lease_ms()).arg(claim.owner.field());
    call.arg(channel(&claim.name)).arg(LATCH_TTL.as_millis() as u64);
    let holds: Result<i64, _> = redis.invoke(&call).await;
    let holds = holds.map_err(|error| LockError::from_store(error, &claim.name))?;
    Ok(u64::try_from(holds).ok())
}

/// `true` when the lease was lengthened, `false` when the owner no longer holds the lock.
pub(super) async fn renew(redis: &Redis, claim: &Claim) -> Result<bool, LockError> {
    let mut call = RENEW.key(&claim.name);
    call.arg(claim.lease_ms()).arg(claim.owner.field());
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

/// The latch of one release, in the lock's cluster slot.
pub(super) fn latch(name: &str, release: uuid::Uuid) -> String {
    if name.contains('{') {
        format!("redisson_unlock_latch:{name}:{release}")
    } else {
        format!("redisson_unlock_latch:{{{name}}}:{release}")
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
