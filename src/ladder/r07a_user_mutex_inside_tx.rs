//! *Idea.* A mutex per user, taken inside the transaction: what `@Transactional` on the method
//! and `synchronized` in its body amount to.
//! *Holds.* Almost always, which is why it is so often shipped.
//! *Breaks when* the second click enters between the release and the commit: it cannot see
//! the order that is not committed yet.
//! *Next.* Commit first, then release (r07b).

use async_trait::async_trait;
use sqlx::PgPool;

use super::turns::Turns;
use super::{Answer, Design, Point, RungError, Shop, Visit};

struct UserMutexInsideTx {
    database: PgPool,
    turns: Turns,
}

pub(super) async fn build(shop: Shop) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(UserMutexInsideTx { database: shop.database, turns: Turns::default() }))
}

#[async_trait]
impl Design for UserMutexInsideTx {
    async fn buy(&self, visit: &Visit) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        let turn = self.turns.of(visit.user);
        let turn = visit.waiting("the user's mutex", turn.lock()).await;
        visit.at(Point::Locked, "the user's mutex").await;
        if let Some(inner) = visit.inner() {
            visit.at(Point::InnerDone, self.buy(&inner).await?).await;
        }
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
        drop(turn);
        visit.at(Point::Committing, order).await;
        transaction.commit().await?;
        Ok(Answer::Ordered(order))
    }
}
