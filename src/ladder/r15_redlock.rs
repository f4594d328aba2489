//! *Idea.* RedLock: the lock on a majority of several Redis servers, for as long as is left of
//! the lease, less what the clocks may have drifted.
//! *Holds.* One order per user, also when one of the servers is down.
//! *Breaks when* a server of the majority forgets (restarted empty, its clock leapt): with one
//! that had missed the first grant it makes another majority. And when the holder is stopped
//! between its last look and its write. Nor may the holder take it again.
//! *Next.* Let the database refuse who is late (r16).

use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Point, RungError, Shop, Visit};
use crate::lock::{Lease, LockClient, LockOptions, QuorumGuard, RedLock, RedLockOptions};
use crate::store::Keys;

/// How long a second request of a user waits for the first.
const PATIENCE: Duration = Duration::from_secs(20);

struct Majority {
    database: PgPool,
    nodes: Vec<LockClient>,
    locks: RedLock,
    keys: Keys,
}

pub(super) async fn build(shop: Shop) -> Result<Box<dyn Design>, RungError> {
    let node = |redis| LockClient::new(redis, LockOptions::default());
    let nodes: Vec<_> = shop.redis.into_iter().map(node).collect();
    let locks = RedLock::new(nodes.clone(), RedLockOptions::default())?;
    Ok(Box::new(Majority { database: shop.database, nodes, locks, keys: shop.keys }))
}

#[async_trait]
impl Design for Majority {
    async fn buy(&self, visit: &Visit) -> Result<Answer, RungError> {
        let lock = self.locks.lock(self.keys.order_lock(visit.user));
        let lock = lock.lease(Lease::Renewed(visit.lease));
        let guard = match lock.try_acquire().await? {
            Some(guard) => guard,
            None => {
                visit.at(Point::Missed, "it will hear of the release").await;
                match visit.waiting("the release", lock.acquire_within(PATIENCE)).await? {
                    Some(guard) => guard,
                    None => return Ok(Answer::InProgress),
                }
            }
        };
        let lease_ms = visit.lease.as_millis();
        visit
            .at(Point::Locked, format!("on {} nodes, for {lease_ms} ms, renewed", guard.granted()))
            .await;
        if let Some(inner) = visit.inner() {
            visit.at(Point::InnerDone, self.buy(&inner).await?).await;
        }
        let answer = self.place(visit, &guard).await;
        visit.at(Point::Releasing, "on every node").await;
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
    async fn place(&self, visit: &Visit, guard: &QuorumGuard) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        let orders: i64 = sqlx::query_scalar(
            "select count(*) from orders where user_id = $1 and voucher_id = $2",
        )
        .bind(visit.user.get())
        .bind(visit.voucher.get())
        .fetch_one(&mut *transaction)
        .await?;
        visit.at(Point::OrdersCounted, orders).await;
        if orders > 0 {
            return Ok(Answer::AlreadyBought);
        }
        if guard.is_lost() {
            return Err(RungError::LockLost);
        }
        visit.at(Point::LastCheck, "it is").await;
        let taken = sqlx::query(
            "update seckill_vouchers set stock = stock - 1 where voucher_id = $1 and stock > 0",
        )
        .bind(visit.voucher.get())
        .execute(&mut *transaction)
        .await?;
        if taken.rows_affected() == 0 {
            return Ok(Answer::SoldOut);
        }
        let order: i64 = sqlx::query_scalar(
            "insert into orders (user_id, voucher_id) values ($1, $2) returning id",
        )
        .bind(visit.user.get())
        .bind(visit.voucher.get())
        .fetch_one(&mut *transaction)
        .await?;
        visit.at(Point::Committing, order).await;
        transaction.commit().await?;
        Ok(Answer::Ordered(order))
    }
}
