//! *Idea.* A limit of the rate (限流) before the database: Redis counts the requests of each user, and refuses more
//! than three within a minute. The minute begins with the first of them, and ends by the time to live of the counter.
//! *Holds.* The stock, and one order per user: the database decides every sale. Counter and end are set in one
//! script, so that no counter stays for good.
//! *Breaks when* a user sends most at the end of one minute, and all of the next at its beginning: nearly twice the
//! limit in a moment. While Redis is down nobody buys.
//! *Next.* Let the allowance flow in, instead of giving it anew (r28b).

use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgPool;

use super::queue_keys::QueueKeys;
use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError};
use redis_link::{LuaScript, Redis, ScriptCall};

static COUNT_IN_WINDOW: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/count_in_window.lua")));

/// How many requests of a user are let in within a window.
pub const LIMIT: i64 = 3;

/// How long a window is.
pub const WINDOW: Duration = Duration::from_secs(60);

struct FixedWindow {
    database: PgPool,
    redis: Redis,
    keys: QueueKeys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    let Resources { database, queue_keys: keys, .. } = resources;
    Ok(Box::new(FixedWindow { database, redis, keys }))
}

#[async_trait]
impl Design for FixedWindow {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let count = ScriptCall::new(&COUNT_IN_WINDOW)
            .key(self.keys.rate(purchase.user))
            .arg(WINDOW.as_millis());
        let nth: i64 = self.redis.invoke(&count).await?;
        if nth > LIMIT {
            return Ok(Answer::Refused);
        }
        purchase.at(Point::LetIn, Detail::NthInWindow(nth)).await;
        self.place(purchase).await
    }
}

impl FixedWindow {
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
