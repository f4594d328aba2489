//! *Idea.* Optimistic: write only if some stock is left, whatever it was when it was read.
//! *Holds.* Sells all there is, and nothing else.
//! *Breaks when* one user clicks twice: nothing asks for an earlier order.
//! *Next.* Ask before selling (r05a): that refuses a user who comes back later, and stops no double click.

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Point, Purchase, Resources, RungError};

struct StockGuard {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(StockGuard { database: resources.database }))
}

#[async_trait]
impl Design for StockGuard {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        let stock: i32 =
            sqlx::query_scalar("select stock from seckill_vouchers where voucher_id = $1")
                .bind(purchase.voucher.get())
                .fetch_one(&mut *transaction)
                .await?;
        purchase.at(Point::StockRead, stock).await;
        if stock < 1 {
            return Ok(Answer::SoldOut);
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
