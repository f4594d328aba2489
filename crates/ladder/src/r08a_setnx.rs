//! *Idea.* A lock per user that all processes see: `SETNX` in Redis takes it, `DEL` gives it
//! back.
//! *Holds.* One order per user, on any number of processes, as long as none of them dies.
//! *Breaks when* the holder dies: nobody ever deletes the key, and the user is locked out for
//! ever. And when that Redis is down: as with every lock up to r14, nobody buys.
//! *Next.* Let the key expire (r08b, r09).

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError};
use redis_link::Redis;
use seckill::store::Keys;

struct SetNx {
    database: PgPool,
    redis: Redis,
    keys: Keys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(SetNx { database: resources.database, redis, keys: resources.keys }))
}

#[async_trait]
impl Design for SetNx {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let key = self.keys.order_lock(purchase.user);
        let taken: bool = self.redis.query(redis::cmd("SETNX").arg(&key).arg(1)).await?;
        if !taken {
            return Ok(Answer::InProgress);
        }
        purchase.at(Point::Locked, Detail::Setnx).await;
        if let Some(inner) = purchase.inner() {
            purchase.at(Point::InnerDone, self.buy(&inner).await?).await;
        }
        let answer = self.place(purchase).await;
        purchase.at(Point::Releasing, Detail::Del).await;
        self.redis.query::<()>(redis::cmd("DEL").arg(&key)).await?;
        answer
    }
}

impl SetNx {
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
