//! *Idea.* Every grant comes with a number greater than all before; the database remembers the
//! greatest it has seen and refuses a smaller one.
//! *Holds.* One order per user, also when a holder slept past its lease: the store itself refuses the
//! late one.
//! *Breaks when* the lock's server is gone: then nobody buys. And it is one more row to write.
//! *Next.* A lock service that does not forget (r17); or no lock at all (r18a).

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Point, Purchase, Resources, RungError};
use redisson_lock::{Guard, Lease, LockClient, LockOptions, Owner};
use seckill::store::Keys;

struct Fencing {
    database: PgPool,
    locks: LockClient,
    keys: Keys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let locks = LockClient::new(resources.first_redis()?, LockOptions::default());
    Ok(Box::new(Fencing { database: resources.database, locks, keys: resources.keys }))
}

#[async_trait]
impl Design for Fencing {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        self.buy_as(purchase, &self.locks.owner()).await
    }

    async fn shutdown(&self) {
        self.locks.shutdown().await;
    }
}

impl Fencing {
    async fn buy_as(&self, purchase: &Purchase, owner: &Owner) -> Result<Answer, RungError> {
        let lock = self.locks.lock(self.keys.order_lock(purchase.user));
        let lock = lock.owned_by(owner).lease(Lease::Renewed(purchase.lease)).fenced();
        let guard = match lock.try_acquire().await? {
            Some(guard) => guard,
            None => {
                purchase.at(Point::Missed, "it will hear of the release").await;
                let turn = lock.acquire_within(purchase.patience);
                match purchase.waiting("the release", turn).await? {
                    Some(guard) => guard,
                    None => return Ok(Answer::InProgress),
                }
            }
        };
        let lease_ms = purchase.lease.as_millis();
        purchase.at(Point::Locked, format!("for {lease_ms} ms, renewed every third")).await;
        if let Some(inner) = purchase.inner() {
            purchase.at(Point::InnerDone, Box::pin(self.buy_as(&inner, owner)).await?).await;
        }
        let answer = self.place(purchase, &guard).await;
        purchase.at(Point::Releasing, "one hold, safe to send again").await;
        // What fails here is made good in the background, or by the end of the lease.
        let _ = guard.release().await;
        answer
    }

    async fn place(&self, purchase: &Purchase, guard: &Guard) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        if guard.is_lost() {
            return Err(RungError::LockLost);
        }
        let token = guard.fence().and_then(|token| i64::try_from(token).ok());
        let token = token.ok_or(RungError::Lacks("a fencing token"))?;
        purchase.at(Point::LastCheck, format!("it is, by token {token}")).await;
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
