//! *Idea.* The lock is a hash of owner and holds: its owner may take it again, and the last
//! release frees it.
//! *Holds.* As r11, and code that holds the lock may call code that takes it.
//! *Breaks when* the reply to a release is lost and it is sent again: one hold too many is
//! given back. And when the work outlives the lease.
//! *Next.* Renew the lease while the work goes on (r13a).

use std::sync::LazyLock;

use async_trait::async_trait;
use redis_link::LuaScript;
use sqlx::PgPool;
use uuid::Uuid;

use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError};
use redis_link::{Redis, ScriptCall};
use seckill::store::Keys;

static ACQUIRE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/reentrant_acquire.lua")));
static RELEASE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/reentrant_release.lua")));

struct Reentrant {
    database: PgPool,
    redis: Redis,
    keys: Keys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(Reentrant { database: resources.database, redis, keys: resources.keys }))
}

#[async_trait]
impl Design for Reentrant {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        self.buy_as(purchase, &Uuid::new_v4().to_string()).await
    }
}

impl Reentrant {
    async fn buy_as(&self, purchase: &Purchase, owner: &str) -> Result<Answer, RungError> {
        let key = self.keys.order_lock(purchase.user);
        let lease_ms = purchase.lease.as_millis() as u64;
        let acquire = ScriptCall::new(&ACQUIRE).key(&key).arg(owner).arg(lease_ms);
        let holds: Option<i64> = self.redis.invoke(&acquire).await?;
        let Some(holds) = holds else { return Ok(Answer::InProgress) };
        purchase.at(Point::Locked, Detail::Hold(holds, purchase.lease)).await;
        if let Some(inner) = purchase.inner() {
            purchase.at(Point::InnerDone, Box::pin(self.buy_as(&inner, owner)).await?).await;
        }
        let answer = self.place(purchase).await;
        purchase.at(Point::Releasing, Detail::OneHold).await;
        let release = ScriptCall::new(&RELEASE).key(&key).arg(owner).arg(lease_ms);
        // No answer: sent again, as it may not have arrived.
        match self.redis.invoke::<()>(&release).await {
            Err(error) if error.outcome_unknown() => self.redis.invoke(&release).await?,
            released => released?,
        }
        answer
    }

    async fn place(&self, purchase: &Purchase) -> Result<Answer, RungError> {
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
