//! *Idea.* A mutex per user around the whole transaction: taken before it begins, given back
//! after it has committed.
//! *Holds.* One order per user, as long as there is one process; strangers do not queue for
//! each other.
//! *Breaks when* there are two processes, each with mutexes of its own; when the holder calls
//! code that takes the mutex.
//! *Next.* A lock that all processes see (r08a).

use async_trait::async_trait;
use sqlx::PgPool;

use super::user_mutexes::UserMutexes;
use super::{Answer, Awaited, Design, Detail, Point, Purchase, Resources, RungError};

struct UserMutex {
    database: PgPool,
    user_mutexes: UserMutexes,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(UserMutex { database: resources.database, user_mutexes: UserMutexes::default() }))
}

#[async_trait]
impl Design for UserMutex {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let turn = self.user_mutexes.of(purchase.user);
        let turn = purchase.waiting(Awaited::UserMutex, turn.lock()).await;
        purchase.at(Point::Locked, Detail::UserMutex).await;
        if let Some(inner) = purchase.inner() {
            purchase.at(Point::InnerDone, self.buy(&inner).await?).await;
        }
        let answer = self.place(purchase).await;
        drop(turn);
        answer
    }
}

impl UserMutex {
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
