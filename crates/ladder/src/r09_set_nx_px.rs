//! *Idea.* `SET … NX PX`: the lock and its lease in one command.
//! *Holds.* One order per user while the work is shorter than the lease; a dead holder locks
//! nobody out for longer.
//! *Breaks when* the work outlives the lease: a second enters, and then the first's `DEL`
//! deletes the second's lock and lets a third in.
//! *Next.* Delete only one's own lock (r10).

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError};
use redis_link::Redis;
use seckill::store::Keys;

struct SetNxPx {
    database: PgPool,
    redis: Redis,
    keys: Keys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(SetNxPx { database: resources.database, redis, keys: resources.keys }))
}

#[async_trait]
impl Design for SetNxPx {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let key = self.keys.order_lock(purchase.user);
        let lease_ms = purchase.lease.as_millis() as u64;
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(1).arg("NX").arg("PX").arg(lease_ms);
        let taken: Option<String> = self.redis.query(&set).await?;
        if taken.is_none() {
            return Ok(Answer::InProgress);
        }
        purchase.at(Point::Locked, Detail::SetWithLease(purchase.lease)).await;
        if let Some(inner) = purchase.inner() {
            purchase.at(Point::InnerDone, self.buy(&inner).await?).await;
        }
        let answer = self.place(purchase).await;
        purchase.at(Point::Releasing, Detail::Del).await;
        self.redis.query::<()>(redis::cmd("DEL").arg(&key)).await?;
        answer
    }
}

impl SetNxPx {
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
