//! *Idea.* What most courses teach: whoever changes the stock writes first and then deletes the key, and every
//! entry has a time to live. Readers fill what they do not find, as in r26a.
//! *Holds.* The database decides every sale, and a wrong entry ends by itself, after a minute here.
//! *Breaks when* a reader read the old stock before the write, and fills the cache after the delete; or the process
//! dies between the write and the delete: "sold out" is told to everybody until the entry ends. While Redis is down
//! nobody buys.
//! *Next.* Refuse a fill that is older than what the cache knows (r26e).

use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgPool;

use super::queue_keys::QueueKeys;
use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError, Work, WorkTurn};
use redis_link::Redis;
use seckill::model::VoucherId;

/// How long an entry is believed.
const KNOWN_FOR: Duration = Duration::from_secs(60);

struct WriteThenDelete {
    database: PgPool,
    redis: Redis,
    keys: QueueKeys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(WriteThenDelete {
        database: resources.database,
        redis,
        keys: resources.queue_keys,
    }))
}

#[async_trait]
impl Design for WriteThenDelete {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let key = self.keys.stock(purchase.voucher);
        let cached: Option<i32> = self.redis.query(redis::cmd("GET").arg(&key)).await?;
        let stock = match cached {
            Some(stock) => stock,
            None => self.read_through(purchase, &key).await?,
        };
        if stock <= 0 {
            return Ok(Answer::SoldOut);
        }
        let answer = self.place(purchase).await?;
        if matches!(answer, Answer::Ordered(_)) {
            self.forget(&key).await?;
        }
        Ok(answer)
    }

    async fn restock(
        &self,
        voucher: VoucherId,
        more: i32,
        work: &Work,
    ) -> Result<WorkTurn, RungError> {
        let key = self.keys.stock(voucher);
        self.add(voucher, more).await?;
        work.at(Point::StockAdded, Detail::Nothing).await;
        self.forget(&key).await?;
        Ok(WorkTurn::Restocked)
    }
}

impl WriteThenDelete {
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

    /// The stock, which goes into the cache on the way.
    async fn read_through(&self, purchase: &Purchase, key: &str) -> Result<i32, RungError> {
        let stock: i32 =
            sqlx::query_scalar("select stock from seckill_vouchers where voucher_id = $1")
                .bind(purchase.voucher.get())
                .fetch_one(&self.database)
                .await?;
        purchase.at(Point::StockRead, stock).await;
        let mut set = redis::cmd("SET");
        set.arg(key).arg(stock).arg("PX").arg(KNOWN_FOR.as_millis() as u64);
        self.redis.query::<()>(&set).await?;
        Ok(stock)
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

    async fn forget(&self, key: &str) -> Result<(), RungError> {
        Ok(self.redis.query(redis::cmd("DEL").arg(key)).await?)
    }
}
