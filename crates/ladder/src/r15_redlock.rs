//! *Idea.* RedLock: the lock on a majority of several Redis servers, for as long as is left of
//! the lease, less what the clocks may have drifted.
//! *Holds.* One order per user, also when one of the servers is down.
//! *Breaks when* a server of the majority forgets (restarted empty, failed over to a replica that had
//! not heard, its clock leapt): with one that had missed the first grant it makes another majority.
//! When the holder is stopped between its last look and its write. And when the holder takes it again.
//! *Next.* Let the database refuse a late holder (r16).

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Awaited, Design, Detail, Point, Purchase, Resources, RungError};
use redisson_lock::{Lease, LockClient, LockOptions, QuorumGuard, RedLock, RedLockOptions};
use seckill::store::Keys;

struct Majority {
    database: PgPool,
    nodes: Vec<LockClient>,
    locks: RedLock,
    keys: Keys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let node = |redis| LockClient::new(redis, LockOptions::default());
    let nodes: Vec<_> = resources.redis.into_iter().map(node).collect();
    let locks = RedLock::new(nodes.clone(), RedLockOptions::default())?;
    Ok(Box::new(Majority { database: resources.database, nodes, locks, keys: resources.keys }))
}

#[async_trait]
impl Design for Majority {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let lock = self.locks.lock(self.keys.order_lock(purchase.user));
        let lock = lock.lease(Lease::Renewed(purchase.lease));
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
        purchase.at(Point::Locked, Detail::OnNodes(guard.granted(), purchase.lease)).await;
        if let Some(inner) = purchase.inner() {
            purchase.at(Point::InnerDone, self.buy(&inner).await?).await;
        }
        let answer = self.place(purchase, &guard).await;
        purchase.at(Point::Releasing, Detail::OnEveryNode).await;
        // What fails here is made good in the background, or by the end of the lease.
        let _ = guard.release().await;
        answer
    }

    async fn shutdown(&self) {
        for node in &self.nodes {
            node.shutdown().await;
        }
    }
}

impl Majority {
    async fn place(&self, purchase: &Purchase, guard: &QuorumGuard) -> Result<Answer, RungError> {
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
