//! *Idea.* A renewal every third of the lease while the work goes on; and the holder looks before its
//! write whether its time is over.
//! *Holds.* As r12, however long the work takes; a lease that could not be renewed stops the holder.
//! *Breaks when* the reply to a release is lost and it is sent again, as r12. When the holder is stopped
//! between its last look and its write. And when the one Redis forgets: a failover, a restart, a clock.
//! *Next.* A second request is turned away, and asks again and again: let it wait for the release (r13b).

use std::convert::Infallible;
use std::sync::LazyLock;

use async_trait::async_trait;
use redis_link::LuaScript;
use sqlx::PgPool;
use tokio::select;
use tokio::sync::watch::Sender;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError};
use redis_link::{Redis, ScriptCall};
use seckill::store::Keys;

static ACQUIRE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/reentrant_acquire.lua")));
static RENEW: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/renew.lua")));
static RELEASE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/reentrant_release.lua")));

struct Renewal {
    database: PgPool,
    redis: Redis,
    keys: Keys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(Renewal { database: resources.database, redis, keys: resources.keys }))
}

#[async_trait]
impl Design for Renewal {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        self.buy_as(purchase, &Uuid::new_v4().to_string()).await
    }
}

impl Renewal {
    async fn buy_as(&self, purchase: &Purchase, owner: &str) -> Result<Answer, RungError> {
        let key = self.keys.order_lock(purchase.user);
        let lease_ms = purchase.lease.as_millis();
        let asked = Instant::now();
        let acquire = ScriptCall::new(&ACQUIRE).key(&key).arg(owner).arg(lease_ms);
        let holds: Option<i64> = self.redis.invoke(&acquire).await?;
        let Some(holds) = holds else { return Ok(Answer::InProgress) };
        let until = Sender::new(asked + purchase.lease);
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
        let release = ScriptCall::new(&RELEASE).key(&key).arg(owner).arg(lease_ms);
        // No answer: sent again, as it may not have arrived. What fails then ends with the lease.
        if let Err(error) = self.redis.invoke::<()>(&release).await
            && error.outcome_unknown()
        {
            let _ = self.redis.invoke::<()>(&release).await;
        }
        answer
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
