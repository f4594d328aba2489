//! *Idea.* The token bucket of r28b by one clock: the script asks Redis for the time, and no process is asked.
//! *Holds.* The rate, in any number of processes, whatever their clocks say.
//! *Breaks when* Redis is down: nobody buys. And the limit is one for each account: a thousand accounts have a thousand
//! buckets.
//! *Next.* A rate says how often, and not whose turn it is: a place in line (r29a).

use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgPool;

use super::queue_keys::QueueKeys;
use super::r28a_fixed_window::LIMIT;
use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError};
use redis_link::{LuaScript, Redis, ScriptCall};

static TAKE_TOKEN_BY_REDIS: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/take_token_by_redis.lua")));

/// In this time one token flows in.
const REFILL: Duration = Duration::from_secs(20);

struct RedisTime {
    database: PgPool,
    redis: Redis,
    keys: QueueKeys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    let Resources { database, queue_keys: keys, .. } = resources;
    Ok(Box::new(RedisTime { database, redis, keys }))
}

#[async_trait]
impl Design for RedisTime {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let take = ScriptCall::new(&TAKE_TOKEN_BY_REDIS).key(self.keys.rate(purchase.user));
        let left: i64 = self.redis.invoke(&take.arg(LIMIT).arg(REFILL.as_millis())).await?;
        if left < 0 {
            return Ok(Answer::Refused);
        }
        purchase.at(Point::LetIn, Detail::TokensLeft(left)).await;
        self.place(purchase).await
    }
}

impl RedisTime {
    /// One statement: what it takes is given back where the order is refused.
    async fn place(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let placed = sqlx::query_scalar(
            "with taken as (
               update seckill_vouchers set stock = stock - 1
               where voucher_id = $2 and stock > 0 returning voucher_id
             )
             insert into orders (user_id, voucher_id)
             select $1, voucher_id from taken returning id",
        )
        .bind(purchase.user.get())
        .bind(purchase.voucher.get())
        .fetch_optional(&self.database)
        .await;
        match placed {
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                Ok(Answer::AlreadyBought)
            }
            placed => Ok(placed?.map_or(Answer::SoldOut, Answer::Ordered)),
        }
    }
}
