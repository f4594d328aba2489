//! *Idea.* A token bucket (令牌桶) for each user: it holds three tokens, one flows in every twenty seconds, and a
//! request that finds none is refused. The process says what time it is, and a script does the rest.
//! *Holds.* At the edge of a minute as at any other time: what was spent flows in again, and is not given anew.
//! *Breaks when* the clocks of two processes differ: for the one that is ahead tokens have flowed in that are not due
//! yet. While Redis is down nobody buys.
//! *Next.* Let Redis say what time it is (r28c).

use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgPool;

use super::queue_keys::QueueKeys;
use super::r28a_fixed_window::LIMIT;
use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError};
use redis_link::{LuaScript, Redis, ScriptCall};
use seckill::model::{Clock, SystemClock};

static TAKE_TOKEN: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/take_token.lua")));

/// In this time one token flows in.
const REFILL: Duration = Duration::from_secs(20);

struct TokenBucket {
    database: PgPool,
    redis: Redis,
    keys: QueueKeys,
    /// How far the clock of this process is ahead.
    clock_ahead: Duration,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    let Resources { database, queue_keys: keys, clock_ahead, .. } = resources;
    Ok(Box::new(TokenBucket { database, redis, keys, clock_ahead }))
}

#[async_trait]
impl Design for TokenBucket {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let now = SystemClock.now() + self.clock_ahead;
        let take = ScriptCall::new(&TAKE_TOKEN).key(self.keys.rate(purchase.user));
        let take = take.arg(LIMIT).arg(REFILL.as_millis()).arg(now.timestamp_millis());
        let left: i64 = self.redis.invoke(&take).await?;
        if left < 0 {
            return Ok(Answer::Refused);
        }
        purchase.at(Point::LetIn, Detail::TokensLeft(left)).await;
        self.place(purchase).await
    }
}

impl TokenBucket {
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
