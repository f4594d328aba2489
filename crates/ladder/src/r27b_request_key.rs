//! *Idea.* Each request carries a key that its client draws once and sends again with every retry. The key
//! is unique in the database, and is written in the order's own transaction.
//! *Holds.* As r18a; and a request that is sent again hears the order of the first, however often and
//! wherever it comes.
//! *Breaks when* the database forgets, as in r18a; nothing that is played here breaks it. A refusal is not
//! remembered: a request that was refused may succeed when it is sent again. Keys have to be forgotten some
//! day, later than the last retry.
//! *Next.* Nothing is left to mend. Production answers "already bought" with the order's number, which says the same
//! to a client that buys one. How often somebody may ask is another matter (r28a).

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Point, Purchase, Resources, RungError};

struct RequestKey {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(RequestKey { database: resources.database }))
}

#[async_trait]
impl Design for RequestKey {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        let (user, key) = (purchase.user.get(), purchase.request.to_string());
        // Where the same request is under way, this waits until its transaction is over.
        let noted = sqlx::query(
            "insert into request_keys (user_id, key) values ($1, $2) on conflict do nothing",
        )
        .bind(user)
        .bind(&key)
        .execute(&mut *transaction)
        .await?;
        if noted.rows_affected() == 0 {
            let order: i64 = sqlx::query_scalar(
                "select order_id from request_keys where user_id = $1 and key = $2",
            )
            .bind(user)
            .bind(&key)
            .fetch_one(&mut *transaction)
            .await?;
            return Ok(Answer::Ordered(order));
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
        sqlx::query("update request_keys set order_id = $3 where user_id = $1 and key = $2")
            .bind(user)
            .bind(&key)
            .bind(order)
            .execute(&mut *transaction)
            .await?;
        purchase.at(Point::Committing, order).await;
        transaction.commit().await?;
        Ok(Answer::Ordered(order))
    }
}
