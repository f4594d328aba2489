//! *Idea.* r18a with clients that send a request again when its answer does not come, as every client,
//! gateway and load balancer does sooner or later.
//! *Holds.* The stock, and one order per user: the constraints do not mind how often somebody asks.
//! *Breaks when* the answer to a purchase that succeeded is lost: the request that is sent again hears "already
//! bought", and its client cannot know whether that is its own order, or whether it may tell its user yes.
//! *Next.* Give each request a key, and remember what came of it (r27b).

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Point, Purchase, Resources, RungError};

struct Retry {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(Retry { database: resources.database }))
}

#[async_trait]
impl Design for Retry {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        let taken = sqlx::query(
            "update seckill_vouchers set stock = stock - 1 where voucher_id = $1 and stock > 0",
        )
        .bind(purchase.voucher.get())
        .execute(&mut *transaction)
        .await?;
        if taken.rows_affected() == 0 {
            return Ok(Answer::SoldOut);
        }
        let written = sqlx::query_scalar(
            "insert into orders (user_id, voucher_id) values ($1, $2) returning id",
        )
        .bind(purchase.user.get())
        .bind(purchase.voucher.get())
        .fetch_one(&mut *transaction)
        .await;
        let order: i64 = match written {
            // Dropped, the transaction gives back what it took.
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                return Ok(Answer::AlreadyBought);
            }
            written => written?,
        };
        purchase.at(Point::Committing, order).await;
        transaction.commit().await?;
        Ok(Answer::Ordered(order))
    }
}
