//! Looking at all locks of a Redis, and at the fencing counters of locks that went out of use.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use uuid::Uuid;

use super::client::LockClient;
use super::error::LockError;
use super::options::LockState;
use super::scripts::{self, TOKEN_PREFIX};
use redis_link::{Redis, SCAN_STEP, ScanCursor};

/// Keys that are looked at, at most.
const MAX_SCANNED: usize = 1_000_000;
/// Questions under way at once.
const AT_ONCE: usize = 64;

/// What was found in a Redis, by the name of the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survey<T> {
    /// What was found.
    pub found: BTreeMap<String, T>,
    /// Whether there may be more: the limit was reached, or a million keys were looked at.
    pub cut: bool,
}

impl LockClient {
    /// The locks that are held, plain and fair ones, whose names match `pattern` (as of Redis' `KEYS`):
    /// `limit` of them at most. Looks at the keys of all masters, a thousand at a time; what is locked or
    /// released meanwhile may be found or not. Cancellation-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of Redis.
    pub async fn held_locks(
        &self,
        pattern: &str,
        limit: usize,
    ) -> Result<Survey<LockState>, LockError> {
        let look = |name: String| async move {
            match scripts::inspect(self.redis(), &name).await {
                Ok(Some(state)) if has_a_uuid(&state.owner) => {
                    Ok(Some((self.without_prefix(&name), state)))
                }
                Ok(_) | Err(LockError::NotALock { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        survey(self.redis(), &[self.matching(pattern)], "hash", limit, look).await
    }

    /// The names whose fencing counter matches `pattern`, and for how long nobody has used each:
    /// `limit` of them at most. (Asking does not count as a use.) Cancellation-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of Redis, which counts no idle time under an LFU `maxmemory-policy`.
    pub async fn fencing_counters(
        &self,
        pattern: &str,
        limit: usize,
    ) -> Result<Survey<Duration>, LockError> {
        let look = |key: String| async move {
            let mut question = redis::cmd("OBJECT");
            let idle = self.redis().query(question.arg("IDLETIME").arg(&key)).await;
            let idle: Option<u64> = idle.map_err(|error| LockError::from_redis(error, &key))?;
            let name = key.strip_prefix(TOKEN_PREFIX).map(without_braces);
            let named = |(name, idle)| (self.without_prefix(name), Duration::from_secs(idle));
            Ok(name.zip(idle).map(named))
        };
        let pattern = self.matching(pattern);
        // Around a name that has braces of its own there are none.
        let patterns = [format!("{TOKEN_PREFIX}{{{pattern}}}"), format!("{TOKEN_PREFIX}{pattern}")];
        survey(self.redis(), &patterns, "string", limit, look).await
    }

    /// Forgets the fencing counter of a name that nobody has used for `idle`, so that it takes no memory, and
    /// returns whether it did. A counter stays while somebody holds the lock, and where the next number might
    /// not be larger than the last: the counter is ahead of the server's clock, or only Redisson has counted
    /// it.
    ///
    /// Only for names that no `RFencedLock` of Redisson will use again: that one would begin at 1.
    /// Cancellation-safe: dropped, it is done or not.
    ///
    /// # Errors
    /// Those of Redis.
    pub async fn forget_fencing_counter(
        &self,
        name: &str,
        idle: Duration,
    ) -> Result<bool, LockError> {
        scripts::forget_token(self.redis(), &self.in_redis(name.to_owned()), idle).await
    }
}

/// Goes through the keys of this type that match one of `patterns`, and looks at each.
async fn survey<T, F: Future<Output = Result<Option<(String, T)>, LockError>>>(
    redis: &Redis,
    patterns: &[String],
    kind: &str,
    limit: usize,
    look: impl Fn(String) -> F,
) -> Result<Survey<T>, LockError> {
    let (mut found, mut scanned, mut cut) = (BTreeMap::new(), 0, false);
    for pattern in patterns {
        let mut next = Some(ScanCursor::default());
        while let Some(cursor) = next
            && !cut
        {
            let scan = redis.scan(pattern, Some(kind), cursor).await;
            let (keys, after) = scan.map_err(|error| LockError::from_redis(error, pattern))?;
            let mut looks = stream::iter(keys).map(&look).buffer_unordered(AT_ONCE);
            while let Some(seen) = looks.next().await {
                found.extend(seen?);
            }
            scanned += SCAN_STEP;
            next = after;
            cut = found.len() > limit || (scanned >= MAX_SCANNED && next.is_some());
        }
    }
    while found.len() > limit {
        found.pop_last();
    }
    Ok(Survey { found, cut })
}

/// Whether an owner's name begins as those of this program and of Redisson: many a hash of counters has
/// one field that looks like an owner.
fn has_a_uuid(field: &str) -> bool {
    field.split_once(':').is_some_and(|(client, _)| Uuid::try_parse(client).is_ok())
}

fn without_braces(name: &str) -> &str {
    let inner = name.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
    inner.filter(|inner| !inner.contains('{')).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_taken_off_where_they_were_put() {
        for (key, name) in [("{a:b}", "a:b"), ("a{b}", "a{b}"), ("{a}{b}", "{a}{b}"), ("{", "{")] {
            assert_eq!(without_braces(key), name);
        }
    }

    #[test]
    fn an_owner_begins_with_a_uuid() {
        assert!(has_a_uuid("285475da-9152-4c83-822a-67ee2f116a79:52"));
        for other in ["", "visits", "visits:7", "285475da-9152-4c83-822a-67ee2f116a79"] {
            assert!(!has_a_uuid(other), "{other}");
        }
    }
}
