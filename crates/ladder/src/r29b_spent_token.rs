//! *Idea.* The line of r29a, and one script that looks at the admission token and spends it: whoever spends it is let
//! in.
//! *Holds.* One token lets in once, however many requests come at once, to whatever process.
//! *Breaks when* the process dies after the token is spent, and before the purchase: its owner has neither token nor
//! order, and is turned away for good. While Redis is down nobody buys.
//! *Next.* Nothing here mends it. Spend the token in the transaction of the order, as r27b does with its key. How the
//! winners are chosen is another matter (r30a).

use std::sync::LazyLock;

use async_trait::async_trait;
use sqlx::PgPool;

use super::queue_keys::QueueKeys;
use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError};
use redis_link::{LuaScript, Redis, ScriptCall};

static SPEND_TOKEN: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/spend_token.lua")));

struct SpentToken {
    database: PgPool,
    redis: Redis,
    keys: QueueKeys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    let Resources { database, queue_keys: keys, .. } = resources;
    Ok(Box::new(SpentToken { database, redis, keys }))
}

#[async_trait]
impl Design for SpentToken {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let (line, spent) = (self.keys.line(purchase.voucher), self.keys.spent(purchase.voucher));
        let spend = ScriptCall::new(&SPEND_TOKEN).key(line).key(spent).arg(purchase.user);
        let place: i64 = self.redis.invoke(&spend).await?;
        if place == 0 {
            return Ok(Answer::Refused);
        }
        purchase.at(Point::LetIn, Detail::PlaceInLine(place)).await;
        self.place(purchase).await
    }
}

impl SpentToken {
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
