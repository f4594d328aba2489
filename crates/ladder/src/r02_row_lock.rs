//! *Idea.* Pessimistic: lock the row while reading it, so that nobody else reads it until we
//! have committed.
//! *Holds.* Never sells what does not exist.
//! *Breaks when* one user clicks twice: nothing asks for an earlier order. And it is
//! slow: every buyer queues for the row, those for whom nothing is left, too.
//! *Next.* Let the update itself look at the stock (r04): no safer, but faster.

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Point, Purchase, Resources, RungError};

struct RowLock {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(RowLock { database: resources.database }))
}

#[async_trait]
impl Design for RowLock {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        let stock: i32 = sqlx::query_scalar(
            "select stock from seckill_vouchers where voucher_id = $1 for update",
        )
        .bind(purchase.voucher.get())
        .fetch_one(&mut *transaction)
        .await?;
        purchase.at(Point::StockRead, stock).await;
        if stock < 1 {
            return Ok(Answer::SoldOut);
        }
        sqlx::query("update seckill_vouchers set stock = stock - 1 where voucher_id = $1")
            .bind(purchase.voucher.get())
            .execute(&mut *transaction)
            .await?;
        let order = sqlx::query_scalar(
            "insert into orders (user_id, voucher_id) values ($1, $2) returning id",
        )
        .bind(purchase.user.get())
        .bind(purchase.voucher.get())
        .fetch_one(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(Answer::Ordered(order))
    }
}
