//! *Idea.* A second request waits: the release publishes a message, and the waiter has subscribed to it
//! and looked again, for the release may have come before.
//! *Holds.* As r13a; and nobody sleeps through a release, nor longer than a lease that nobody gives back.
//! *Breaks when* the reply to a release is lost and it is sent again, as r12. When the holder is stopped
//! between its last look and its write. And when the one Redis forgets: a failover, a restart, a clock.
//! A waiter whose patience ends while its last try is under way may get a lock that nobody gives back.
//! *Next.* A release that may be sent again (r13c).

use std::convert::Infallible;
use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use redis_link::LuaScript;
use sqlx::PgPool;
use tokio::select;
use tokio::sync::watch::Sender;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use uuid::Uuid;

use super::{Answer, Awaited, Design, Detail, Point, Purchase, Resources, RungError};
use redis_link::{LinkError, Redis, ScriptCall};
use seckill::store::Keys;

static ACQUIRE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/acquire_or_remaining.lua")));
static RENEW: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/renew.lua")));
static RELEASE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/waking_release.lua")));

/// After what time a connection that could not be made is tried again.
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(50);

struct Wakeup {
    database: PgPool,
    redis: Redis,
    keys: Keys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(Wakeup { database: resources.database, redis, keys: resources.keys }))
}

#[async_trait]
impl Design for Wakeup {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        self.buy_as(purchase, &Uuid::new_v4().to_string()).await
    }
}

impl Wakeup {
    async fn buy_as(&self, purchase: &Purchase, owner: &str) -> Result<Answer, RungError> {
        let (mut holds, mut until) = self.acquire(purchase, owner).await?;
        if holds == 0 {
            purchase.at(Point::Missed, Detail::WillHearRelease).await;
            let turn = timeout(purchase.patience, self.wait(purchase, owner));
            match purchase.waiting(Awaited::Release, turn).await {
                Ok(granted) => (holds, until) = granted?,
                Err(_) => return Ok(Answer::InProgress),
            }
        }
        let until = Sender::new(until);
        let work = async {
            purchase.at(Point::Locked, Detail::RenewedHold(holds, purchase.lease)).await;
            if let Some(inner) = purchase.inner() {
                purchase.at(Point::InnerDone, Box::pin(self.buy_as(&inner, owner)).await?).await;
            }
            self.place(purchase, &until).await
        };
        let answer = select! {
            answer = work => answer,
            never = self.renew(purchase, owner, &until) => match never {},
        };
        purchase.at(Point::Releasing, Detail::OneHold).await;
        let (key, lease_ms) = (self.keys.order_lock(purchase.user), purchase.lease.as_millis());
        let release =
            ScriptCall::new(&RELEASE).key(&key).arg(owner).arg(lease_ms).arg(channel(&key));
        // No answer: sent again, as it may not have arrived. What fails then ends with the lease.
        if let Err(error) = self.redis.invoke::<()>(&release).await
            && error.outcome_unknown()
        {
            let _ = self.redis.invoke::<()>(&release).await;
        }
        answer
    }

    /// How many holds the owner has, and until when; with none, until when somebody else has it.
    async fn acquire(&self, purchase: &Purchase, owner: &str) -> Result<(i64, Instant), RungError> {
        let (key, asked) = (self.keys.order_lock(purchase.user), Instant::now());
        let acquire = ScriptCall::new(&ACQUIRE).key(key).arg(owner).arg(purchase.lease.as_millis());
        let (holds, left_ms): (i64, u32) = self.redis.invoke(&acquire).await?;
        Ok((holds, asked + Duration::from_millis(left_ms.into())))
    }

    /// Until the owner has the lock.
    async fn wait(&self, purchase: &Purchase, owner: &str) -> Result<(i64, Instant), RungError> {
        let channel = channel(&self.keys.order_lock(purchase.user));
        let subscriber = loop {
            match self.redis.subscriber(&self.redis.shard_of(&channel)).await {
                Ok(subscriber) => break subscriber,
                Err(error) if error.retry_may_help() => sleep(CONNECT_AGAIN_AFTER).await,
                Err(error) => return Err(error.into()),
            }
        };
        let (mut sink, mut messages) = subscriber.split();
        sink.subscribe(&[channel]).await.map_err(LinkError::from)?;
        loop {
            // Again, now that releases are heard: the one that was waited for may have come before.
            let (holds, until) = self.acquire(purchase, owner).await?;
            if holds > 0 {
                return Ok((holds, until));
            }
            // Woken by a release, or at the end of a lease that nobody gives back.
            if let Ok(None) = timeout_at(until, messages.next()).await {
                return Err(LinkError::unavailable("the subscription has ended").into());
            }
        }
    }

    /// Renews the lease every third of it, and notes until when the lock is surely the holder's: counted
    /// from before the renewal was sent. Runs beside the work, and ends with it.
    async fn renew(&self, purchase: &Purchase, owner: &str, until: &Sender<Instant>) -> Infallible {
        let (key, lease) = (self.keys.order_lock(purchase.user), purchase.lease);
        let renew = ScriptCall::new(&RENEW).key(key).arg(owner).arg(lease.as_millis());
        loop {
            sleep(lease / 3).await;
            let asked = Instant::now();
            match self.redis.invoke::<bool>(&renew).await {
                Ok(true) => until.send_replace(asked + lease),
                // Lost: somebody else may have it.
                Ok(false) => until.send_replace(asked),
                // Asked again in time, perhaps.
                Err(_) => continue,
            };
        }
    }

    async fn place(
        &self,
        purchase: &Purchase,
        until: &Sender<Instant>,
    ) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        let orders: i64 = sqlx::query_scalar(
            "select count(*) from orders where user_id = $1 and voucher_id = $2",
        )
        .bind(purchase.user.get())
        .bind(purchase.voucher.get())
        .fetch_one(&mut *transaction)
        .await?;
        purchase.at(Point::OrdersCounted, orders).await;
        if orders > 0 {
            return Ok(Answer::AlreadyBought);
        }
        if Instant::now() >= *until.borrow() {
            return Err(RungError::LockLost);
        }
        purchase.at(Point::LastCheck, Detail::StillOwn).await;
        let taken = sqlx::query(
            "update seckill_vouchers set stock = stock - 1 where voucher_id = $1 and stock > 0",
        )
        .bind(purchase.voucher.get())
        .execute(&mut *transaction)
        .await?;
        if taken.rows_affected() == 0 {
            return Ok(Answer::SoldOut);
        }
        let order: i64 = sqlx::query_scalar(
            "insert into orders (user_id, voucher_id) values ($1, $2) returning id",
        )
        .bind(purchase.user.get())
        .bind(purchase.voucher.get())
        .fetch_one(&mut *transaction)
        .await?;
        purchase.at(Point::Committing, order).await;
        transaction.commit().await?;
        Ok(Answer::Ordered(order))
    }
}

/// Where the release of a lock is told: the name that Redisson has for it.
fn channel(key: &str) -> String {
    format!("redisson_lock__channel:{{{key}}}")
}
