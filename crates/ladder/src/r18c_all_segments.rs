//! *Idea.* As r18b, and a buyer whose segment is empty looks into the others, in turn, before being told
//! "sold out".
//! *Holds.* Everything, as long as nothing is given back: buyers wait in no circle.
//! *Breaks when* one transaction gives back two vouchers: a buyer and it wait for each other. And each refusal asks
//! eight rows instead of one; all of them share one server's log and processors.
//! *Next.* Group commit (r19): one row, and one commit for many.

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Point, Purchase, Resources, RungError, SEGMENTS};

struct AllSegments {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(AllSegments { database: resources.database }))
}

#[async_trait]
impl Design for AllSegments {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        let mut is_taken = false;
        // From the user's own segment on, until one of them has something.
        for step in 0..SEGMENTS {
            let segment = 1 + (purchase.user.get() - 1 + step) % SEGMENTS;
            let taken = sqlx::query(
                "update stock_segments set stock = stock - 1
                 where voucher_id = $1 and segment = $2 and stock > 0",
            )
            .bind(purchase.voucher.get())
            .bind(segment)
            .execute(&mut *transaction)
            .await?;
            is_taken = taken.rows_affected() == 1;
            if is_taken {
                break;
            }
        }
        if !is_taken {
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
