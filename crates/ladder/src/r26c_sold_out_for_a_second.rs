//! *Idea.* Redis says one thing only, that the voucher is sold out, and says it for a second. The database
//! has said so before; everything else it decides itself, as in r18a.
//! *Holds.* What the database decides, and that a wrong "sold out" ends by itself: after a second at the latest,
//! whatever order readers and writers come in, and whoever dies.
//! *Breaks when* a buyer comes within the second after more was put on sale: "sold out" may still be told. Once a
//! second some buyers ask the database in vain. While Redis is down nobody buys.
//! *Next.* What most courses teach (r26d). Production keeps "sold out" in the memory of each process, as here.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgPool;

use super::queue_keys::QueueKeys;
use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError, Work, WorkTurn};
use redis_link::Redis;
use seckill::model::VoucherId;

/// How long an old "sold out" is heard.
const KNOWN_FOR: Duration = Duration::from_secs(1);

struct SoldOutForASecond {
    database: PgPool,
    redis: Redis,
    keys: QueueKeys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(SoldOutForASecond {
        database: resources.database,
        redis,
        keys: resources.queue_keys,
    }))
}

#[async_trait]
impl Design for SoldOutForASecond {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let key = self.keys.sold_out(purchase.voucher);
        if self.redis.query::<i64>(redis::cmd("EXISTS").arg(&key)).await? == 1 {
            return Ok(Answer::SoldOut);
        }
        let answer = self.place(purchase).await?;
        if answer == Answer::SoldOut {
            purchase.at(Point::StockRead, 0).await;
            let mut set = redis::cmd("SET");
            set.arg(&key).arg(1).arg("PX").arg(KNOWN_FOR.as_millis() as u64);
            self.redis.query::<()>(&set).await?;
        }
        Ok(answer)
    }

    async fn restock(
        &self,
        voucher: VoucherId,
        more: i32,
        work: &Work,
    ) -> Result<WorkTurn, RungError> {
        self.add(voucher, more).await?;
        let key = self.keys.sold_out(voucher);
        work.at(Point::StockAdded, Detail::Nothing).await;
        // Only sooner than in a second.
        self.redis.query::<()>(redis::cmd("DEL").arg(key)).await?;
        Ok(WorkTurn::Restocked)
    }
}

impl SoldOutForASecond {
    async fn place(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        let taken = sqlx::query(
            "update seckill_vouchers set stock = stock - 1 where voucher_id = $1 and stock > 0",
        )
        .bind(purchase.voucher.get())
        .execute(&mut *transaction)
        .await?;
        if taken.rows_affected() == 0 {
            return Ok(Answer::SoldOut);
        }
        let written = sqlx::query_scalar(
            "insert into orders (user_id, voucher_id) values ($1, $2) returning id",
        )
        .bind(purchase.user.get())
        .bind(purchase.voucher.get())
        .fetch_one(&mut *transaction)
        .await;
        let order: i64 = match written {
            // Dropped, the transaction gives back what it took.
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                return Ok(Answer::AlreadyBought);
            }
            written => written?,
        };
        purchase.at(Point::Committing, order).await;
        transaction.commit().await?;
        Ok(Answer::Ordered(order))
    }

    async fn add(&self, voucher: VoucherId, more: i32) -> Result<(), RungError> {
        sqlx::query(
            "update seckill_vouchers
             set stock = stock + $2, initial_stock = initial_stock + $2 where voucher_id = $1",
        )
        .bind(voucher.get())
        .bind(more)
        .execute(&self.database)
        .await?;
        Ok(())
    }
}
