//! *Idea.* A draw (抽签): buyers enter while entries are open, and each entry has an id. Then one step closes the entries
//! and sorts them by a hash of the sale's seed and their ids; the first of them get orders.
//! *Holds.* The winner does not depend on who came first: the same seed and the same entries have the same winners, in
//! whatever order they came.
//! *Breaks when* somebody has a thousand accounts, which are a thousand entries; or knows the seed and may choose ids. No
//! schedule shows either. And nobody has a voucher before the draw.
//! *Next.* What winners do not pay for comes back, and is for those who wait: a line (r31a).

use async_trait::async_trait;
use sqlx::PgPool;

use super::{Answer, Design, Detail, Point, Purchase, Resources, RungError, Work, WorkTurn};
use seckill::model::VoucherId;

struct Draw {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(Draw { database: resources.database }))
}

#[async_trait]
impl Design for Draw {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        // All who enter share the row; the draw waits for them. A buyer may enter again.
        let entered = sqlx::query(
            "insert into entries (voucher_id, id, user_id, entered_at)
             select voucher_id, $2, $3, now() from seckill_vouchers
             where voucher_id = $1 and held_for = 1 for share
             on conflict (voucher_id, user_id) where status = 1 do update set status = 1",
        )
        .bind(purchase.voucher.get())
        .bind(purchase.request)
        .bind(purchase.user.get())
        .execute(&mut *transaction)
        .await?;
        if entered.rows_affected() == 0 {
            return Ok(Answer::Refused);
        }
        purchase.at(Point::Entering, Detail::Nothing).await;
        transaction.commit().await?;
        Ok(Answer::Entered)
    }

    async fn expire(&self, voucher: VoucherId, _work: &Work) -> Result<WorkTurn, RungError> {
        let mut transaction = self.database.begin().await?;
        let closed = sqlx::query(
            "update seckill_vouchers set held_for = 0 where voucher_id = $1 and held_for = 1",
        )
        .bind(voucher.get())
        .execute(&mut *transaction)
        .await?;
        if closed.rows_affected() == 0 {
            return Ok(WorkTurn::Idle);
        }
        // A statement of its own sees all who entered while the one before it waited.
        sqlx::query(
            "with drawn as (
               select e.id, user_id, row_number() over (
                 order by sha256(convert_to(draw_seed || ':' || e.id, 'UTF8'))) as place
               from entries e join vouchers v on v.id = voucher_id where voucher_id = $1
             ), placed as (
               insert into orders (user_id, voucher_id)
               select user_id, $1 from drawn
               where place <= (select stock from seckill_vouchers where voucher_id = $1)
               order by place returning id, user_id
             ), served as (
               update entries set status = 2, order_id = placed.id, ended_at = now()
               from placed where voucher_id = $1 and entries.user_id = placed.user_id
             )
             update seckill_vouchers set stock = stock - (select count(*) from placed)
             where voucher_id = $1",
        )
        .bind(voucher.get())
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(WorkTurn::Drawn)
    }
}
