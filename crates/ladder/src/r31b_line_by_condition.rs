//! *Idea.* The line of r31a, and the voucher's row says whom it is held for: nobody buys past a line. One transaction ends
//! an order, gives its voucher back and offers it to the first in line; it has the row from the beginning.
//! *Holds.* Nobody behind is served before one ahead, whoever comes when, and whichever process offers.
//! *Breaks when* nothing breaks it. It costs a lock of the row for each place in line; and who is offered a voucher and
//! does not pay holds it up for that time.
//! *Next.* Nothing is left to mend. Production does the same with many places at once, in functions of the database
//! (`offer_to_line`, `mark_line`).

use async_trait::async_trait;
use sqlx::{PgConnection, PgPool};

use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError, Work, WorkTurn, line};
use seckill::model::VoucherId;

struct LineByCondition {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(LineByCondition { database: resources.database }))
}

#[async_trait]
impl Design for LineByCondition {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let (voucher, user) = (purchase.voucher.get(), purchase.user.get());
        let mut transaction = self.database.begin().await?;
        if let Some(order) = sell(&mut transaction, voucher, user, false).await? {
            purchase.at(Point::Committing, order).await;
            transaction.commit().await?;
            return Ok(Answer::Ordered(order));
        }
        line::lock(&mut transaction, voucher).await?;
        if !line::enter(&mut transaction, voucher, user).await? {
            return Ok(Answer::AlreadyBought);
        }
        mark_line(&mut transaction, voucher).await?;
        purchase.at(Point::Entering, Detail::Nothing).await;
        transaction.commit().await?;
        Ok(Answer::InLine)
    }

    async fn expire(&self, voucher: VoucherId, work: &Work) -> Result<WorkTurn, RungError> {
        let voucher = voucher.get();
        let mut transaction = self.database.begin().await?;
        line::lock(&mut transaction, voucher).await?;
        let mut turn = line::give_back(&mut transaction, voucher).await?;
        if let Some((user, place)) = line::first(&mut transaction, voucher).await? {
            work.at(Point::FirstInLine, Detail::PlaceInLine(place)).await;
            sell(&mut transaction, voucher, user, true).await?;
            mark_line(&mut transaction, voucher).await?;
            turn = WorkTurn::Offered;
        }
        transaction.commit().await?;
        Ok(turn)
    }
}

/// An order for the user, where a voucher is there and not held for others; the user's place in line is served by it.
/// `None` where that is not so, or the user has an order: then nothing is committed.
async fn sell(
    connection: &mut PgConnection,
    voucher: i64,
    user: i64,
    is_first: bool,
) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar(
        "with taken as (
           update seckill_vouchers set stock = stock - 1
           where voucher_id = $1 and stock > 0 and (held_for = 0 or $3) returning voucher_id
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
    .bind(is_first)
    .fetch_optional(connection)
    .await
}

/// What there is, is held for those who stand in line, where anybody does.
async fn mark_line(connection: &mut PgConnection, voucher: i64) -> sqlx::Result<()> {
    let held = "update seckill_vouchers set held_for = case when exists (
                  select from entries where voucher_id = $1 and status = 1) then 2 else 0 end
                where voucher_id = $1";
    sqlx::query(held).bind(voucher).execute(connection).await.map(drop)
}
