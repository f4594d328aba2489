//! *Idea.* One mutex for the whole process around the whole purchase, as `synchronized(this)`
//! would have it.
//! *Holds.* One order per user, as long as there is one process.
//! *Breaks when* there are two processes, each with a mutex of its own; when the holder calls
//! code that takes the mutex. And it is slow: buyers who have nothing to do with each other
//! queue.
//! *Next.* A mutex per user (r07a): faster, and still of one process.

use async_trait::async_trait;
use sqlx::PgPool;
use tokio::sync::Mutex;

use super::{Answer, Awaited, Design, Detail, Point, Purchase, Resources, RungError};

struct GlobalMutex {
    database: PgPool,
    one_at_a_time: Mutex<()>,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(GlobalMutex { database: resources.database, one_at_a_time: Mutex::new(()) }))
}

#[async_trait]
impl Design for GlobalMutex {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let turn = purchase.waiting(Awaited::Mutex, self.one_at_a_time.lock()).await;
        purchase.at(Point::Locked, Detail::Mutex).await;
        if let Some(inner) = purchase.inner() {
            purchase.at(Point::InnerDone, self.buy(&inner).await?).await;
        }
        let answer = self.place(purchase).await;
        drop(turn);
        answer
    }
}

impl GlobalMutex {
    async fn place(&self, purchase: &Purchase) -> Result<Answer, RungError> {
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
