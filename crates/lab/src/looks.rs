//! The lab's own looks at the servers: what PostgreSQL says of transactions, and Redis and ZooKeeper of leases.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{Instant, sleep, timeout};
use zookeeper_client::Client;

use super::scheduler::{
    Act, Actor, ActorRecord, ActorState, Attempt, NodeIndex, PATIENCE, Scheduler,
};
use super::told::Event;
use ladder::{Answer, LockKind};
use redis_link::Redis;
use seckill::model::UserId;
use seckill::store::Keys;

/// The shortest session that a rung asks ZooKeeper for.
const SESSION: Duration = Duration::from_secs(1);

/// How often a server is asked.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Asks until it is so; what takes too long is an error that says `why`.
pub(super) async fn until<F: Future<Output = anyhow::Result<bool>>>(
    why: &'static str,
    is_so: impl Fn() -> F,
) -> anyhow::Result<()> {
    let asking = async {
        while !is_so().await? {
            sleep(LOOK_EVERY).await;
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, asking).await.context(why)?
}

/// The transactions of a scheduler's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenTransactions {
    /// How many there are.
    pub(super) open: i64,
    /// How many of them wait for a row or an advisory lock that another one has. (A wait for a place
    /// at the end of a table is over by itself.)
    pub(super) blocked: i64,
    /// How many of these wait for an advisory lock.
    pub(super) advisory: i64,
}

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
    /// How many of a voucher are on sale.
    async fn on_sale(&self, voucher: i64) -> anyhow::Result<i64> {
        let stock = sqlx::query_scalar(
            "select coalesce((select sum(stock) from stock_segments where voucher_id = $1), stock)
             from seckill_vouchers where voucher_id = $1",
        );
        Ok(stock.bind(voucher).fetch_one(&self.database).await?)
    }

    /// Somebody is about to put more on sale: whoever asked before that may be told what is true now.
    pub(super) async fn note_sold_out(&mut self) -> anyhow::Result<()> {
        for voucher in self.vouchers.clone() {
            if self.on_sale(voucher).await? > 0 {
                continue;
            }
            let is_under_way =
                |state: ActorState| state != ActorState::NotBegun && !state.is_over();
            for record in self.actors.iter_mut().filter(|it| it.voucher == voucher) {
                record.saw_sold_out |= is_under_way(record.state);
            }
        }
        Ok(())
    }

    /// An actor that begins comes behind those who stand in line already.
    pub(super) fn note_line(&mut self, actor: Actor) {
        if self.actors[actor.0].state == ActorState::NotBegun {
            let voucher = self.actors[actor.0].voucher;
            let stands = |it: &ActorRecord| {
                it.voucher == voucher && it.answer == Some(Act::Done(Answer::InLine))
            };
            let ahead = (0..self.actors.len()).filter(|nth| stands(&self.actors[*nth]));
            self.actors[actor.0].behind = ahead.collect();
        }
    }

    /// Whether "sold out" was true at some moment between the request and the answer. Only where something is on
    /// sale at the answer does anything before that count.
    pub(super) async fn note_refusal(
        &mut self,
        actor: Actor,
        answer: Answer,
    ) -> anyhow::Result<()> {
        let ActorRecord { voucher, saw_sold_out, .. } = self.actors[actor.0];
        if answer == Answer::SoldOut && !saw_sold_out && self.rung.decides_in_database() {
            let left = self.on_sale(voucher).await?;
            self.actors[actor.0].refused_of = (left > 0).then_some(left);
        }
        Ok(())
    }

    /// Whether a transaction is still open whose actor is through. One that is dropped is rolled back
    /// after its actor was answered: what waits for it goes on by itself.
    pub(super) fn is_undoing(&self, transactions: OpenTransactions) -> bool {
        let dropped = |record: &ActorRecord| {
            record.state.is_over() && !matches!(record.answer, Some(Act::Done(Answer::Ordered(_))))
        };
        let alive = self.count(|record| !record.state.is_over());
        transactions.open > alive && self.count(dropped) > 0
    }

    /// The transactions of this scheduler's processes. Production code (r19) names itself, and is told
    /// from others by its database alone.
    pub(super) async fn transactions(&self) -> anyhow::Result<OpenTransactions> {
        let transactions = sqlx::query_as(
            "select count(*) filter (where state <> 'idle'),
                    count(*) filter (where waits_for in ('transactionid', 'tuple', 'advisory')),
                    count(*) filter (where waits_for = 'advisory')
             from pg_stat_activity process
               left join lateral (
                 select locktype from pg_locks where pg_locks.pid = process.pid and not granted
               ) waiting (waits_for) on true
             where starts_with(application_name, $1)
                or application_name = 'seckill' and datname = current_database()",
        );
        let (open, blocked, advisory) =
            transactions.bind(&self.application).fetch_one(&self.database).await?;
        Ok(OpenTransactions { open, blocked, advisory })
    }

    /// Until a transaction of the scheduler's processes waits for a row.
    pub(super) async fn until_blocked(&self) -> anyhow::Result<()> {
        let is_blocked = || async { Ok(self.transactions().await?.blocked > 0) };
        until("nobody waits for the row", is_blocked).await
    }

    /// Waits until PostgreSQL has undone what was broken off: until no more than `left` transactions
    /// are open.
    pub(super) async fn until_rolled_back(&self, left: i64) -> anyhow::Result<()> {
        let is_undone = || async { Ok(self.transactions().await?.open <= left) };
        until("a transaction was not undone", is_undone).await
    }

    /// Waits until PostgreSQL has noticed that a process is gone, and has undone what it had begun.
    pub(super) async fn until_disconnected(&self, node: NodeIndex) -> anyhow::Result<()> {
        let is_gone = || async {
            let connections =
                "select not exists (select from pg_stat_activity where application_name = $1)";
            let connections = sqlx::query_scalar(connections).bind(self.application_of(node.0));
            Ok(connections.fetch_one(&self.database).await?)
        };
        until("a connection of a dead process stays open", is_gone).await
    }

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
        let (redis, key) = (Redis::new(&self.servers.redis_urls[0])?, self.lock_key(user)?);
        let exists = || async { Ok(redis.query(redis::cmd("EXISTS").arg(&key)).await?) };
        until("nobody takes the lock", exists).await
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
        let is_over = || async {
            let left_ms: i64 = redis.query(redis::cmd("PTTL").arg(&key)).await?;
            Ok(!(0..=1).contains(&left_ms))
        };
        until("a lease of a millisecond does not end", is_over).await
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

/// Has the waiters of the lock at `key` look again.
pub(super) async fn tell_waiters(redis: &Redis, key: &str) -> anyhow::Result<()> {
    let channel = format!("redisson_lock__channel:{{{key}}}");
    Ok(redis.query(redis::cmd("PUBLISH").arg(channel).arg("0")).await?)
}
