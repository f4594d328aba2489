//! *Idea.* A line (候补) for vouchers that come back: whoever finds nothing stands in line. A job ends orders that were not
//! paid, and gives their vouchers back; then it looks who is first in line, and offers that buyer an order.
//! *Holds.* Stock and one order per user: the offer takes from the stock as any purchase does.
//! *Breaks when* somebody buys between the look and the offer. The voucher is on sale for everybody as soon as it is given
//! back, and whoever asks all the time has it. The first in line is passed.
//! *Next.* Say in the row whom it is held for, and give back and offer in one transaction (r31b).

use async_trait::async_trait;
use sqlx::{PgConnection, PgPool};

use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError, Work, WorkTurn, line};
use seckill::model::VoucherId;

struct LineByCheck {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(LineByCheck { database: resources.database }))
}

#[async_trait]
impl Design for LineByCheck {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let (voucher, user) = (purchase.voucher.get(), purchase.user.get());
        let mut transaction = self.database.begin().await?;
        if let Some(order) = sell(&mut transaction, voucher, user).await? {
            purchase.at(Point::Committing, order).await;
            transaction.commit().await?;
            return Ok(Answer::Ordered(order));
        }
        if !line::enter(&mut transaction, voucher, user).await? {
            return Ok(Answer::AlreadyBought);
        }
        purchase.at(Point::Entering, Detail::Nothing).await;
        transaction.commit().await?;
        Ok(Answer::InLine)
    }

    async fn expire(&self, voucher: VoucherId, work: &Work) -> Result<WorkTurn, RungError> {
        let voucher = voucher.get();
        let mut transaction = self.database.begin().await?;
        line::lock(&mut transaction, voucher).await?;
        let ended = line::give_back(&mut transaction, voucher).await?;
        // On sale again, for everybody.
        transaction.commit().await?;
        let mut transaction = self.database.begin().await?;
        let Some((user, place)) = line::first(&mut transaction, voucher).await? else {
            return Ok(ended);
        };
        work.at(Point::FirstInLine, Detail::PlaceInLine(place)).await;
        if sell(&mut transaction, voucher, user).await?.is_none() {
            return Ok(WorkTurn::NothingToOffer);
        }
        transaction.commit().await?;
        Ok(WorkTurn::Offered)
    }
}

/// An order for the user, where a voucher is there; the user's place in line is served by it. `None` where nothing is
/// there, or the user has an order: then nothing is committed.
async fn sell(connection: &mut PgConnection, voucher: i64, user: i64) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar(
        "with taken as (
           update seckill_vouchers set stock = stock - 1
           where voucher_id = $1 and stock > 0 returning voucher_id
         ), placed as (
           insert into orders (user_id, voucher_id, status, pay_by)
           select $2, voucher_id, 1, now() + interval '15 minutes' from taken
           on conflict do nothing returning id
         ), served as (
           update entries set status = 2, order_id = placed.id, ended_at = now()
           from placed where voucher_id = $1 and user_id = $2 and status = 1
         )
         select id from placed",
    )
    .bind(voucher)
    .bind(user)
    .fetch_optional(connection)
    .await
}
