//! The client of one Redis, from which all locks come.

use std::sync::Arc;

use tokio::time::timeout;

use super::handle::Lock;
use super::options::{LockOptions, SHUTDOWN_LIMIT};
use super::owner::Owner;
use super::shared::LockShared;
use redis_link::Redis;

/// Takes locks on one Redis (or Sentinel's master, or Cluster). Cheap to clone; clones are
/// one client, with two connections to a server however many hold or wait (and a few more
/// where replicas are to acknowledge).
///
/// Over a connection that the program has already:
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use redisson_lock::connection::redis::Client;
/// use redisson_lock::connection::{Redis, SharedBy};
/// use redisson_lock::{LockClient, LockOptions};
///
/// let client = Client::open("redis://127.0.0.1/")?;
/// let connection = client.get_multiplexed_async_connection().await?;
/// // With the client, waiters are woken by messages; with `None` they try once a second.
/// let redis = Redis::over(SharedBy::new(connection, Some(client)));
/// let locks = LockClient::new(redis, LockOptions::default());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a client takes no lock by itself"]
pub struct LockClient {
    shared: Arc<LockShared>,
    prefix: Arc<str>,
}

impl LockClient {
    /// A client for the runtime in which it is made. Its tasks run there: they renew leases, give back what is
    /// dropped, and listen for releases. When that runtime has ended, holders are told of the loss, and every
    /// entry fails with [`RuntimeEnded`](super::LockError::RuntimeEnded). A runtime that still exists but runs no
    /// tasks (one of the kind `current_thread` outside `block_on`) renews nothing, and nobody can notice that: make
    /// the client in the runtime that the program stays in.
    ///
    /// # Panics
    /// Outside a tokio runtime, on which the workers run.
    pub fn new(redis: Redis, options: LockOptions) -> Self {
        Self { shared: Arc::new(LockShared::start(redis, options)), prefix: Arc::default() }
    }

    /// The same client for names that begin with `prefix` in Redis: for an installation that shares a Redis with
    /// others. The prefix replaces an earlier one. Its users leave it out, in patterns too; [`Lock::name`] and
    /// errors have the whole name. Redisson has no such prefix for its locks: a Java service has to use the whole
    /// name.
    ///
    /// ```no_run
    /// # async fn example(locks: redisson_lock::LockClient) -> Result<(), redisson_lock::LockError> {
    /// let shop = locks.prefixed("shop1:");
    /// let guard = shop.lock("report").acquire().await?;
    /// assert_eq!(shop.lock("report").name(), "shop1:report"); // the key in Redis
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefixed(&self, prefix: &str) -> Self {
        Self { shared: Arc::clone(&self.shared), prefix: prefix.into() }
    }

    /// The lock of this name, for an owner of its own at each entry and with the client's
    /// lease; [`Lock`] has the ways to ask for more. Nothing is sent yet. A name has 1 to 512 bytes with the
    /// prefix; any other is an [`InvalidName`](super::LockError::InvalidName) when the lock is used.
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock::new(Arc::clone(&self.shared), self.in_redis(name.into()))
    }

    /// The name with the prefix. An empty one is none, with a prefix, too.
    pub(super) fn in_redis(&self, name: String) -> String {
        if self.prefix.is_empty() || name.is_empty() {
            name
        } else {
            format!("{}{name}", self.prefix)
        }
    }

    /// The names with the prefix that match `pattern`, as Redis understands it.
    pub(super) fn matching(&self, pattern: &str) -> String {
        let escaped = |c: char| "*?[]\\".contains(c).then_some('\\').into_iter().chain([c]);
        self.prefix.chars().flat_map(escaped).chain(pattern.chars()).collect()
    }

    pub(super) fn without_prefix(&self, name: &str) -> String {
        name.strip_prefix(&*self.prefix).unwrap_or(name).to_owned()
    }

    pub(super) fn redis(&self) -> &Redis {
        &self.shared.redis
    }

    pub(super) fn is_fair(&self) -> bool {
        self.shared.options.fair
    }

    /// Whether they are clones of one client.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// A new owner, for code that enters a lock more than once.
    #[must_use]
    pub fn owner(&self) -> Owner {
        let owner = self.shared.owners.next();
        owner.share();
        owner
    }

    /// Ends all waits with [`super::LockError::ShutDown`], refuses new entries, and waits until everything that
    /// was dropped is given back. A barrier: afterwards nothing of this client is under way, unless Redis did
    /// not answer for five seconds; then the leases end by themselves. Guards that still live stay held and
    /// renewed as long as this runtime runs; a guard that is dropped later is left to its lease.
    ///
    /// Cancellation-safe: the client is shut down even if the future is dropped, but nothing waits for what is
    /// under way then. It can be called again.
    pub async fn shutdown(&self) {
        self.shared.stop.cancel();
        self.shared.waiters.shutdown().await;
        self.shared.under_way.close();
        if timeout(SHUTDOWN_LIMIT, self.shared.under_way.wait()).await.is_err() {
            tracing::warn!("a future of a lock is neither polled nor dropped, going on without it");
        }
        self.shared.cleanup.shutdown().await;
        self.shared.watchdogs.stop();
    }
}
