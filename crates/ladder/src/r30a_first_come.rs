//! *Idea.* First come, first served: the guarded update of r18a, and the unique index. The first who reaches the row has
//! the voucher.
//! *Holds.* Stock and one order per user, as in r18a.
//! *Breaks when* somebody asks who wins: the first to arrive, and so whoever has the shortest way or runs a program. No
//! rule of the sale says so; the order of arrival does.
//! *Next.* Let everybody enter for an hour, and draw (r30b).

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Point, Purchase, Resources, RungError};

struct FirstCome {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(FirstCome { database: resources.database }))
}

#[async_trait]
impl Design for FirstCome {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        let placed = sqlx::query_scalar(
            "with taken as (
               update seckill_vouchers set stock = stock - 1
               where voucher_id = $2 and stock > 0 returning voucher_id
             )
             insert into orders (user_id, voucher_id)
             select $1, voucher_id from taken returning id",
        )
        .bind(purchase.user.get())
        .bind(purchase.voucher.get())
        .fetch_optional(&mut *transaction)
        .await;
        let order: i64 = match placed {
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                return Ok(Answer::AlreadyBought);
            }
            placed => match placed? {
                Some(order) => order,
                None => return Ok(Answer::SoldOut),
            },
        };
        purchase.at(Point::Committing, order).await;
        transaction.commit().await?;
        Ok(Answer::Ordered(order))
    }
}
