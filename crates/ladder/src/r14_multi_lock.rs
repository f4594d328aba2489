//! *Idea.* The lock on all of several Redis servers that do not depend on each other: the
//! holder has them all.
//! *Holds.* One order per user, also when one of the servers forgets what it had granted: the
//! others do not.
//! *Breaks when* one server is down: nobody gets all, nobody buys. And when the holder is
//! stopped between its last look and its write.
//! *Next.* Be content with a majority (r15).

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Awaited, Design, Detail, Point, Purchase, Resources, RungError};
use redisson_lock::{Lease, LockClient, LockOptions, MultiGuard, MultiLock, Owner};
use seckill::store::Keys;

struct AllNodes {
    database: PgPool,
    nodes: Vec<LockClient>,
    keys: Keys,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let node = |redis| LockClient::new(redis, LockOptions::default());
    let nodes: Vec<_> = resources.redis.into_iter().map(node).collect();
    Ok(Box::new(AllNodes { database: resources.database, nodes, keys: resources.keys }))
}

#[async_trait]
impl Design for AllNodes {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let owner = self.nodes.first().ok_or(RungError::Lacks("a Redis"))?.owner();
        self.buy_as(purchase, &owner).await
    }

    async fn shutdown(&self) {
        for node in &self.nodes {
            node.shutdown().await;
        }
    }
}

impl AllNodes {
    async fn buy_as(&self, purchase: &Purchase, owner: &Owner) -> Result<Answer, RungError> {
        let (name, lease) = (self.keys.order_lock(purchase.user), Lease::Renewed(purchase.lease));
        let on = |node: &LockClient| node.lock(name.as_str()).owned_by(owner).lease(lease);
        let lock = MultiLock::new(self.nodes.iter().map(on).collect())?;
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
        purchase.at(Point::Locked, Detail::OnAllNodes(purchase.lease)).await;
        if let Some(inner) = purchase.inner() {
            purchase.at(Point::InnerDone, Box::pin(self.buy_as(&inner, owner)).await?).await;
        }
        let answer = self.place(purchase, &guard).await;
        purchase.at(Point::Releasing, Detail::OnEveryNode).await;
        // What fails here is made good in the background, or by the end of the lease.
        let _ = guard.release().await;
        answer
    }

    async fn place(&self, purchase: &Purchase, guard: &MultiGuard) -> Result<Answer, RungError> {
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
