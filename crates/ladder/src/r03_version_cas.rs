//! *Idea.* Optimistic: write only if the stock is still what was read. The stock is its own
//! version number.
//! *Holds.* Never sells what does not exist.
//! *Breaks when* a crowd reads the same stock: the first to write makes all the others fail,
//! who are sent away though there is plenty left.
//! *Next.* Ask not whether the stock is unchanged, but whether there is some (r04).

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Point, Purchase, Resources, RungError};

struct VersionCas {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(VersionCas { database: resources.database }))
}

#[async_trait]
impl Design for VersionCas {
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
            "update seckill_vouchers set stock = stock - 1 where voucher_id = $1 and stock = $2",
        )
        .bind(purchase.voucher.get())
        .bind(stock)
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
