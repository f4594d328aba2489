//! *Idea.* Read the stock, and when some is left take one and write the order.
//! *Holds.* As long as buyers come one after another.
//! *Breaks when* two buyers read the same stock before either of them writes: both are sold
//! the last voucher.
//! *Next.* Lock the row (r02), or let the update look again (r03, r04).

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Point, Purchase, Resources, RungError};

struct Naive {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(Naive { database: resources.database }))
}

#[async_trait]
impl Design for Naive {
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
