//! *Idea.* Renewal, waiting and the release that may be sent again, in the crate that anybody can use: the
//! production lock, and this file only calls it.
//! *Holds.* One order per user, however long the work takes.
//! *Breaks when* the one Redis is down: nobody buys. When it forgets: a failover to a replica that had not
//! heard of the lock, a restart with an empty memory, a clock that leaps. Or when the holder itself is
//! stopped between its last look and its write.
//! *Next.* Ask several servers that do not depend on each other (r14).

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Awaited, Design, Detail, Point, Purchase, Resources, RungError};
use redisson_lock::{Guard, Lease, LockClient, LockOptions, Owner};
use seckill::store::Keys;

struct RenewedLock {
    database: PgPool,
    locks: LockClient,
    keys: Keys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let locks = LockClient::new(resources.first_redis()?, LockOptions::default());
    Ok(Box::new(RenewedLock { database: resources.database, locks, keys: resources.keys }))
}

#[async_trait]
impl Design for RenewedLock {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        self.buy_as(purchase, &self.locks.owner()).await
    }

    async fn shutdown(&self) {
        self.locks.shutdown().await;
    }
}

impl RenewedLock {
    async fn buy_as(&self, purchase: &Purchase, owner: &Owner) -> Result<Answer, RungError> {
        let lock = self.locks.lock(self.keys.order_lock(purchase.user));
        let lock = lock.owned_by(owner).lease(Lease::Renewed(purchase.lease));
        let guard = match lock.try_acquire().await? {
            Some(guard) => guard,
            None => {
                purchase.at(Point::Missed, Detail::WillHearRelease).await;
                let turn = lock.acquire_within(purchase.patience);
                match purchase.waiting(Awaited::Release, turn).await? {
                    Some(guard) => guard,
                    None => return Ok(Answer::InProgress),
                }
            }
        };
        purchase.at(Point::Locked, Detail::RenewedEveryThird(purchase.lease)).await;
        if let Some(inner) = purchase.inner() {
            purchase.at(Point::InnerDone, Box::pin(self.buy_as(&inner, owner)).await?).await;
        }
        let answer = self.place(purchase, &guard).await;
        purchase.at(Point::Releasing, Detail::OneHoldSafely).await;
        // What fails here is made good in the background, or by the end of the lease.
        let _ = guard.release().await;
        answer
    }

    async fn place(&self, purchase: &Purchase, guard: &Guard) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
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
        if guard.is_lost() {
            return Err(RungError::LockLost);
        }
        purchase.at(Point::LastCheck, Detail::StillOwn).await;
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
