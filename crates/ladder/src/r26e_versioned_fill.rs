//! *Idea.* Versioned fill: the voucher's row has a version that every change raises, and the cache keeps the stock
//! with the greater version. An operator who changes the stock writes it into the cache after the commit; a
//! reader's fill that comes late is refused.
//! *Holds.* The database decides every sale. A reader may be as slow as it likes.
//! *Breaks when* the process dies after the commit and before it tells the cache: "sold out" is told until the entry
//! ends. While Redis is down nobody buys.
//! *Next.* Nothing here mends that: a promise that bears no wrong refusal bears no cached stock. The requests
//! that are sent again are another matter (r27a).

use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgPool;

use super::queue_keys::QueueKeys;
use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError, Work, WorkTurn};
use redis_link::{LuaScript, Redis, ScriptCall};
use seckill::model::VoucherId;

static FILL: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/fill_if_newer.lua")));

/// How long an entry is believed.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// A stock and its version.
type Stock = (i32, i64);

struct VersionedFill {
    database: PgPool,
    redis: Redis,
    keys: QueueKeys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(VersionedFill { database: resources.database, redis, keys: resources.queue_keys }))
}

#[async_trait]
impl Design for VersionedFill {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let key = self.keys.stock(purchase.voucher);
        let cached: Option<i32> =
            self.redis.query(redis::cmd("HGET").arg(&key).arg("stock")).await?;
        let stock = match cached {
            Some(stock) => stock,
            None => self.read_through(purchase, &key).await?,
        };
        if stock <= 0 {
            return Ok(Answer::SoldOut);
        }
        let (answer, changed) = self.place(purchase).await?;
        if let Some(stock) = changed {
            self.fill(&key, stock).await?;
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
        let stock = self.add(voucher, more).await?;
        work.at(Point::StockAdded, Detail::Nothing).await;
        self.fill(&key, stock).await?;
        Ok(WorkTurn::Restocked)
    }
}

impl VersionedFill {
    async fn place(&self, purchase: &Purchase) -> Result<(Answer, Option<Stock>), RungError> {
        let mut transaction = self.database.begin().await?;
        let taken: Option<Stock> = sqlx::query_as(
            "update seckill_vouchers set stock = stock - 1, version = version + 1
             where voucher_id = $1 and stock > 0 returning stock, version",
        )
        .bind(purchase.voucher.get())
        .fetch_optional(&mut *transaction)
        .await?;
        if taken.is_none() {
            return Ok((Answer::SoldOut, None));
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
                return Ok((Answer::AlreadyBought, None));
            }
            written => written?,
        };
        purchase.at(Point::Committing, order).await;
        transaction.commit().await?;
        Ok((Answer::Ordered(order), taken))
    }

    /// The stock, which goes into the cache on the way.
    async fn read_through(&self, purchase: &Purchase, key: &str) -> Result<i32, RungError> {
        let read: Stock =
            sqlx::query_as("select stock, version from seckill_vouchers where voucher_id = $1")
                .bind(purchase.voucher.get())
                .fetch_one(&self.database)
                .await?;
        purchase.at(Point::StockRead, read.0).await;
        self.fill(key, read).await?;
        Ok(read.0)
    }

    async fn add(&self, voucher: VoucherId, more: i32) -> Result<Stock, RungError> {
        let changed = sqlx::query_as(
            "update seckill_vouchers
             set stock = stock + $2, initial_stock = initial_stock + $2, version = version + 1
             where voucher_id = $1 returning stock, version",
        );
        Ok(changed.bind(voucher.get()).bind(more).fetch_one(&self.database).await?)
    }

    /// Nothing happens where the cache knows a later one.
    async fn fill(&self, key: &str, (stock, version): Stock) -> Result<(), RungError> {
        let fill = ScriptCall::new(&FILL).key(key).arg(stock).arg(version);
        Ok(self.redis.invoke::<()>(&fill.arg(KNOWN_FOR.as_millis() as u64)).await?)
    }
}
