//! What becomes of a lease on a real Redis, seen from outside.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{Instant, sleep, timeout};
use zookeeper_client::Client;

use super::scheduler::{Attempt, Scheduler};
use super::told::Event;
use ladder::LockKind;
use redisson_lock::connection::Redis;
use seckill::model::UserId;
use seckill::store::Keys;

/// What takes longer never comes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The shortest session that a rung asks ZooKeeper for.
const SESSION: Duration = Duration::from_secs(1);

/// How often Redis is asked.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What became of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseEnd {
    /// It ended, and the lock with it.
    Ended,
    /// It would have ended, but was renewed.
    Renewed,
    /// It never ends.
    Never,
}

impl Scheduler<'_> {
    /// Waits until the short lease of the user's lock has ended, or would have ended had
    /// nobody renewed it.
    pub(super) async fn lease_over(&mut self, user: i64) -> anyhow::Result<LeaseEnd> {
        let end = match self.rung.lock {
            LockKind::Redis(_) => self.redis_lease_over(user).await?,
            LockKind::ZooKeeper => self.session_over(user).await?,
            // The lock of a process ends with the process; that of a transaction, with its connection.
            LockKind::NoLock | LockKind::Database | LockKind::Mutex | LockKind::Stream => {
                return Ok(LeaseEnd::Ended);
            }
        };
        self.log.say(match end {
            LeaseEnd::Ended => Event::LeaseEnds,
            LeaseEnd::Renewed => Event::LeaseRenewed,
            LeaseEnd::Never => Event::NoLease,
        });
        Ok(end)
    }

    /// As [`Scheduler::lease_over`], for the session that keeps a place in ZooKeeper's queue.
    async fn session_over(&self, user: i64) -> anyhow::Result<LeaseEnd> {
        let address = self.servers.zookeeper.as_deref().context("there is no ZooKeeper")?;
        let client = Client::connect(address).await?;
        let queue = format!("/{}", self.lock_key(user)?);
        let first = client.list_children(&queue).await?.into_iter().min();
        let place = format!("{queue}/{}", first.context("nobody is in the queue")?);
        let (there, gone) = client.check_and_watch_stat(&place).await?;
        // Twice the shortest session, which ends a tick later at most.
        let over = there.is_none() || timeout(2 * SESSION, gone.changed()).await.is_ok();
        Ok(if over { LeaseEnd::Ended } else { LeaseEnd::Renewed })
    }

    /// The name of the user's lock.
    pub(super) fn lock_key(&self, user: i64) -> anyhow::Result<String> {
        let user = UserId::try_from(self.first_user + user)?;
        Ok(Keys::with_prefix(&self.key_prefix).order_lock(user))
    }

    /// Waits until somebody holds the user's lock.
    pub(super) async fn until_locked(&self, user: i64) -> anyhow::Result<()> {
        let redis = Redis::new(&self.servers.redis_urls[0])?;
        until_there(&redis, &self.lock_key(user)?).await.context("nobody takes the lock")
    }

    /// Ends the lease of the user's lock on each of its servers, without waiting for it.
    pub(super) async fn end_lease(&mut self, user: i64) -> anyhow::Result<()> {
        for server in 0..self.servers.redis_urls.len() {
            self.expire(user, server).await?;
        }
        self.log.say(Event::LabEndsLease);
        Ok(())
    }

    /// Ends the lease of the user's lock on one of its servers: `PEXPIRE` to a millisecond does
    /// to the key what a leap of that server's clock would do. A waiter may have the lock right after it.
    pub(super) async fn expire(&self, user: i64, server: usize) -> anyhow::Result<()> {
        let key = self.lock_key(user)?;
        let redis = Redis::new(&self.servers.redis_urls[server])?;
        let ended: i64 = redis.query(redis::cmd("PEXPIRE").arg(&key).arg(1)).await?;
        if ended == 0 {
            bail!("there is no lock whose lease could end");
        }
        let over = async {
            while (0..=1).contains(&redis.query::<i64>(redis::cmd("PTTL").arg(&key)).await?) {
                sleep(LOOK_EVERY).await;
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, over).await.context("a lease of a millisecond does not end")?
    }

    async fn redis_lease_over(&self, user: i64) -> anyhow::Result<LeaseEnd> {
        let key = self.lock_key(user)?;
        let redis = Redis::new(&self.servers.redis_urls[0])?;
        let deadline = Instant::now() + PATIENCE;
        let (mut last, mut renewed) = (i64::MAX, Duration::ZERO);
        let mut seen = Instant::now();
        while Instant::now() < deadline {
            let left_ms: i64 = redis.query(redis::cmd("PTTL").arg(&key)).await?;
            match left_ms {
                -2 => return Ok(LeaseEnd::Ended),
                -1 => return Ok(LeaseEnd::Never),
                _ => {}
            }
            if left_ms > last {
                // Between two renewals the first one's time has passed.
                renewed += seen.elapsed();
                seen = Instant::now();
                if renewed > Attempt::SHORT_LEASE {
                    return Ok(LeaseEnd::Renewed);
                }
            }
            last = left_ms;
            sleep(LOOK_EVERY).await;
        }
        bail!("the lease of the lock neither ended nor was renewed within {PATIENCE:?}")
    }
}

/// Waits until the key is there.
async fn until_there(redis: &Redis, key: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while redis.query::<i64>(redis::cmd("EXISTS").arg(key)).await? == 0 {
        if Instant::now() > deadline {
            bail!("waited for {PATIENCE:?}");
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// Has the waiters of the lock at `key` look again.
pub(super) async fn tell_waiters(redis: &Redis, key: &str) -> anyhow::Result<()> {
    let channel = format!("redisson_lock__channel:{{{key}}}");
    Ok(redis.query(redis::cmd("PUBLISH").arg(channel).arg("0")).await?)
}
