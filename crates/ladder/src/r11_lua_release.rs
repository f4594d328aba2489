//! *Idea.* Compare and delete in one Lua script, which Redis runs without a pause.
//! *Holds.* As r10, and no release ever deletes somebody else's lock.
//! *Breaks when* the holder calls code that takes the same lock: it is turned away by itself.
//! And when the work outlives the lease.
//! *Next.* Count the holds of an owner (r12).

use std::sync::LazyLock;

use async_trait::async_trait;
use redis_link::LuaScript;
use sqlx::PgPool;
use uuid::Uuid;

use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError};
use redis_link::{Redis, ScriptCall};
use seckill::store::Keys;

static COMPARE_AND_DELETE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/compare_and_delete.lua")));

struct LuaRelease {
    database: PgPool,
    redis: Redis,
    keys: Keys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(LuaRelease { database: resources.database, redis, keys: resources.keys }))
}

#[async_trait]
impl Design for LuaRelease {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let key = self.keys.order_lock(purchase.user);
        let owner = Uuid::new_v4().to_string();
        let lease_ms = purchase.lease.as_millis() as u64;
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(&owner).arg("NX").arg("PX").arg(lease_ms);
        let taken: Option<String> = self.redis.query(&set).await?;
        if taken.is_none() {
            return Ok(Answer::InProgress);
        }
        purchase.at(Point::Locked, Detail::SetWithLease(purchase.lease)).await;
        if let Some(inner) = purchase.inner() {
            purchase.at(Point::InnerDone, self.buy(&inner).await?).await;
        }
        let answer = self.place(purchase).await;
        purchase.at(Point::Releasing, Detail::CompareAndDelete).await;
        let release = ScriptCall::new(&COMPARE_AND_DELETE).key(&key).arg(&owner);
        self.redis.invoke::<()>(&release).await?;
        answer
    }
}

impl LuaRelease {
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
