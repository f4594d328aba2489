//! *Idea.* Every grant comes with a number greater than all before; the database remembers the
//! greatest it has seen and refuses a smaller one.
//! *Holds.* One order per user, also when a holder slept past its lease: the store itself refuses the
//! late one. So a fixed lease is enough, and nobody has to look before the write.
//! *Breaks when* the lock's server is down: nobody buys. And it is one more row to write.
//! *Next.* A lock service that does not forget, but has no fence (r17); or no lock at all (r18a).

use std::sync::LazyLock;

use async_trait::async_trait;
use redis_link::LuaScript;
use sqlx::PgPool;
use uuid::Uuid;

use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError};
use redis_link::{Redis, ScriptCall};
use seckill::store::Keys;

static ACQUIRE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/fenced_acquire.lua")));
static RELEASE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/reentrant_release.lua")));

struct Fencing {
    database: PgPool,
    redis: Redis,
    keys: Keys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(Fencing { database: resources.database, redis, keys: resources.keys }))
}

#[async_trait]
impl Design for Fencing {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        self.buy_as(purchase, &Uuid::new_v4().to_string()).await
    }
}

impl Fencing {
    async fn buy_as(&self, purchase: &Purchase, owner: &str) -> Result<Answer, RungError> {
        let key = self.keys.order_lock(purchase.user);
        let lease_ms = purchase.lease.as_millis() as u64;
        let counter = format!("{{{key}}}:token");
        let acquire = ScriptCall::new(&ACQUIRE).key(&key).key(counter).arg(owner).arg(lease_ms);
        let token: Option<i64> = self.redis.invoke(&acquire).await?;
        let Some(token) = token else { return Ok(Answer::InProgress) };
        purchase.at(Point::Locked, Detail::Fenced(purchase.lease, token)).await;
        if let Some(inner) = purchase.inner() {
            purchase.at(Point::InnerDone, Box::pin(self.buy_as(&inner, owner)).await?).await;
        }
        let answer = self.place(purchase, token).await;
        purchase.at(Point::Releasing, Detail::OneHold).await;
        let release = ScriptCall::new(&RELEASE).key(&key).arg(owner).arg(lease_ms);
        // No answer: sent again, as it may not have arrived. What fails then ends with the lease.
        if let Err(error) = self.redis.invoke::<()>(&release).await
            && error.outcome_unknown()
        {
            let _ = self.redis.invoke::<()>(&release).await;
        }
        answer
    }

    async fn place(&self, purchase: &Purchase, token: i64) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        // First of all: the row stays locked until we commit, and a later buyer counts later.
        let admitted = sqlx::query(
            "insert into fences (user_id, voucher_id, token) values ($1, $2, $3)
             on conflict (user_id, voucher_id) do update set token = excluded.token
             where fences.token < excluded.token",
        )
        .bind(purchase.user.get())
        .bind(purchase.voucher.get())
        .bind(token)
        .execute(&mut *transaction)
        .await?;
        if admitted.rows_affected() == 0 {
            return Err(RungError::LockLost);
        }
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
