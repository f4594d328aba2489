//! *Idea.* The value says whose lock it is: look before deleting it.
//! *Holds.* As r09, and a late release hardly ever deletes somebody else's lock.
//! *Breaks when* the lease ends between the look and the delete. And when the work outlives the
//! lease: a second enters while the first goes on.
//! *Next.* Look and delete in one step (r11).

use async_trait::async_trait;
use sqlx::PgPool;
use uuid::Uuid;

use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError};
use redis_link::Redis;
use seckill::store::Keys;

struct OwnerCheck {
    database: PgPool,
    redis: Redis,
    keys: Keys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(OwnerCheck { database: resources.database, redis, keys: resources.keys }))
}

#[async_trait]
impl Design for OwnerCheck {
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
        let holder: Option<String> = self.redis.query(redis::cmd("GET").arg(&key)).await?;
        if holder.as_deref() == Some(&owner) {
            purchase.at(Point::Releasing, Detail::GetThenDel).await;
            self.redis.query::<()>(redis::cmd("DEL").arg(&key)).await?;
        }
        answer
    }
}

impl OwnerCheck {
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
