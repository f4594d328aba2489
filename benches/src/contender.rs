//! The locks that are compared, each used as its own documentation recommends.
//!
//! All of them stand on one version of the `redis` crate and send over one shared, multiplexed
//! connection. The lease is 30 s for all. What each does for one uncontended pair:
//!
//! | | acquire | release | round trips | tasks spawned |
//! | --- | --- | --- | ---: | ---: |
//! | ours | script (reentrant hash) | script (checks the owner, publishes) | 2 | 1: the watchdog |
//! | ours, fair | script (as above, looks at the queue) | script (as above, looks at the queue) | 2 | 1: the watchdog |
//! | `rlock` | `SET NX PX` | script (checks the owner) | 2 | 3: supervisor, renewal, release |
//! | `rslock` | `SET NX PX` | script (checks the owner), hashed anew each time | 2 | 0: nothing renews |
//!
//! Settings that are not the lease are each crate's own defaults, the pauses between the
//! tries of a waiter among them: they are what its users get.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use rlock::{AcquireOptions, RenewalMode};
use rslock::LockManager;
use seckill::lock::{Guard, Lease, LockClient, LockOptions};
use seckill::store::Redis;

/// The lease that all ask for.
pub const LEASE: Duration = Duration::from_secs(30);

/// A lock library, connected to one Redis. Clones share the connection.
pub trait Contender: Clone + Send + Sync + 'static {
    /// What holds a lock.
    type Held: Debug + Send + 'static;

    /// For tables.
    const NAME: &'static str;

    /// The longest pause between two tries of a waiter. `None`: it is woken, and polls not.
    const POLLS_EVERY: Option<Duration>;

    /// A client, connected.
    fn connect(url: &str) -> impl Future<Output = anyhow::Result<Self>> + Send;

    /// Waits for the lock of this name, without a limit.
    fn acquire(&self, name: &str) -> impl Future<Output = anyhow::Result<Self::Held>> + Send;

    /// Gives it back, and waits until Redis has said so.
    fn release(held: Self::Held) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The lock of seckill: an owner of its own at each entry, renewed, not fenced.
#[derive(Debug, Clone)]
pub struct Ours(pub LockClient);

impl Contender for Ours {
    type Held = Guard;
    const NAME: &'static str = "seckill";
    const POLLS_EVERY: Option<Duration> = None;

    async fn connect(url: &str) -> anyhow::Result<Self> {
        let redis = Redis::new(url)?;
        redis.ping().await?;
        let options = LockOptions { lease: Lease::Renewed(LEASE), ..LockOptions::default() };
        Ok(Self(LockClient::new(redis, options)))
    }

    async fn acquire(&self, name: &str) -> anyhow::Result<Guard> {
        Ok(self.0.lock(name).acquire().await?)
    }

    async fn release(held: Guard) -> anyhow::Result<()> {
        Ok(held.release().await?)
    }
}

/// The same, first come, first served.
#[derive(Debug, Clone)]
pub struct OursFair(LockClient);

impl Contender for OursFair {
    type Held = Guard;
    const NAME: &'static str = "seckill fair";
    const POLLS_EVERY: Option<Duration> = None;

    async fn connect(url: &str) -> anyhow::Result<Self> {
        Ok(Self(Ours::connect(url).await?.0))
    }

    async fn acquire(&self, name: &str) -> anyhow::Result<Guard> {
        Ok(self.0.lock(name).fair().acquire().await?)
    }

    async fn release(held: Guard) -> anyhow::Result<()> {
        Ok(held.release().await?)
    }
}

/// `rlock`, renewed like ours (`RenewalMode::Auto`, its default). A waiter tries again every
/// 100 ms.
#[derive(Debug, Clone)]
pub struct Rlock {
    client: rlock::async_lock::RLock,
    options: AcquireOptions,
}

impl Contender for Rlock {
    type Held = rlock::async_lock::RLockGuard;
    const NAME: &'static str = "rlock";
    const POLLS_EVERY: Option<Duration> = Some(Duration::from_millis(100));

    async fn connect(url: &str) -> anyhow::Result<Self> {
        let client = rlock::async_lock::RLock::new(url).await?;
        let options = AcquireOptions::builder().ttl(LEASE).renewal_mode(RenewalMode::Auto);
        Ok(Self { client, options: options.build()? })
    }

    async fn acquire(&self, name: &str) -> anyhow::Result<Self::Held> {
        Ok(self.client.acquire_mutex_with_options(name, self.options.clone()).await?)
    }

    async fn release(mut held: Self::Held) -> anyhow::Result<()> {
        Ok(held.release().await?)
    }
}

/// `rslock`: RedLock, here with one node. `acquire` renews nothing (`using` would), so it
/// does less than the other two. A waiter tries again after a random pause of up to 200 ms,
/// and after each failed try sends a release as well, as RedLock prescribes.
#[derive(Debug, Clone)]
pub struct Rslock(LockManager);

impl Contender for Rslock {
    type Held = rslock::LockGuard;
    const NAME: &'static str = "rslock";
    const POLLS_EVERY: Option<Duration> = Some(Duration::from_millis(200));

    async fn connect(url: &str) -> anyhow::Result<Self> {
        // It connects when it is first used.
        Ok(Self(LockManager::from_clients(vec![redis::Client::open(url)?])))
    }

    async fn acquire(&self, name: &str) -> anyhow::Result<Self::Held> {
        Ok(self.0.acquire(name, LEASE).await?)
    }

    async fn release(held: Self::Held) -> anyhow::Result<()> {
        // It does not tell whether it held the lock.
        held.release().await;
        Ok(())
    }
}
