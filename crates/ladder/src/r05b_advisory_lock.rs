//! *Idea.* A lock per user that PostgreSQL keeps in the writer's own transaction: it is the first
//! statement, and ends with the commit, the rollback, or the connection.
//! *Holds.* One order per user, in any number of processes, without a lease: the lock and the write are
//! one transaction, so that a dead holder has neither, and a stopped one still has both.
//! *Breaks when* the holder calls code that takes the lock in a transaction of its own: that waits for
//! ever. And each request that waits keeps a database connection: many requests of a few users leave
//! none to the others.
//! *Next.* Have them wait outside the database (r06), which keeps the promise in one process only.

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError};

struct AdvisoryLock {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(AdvisoryLock { database: resources.database }))
}

#[async_trait]
impl Design for AdvisoryLock {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        // Read committed: the count below sees what was committed while this waited. With repeatable
        // read it would see what was there before.
        sqlx::query("select pg_advisory_xact_lock($1)")
            .bind(purchase.user.get())
            .execute(&mut *transaction)
            .await?;
        purchase.at(Point::Locked, Detail::UntilTransactionEnds).await;
        if let Some(inner) = purchase.inner() {
            purchase.at(Point::InnerDone, self.buy(&inner).await?).await;
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
