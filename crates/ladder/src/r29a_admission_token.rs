//! *Idea.* A line (排队) before the sale: Redis gives each user one place, and with it an admission token. A request is
//! let in where its token is not spent, and spends it when the purchase is over.
//! *Holds.* One place for each user, however often it asks; a user whose process dies on the way is let in again.
//! *Breaks when* two requests with one token come at once: both see that it is not spent, and both are let in. While
//! Redis is down nobody buys.
//! *Next.* Spend the token in the step that looks at it (r29b).

use std::sync::LazyLock;

use async_trait::async_trait;
use sqlx::PgPool;

use super::queue_keys::QueueKeys;
use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError};
use redis_link::{LuaScript, Redis, ScriptCall};

static LOOK_AT_TOKEN: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/look_at_token.lua")));

struct AdmissionToken {
    database: PgPool,
    redis: Redis,
    keys: QueueKeys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    let Resources { database, queue_keys: keys, .. } = resources;
    Ok(Box::new(AdmissionToken { database, redis, keys }))
}

#[async_trait]
impl Design for AdmissionToken {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let (line, spent) = (self.keys.line(purchase.voucher), self.keys.spent(purchase.voucher));
        let look = ScriptCall::new(&LOOK_AT_TOKEN).key(line).key(&spent).arg(purchase.user);
        let place: i64 = self.redis.invoke(&look).await?;
        if place == 0 {
            return Ok(Answer::Refused);
        }
        purchase.at(Point::LetIn, Detail::PlaceInLine(place)).await;
        let answer = self.place(purchase).await?;
        let user = purchase.user.get();
        self.redis.query::<i64>(redis::cmd("SADD").arg(&spent).arg(user)).await?;
        Ok(answer)
    }
}

impl AdmissionToken {
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
