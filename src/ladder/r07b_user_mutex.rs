//! *Idea.* A mutex per user around the whole transaction: taken before it begins, given back
//! after it has committed.
//! *Holds.* One order per user, as long as there is one process; strangers do not queue for
//! each other.
//! *Breaks when* there are two processes, each with mutexes of its own; when the holder calls
//! code that takes the mutex.
//! *Next.* A lock that all processes see (r08).

use async_trait::async_trait;
use sqlx::PgPool;

use super::turns::Turns;
use super::{Answer, Design, Point, RungError, Shop, Visit};

struct UserMutex {
    database: PgPool,
    turns: Turns,
}

pub(super) async fn build(shop: Shop) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(UserMutex { database: shop.database, turns: Turns::default() }))
}

#[async_trait]
impl Design for UserMutex {
    async fn buy(&self, visit: &Visit) -> Result<Answer, RungError> {
        let turn = self.turns.of(visit.user);
        let turn = visit.waiting("the user's mutex", turn.lock()).await;
        visit.at(Point::Locked, "the user's mutex").await;
        if let Some(inner) = visit.inner() {
            visit.at(Point::InnerDone, self.buy(&inner).await?).await;
        }
        let answer = self.place(visit).await;
        drop(turn);
        answer
    }
}

impl UserMutex {
    async fn place(&self, visit: &Visit) -> Result<Answer, RungError> {
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
