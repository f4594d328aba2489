//! The scripts of a lock, one call at a time: for programs that check the protocol, not for those that want
//! a lock.

use std::time::Duration;

use super::claim::{Admission, Claim};
use super::error::LockError;
use super::owner::Owner;
use super::scripts::{self, AcquireAnswer};
use crate::connection::Redis;

/// One fenced entry of an owner. Each call runs one script, and nothing else happens: nothing is renewed,
/// waited for or given back by itself.
#[derive(Debug)]
pub struct ScriptClaim(Claim);

impl ScriptClaim {
    /// An entry. Nothing is sent yet.
    pub fn new(name: &str, owner: &Owner, lease: Duration) -> Self {
        Self(Claim::new(name, owner.clone(), lease, true, Admission::Plain))
    }

    /// The channel on which a release is told.
    pub fn channel(&self) -> String {
        self.0.channel()
    }

    /// Tries to enter: the fencing token, or `None` while another owner holds the lock.
    /// Cancellation-safe: dropped, it is done or not.
    ///
    /// # Errors
    /// Those of Redis.
    pub async fn acquire(&self, redis: &Redis) -> Result<Option<u64>, LockError> {
        Ok(match scripts::acquire(redis, &self.0, |_| ()).await? {
            AcquireAnswer::Granted { token } => token,
            AcquireAnswer::Held { .. } => None,
        })
    }

    /// Lengthens the lease: whether this entry still holds the lock. Cancellation-safe: dropped, it is
    /// done or not.
    ///
    /// # Errors
    /// Those of Redis.
    pub async fn renew(&self, redis: &Redis) -> Result<bool, LockError> {
        scripts::renew(redis, &self.0).await
    }

    /// Gives the entry back: the holds that are left, or `None` when it held nothing.
    /// Cancellation-safe: dropped, it is done or not.
    ///
    /// # Errors
    /// Those of Redis.
    pub async fn release(&self, redis: &Redis) -> Result<Option<u64>, LockError> {
        scripts::release(redis, &self.0, false).await
    }
}
