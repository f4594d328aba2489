//! *Idea.* r18a with the stock in eight rows, the segments (库存分段): a buyer takes from the segment
//! that the user's number picks, so that eight buyers do not queue for one row.
//! *Holds.* The stock, and one order per user: each segment guards its share, and the unique index knows
//! nothing of segments.
//! *Breaks when* a segment is empty and another one is not: its buyers are told "sold out" while vouchers
//! are left. A user who comes again may hear "sold out", too.
//! *Next.* Look into the other segments before saying no (r18c).

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Point, Purchase, Resources, RungError};

/// Rows for one stock.
pub const SEGMENTS: i64 = 8;

struct StockSegments {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(StockSegments { database: resources.database }))
}

#[async_trait]
impl Design for StockSegments {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        // The user's number picks one: as good as chance, and the same again.
        let segment = 1 + (purchase.user.get() - 1) % SEGMENTS;
        let mut transaction = self.database.begin().await?;
        let taken = sqlx::query(
            "update stock_segments set stock = stock - 1
             where voucher_id = $1 and segment = $2 and stock > 0",
        )
        .bind(purchase.voucher.get())
        .bind(segment)
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
