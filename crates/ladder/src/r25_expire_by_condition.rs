//! *Idea.* Each step is one conditional update, which requires the state before it; the
//! order and the stock change in one transaction, which locks the voucher's row first. What is due
//! stands in the database: anybody's sweep finds it. Money that comes late has one transaction, too:
//! the order lives again, or a refund is written.
//! *Holds.* Everything: of a payment and the end of the time one wins, and the other finds no row. A
//! process that dies leaves a whole step or none, and the next sweep goes on.
//! *Breaks when* the database forgets, as in r18a; nothing that is played here breaks it. The sweep costs
//! the database something, and an order may end one sweep late.
//! *Next.* Nothing is left to mend. Production does the same with many orders a sweep, in functions of the
//! database (`expire_orders`, `judge_payment`).

use async_trait::async_trait;
use sqlx::{PgConnection, PgPool};

use super::{Answer, Design, PaymentNotice, Point, Purchase, Resources, RungError, Work, WorkTurn};
use seckill::model::VoucherId;

struct ExpireByCondition {
    database: PgPool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(ExpireByCondition { database: resources.database }))
}

#[async_trait]
impl Design for ExpireByCondition {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let voucher = purchase.voucher.get();
        let mut transaction = self.database.begin().await?;
        let taken: Option<(i64, i32)> = sqlx::query_as(
            "update seckill_vouchers set stock = stock - 1 where voucher_id = $1 and stock > 0
             returning price, pay_within_s",
        )
        .bind(voucher)
        .fetch_optional(&mut *transaction)
        .await?;
        let Some((price, pay_within_s)) = taken else { return Ok(Answer::SoldOut) };
        let written = sqlx::query_scalar(
            "insert into orders (user_id, voucher_id, status, amount, pay_by)
             values ($1, $2, 1, $3, now() + $4 * interval '1 second')
             on conflict do nothing returning id",
        )
        .bind(purchase.user.get())
        .bind(voucher)
        .bind(price)
        .bind(pay_within_s)
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(order) = written else {
            // Gives back what it took.
            transaction.rollback().await?;
            return Ok(Answer::AlreadyBought);
        };
        purchase.at(Point::Committing, order).await;
        transaction.commit().await?;
        Ok(Answer::Ordered(order))
    }

    async fn pay(&self, notice: &PaymentNotice, work: &Work) -> Result<WorkTurn, RungError> {
        let mut transaction = self.database.begin().await?;
        // A notice that comes again finds its payment here, or waits until it is there.
        let new = sqlx::query_scalar(
            "insert into payments (voucher_id, order_id, number, amount, status, transaction_id,
                                   paid_amount, confirmed_at, created_at)
             select voucher_id, id, 1, amount, 2, $2, amount, now(), now() from orders where id = $1
             on conflict do nothing returning voucher_id",
        )
        .bind(notice.order)
        .bind(&notice.transaction)
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(voucher) = new else {
            // Known already, or money for no order that is here. It is kept once, for a human to look at.
            let unmatched = sqlx::query(
                "insert into unmatched_payments (transaction_id, payment_id, amount, received_at)
                 select $2, $1::text, $3, now()
                 where not exists (select from payments where transaction_id = $2)
                 on conflict do nothing",
            )
            .bind(notice.order)
            .bind(&notice.transaction)
            .bind(notice.amount)
            .execute(&mut *transaction)
            .await?;
            transaction.commit().await?;
            return Ok(match unmatched.rows_affected() {
                0 => WorkTurn::Repeated,
                _ => WorkTurn::Unmatched,
            });
        };
        let paid = sqlx::query(
            "update orders set status = 2, paid_at = now() where id = $1 and status = 1",
        )
        .bind(notice.order)
        .execute(&mut *transaction)
        .await?;
        let turn = match paid.rows_affected() {
            1 => WorkTurn::Paid,
            _ => {
                work.at(Point::PaymentLate, notice.order).await;
                settle_late(&mut transaction, notice.order, voucher).await?
            }
        };
        work.at(Point::Settling, notice.order).await;
        transaction.commit().await?;
        Ok(turn)
    }

    async fn expire(&self, voucher: VoucherId, work: &Work) -> Result<WorkTurn, RungError> {
        let due: Option<i64> = sqlx::query_scalar(
            "select id from orders where voucher_id = $1 and status = 1 and pay_by <= now()
             order by pay_by, id limit 1",
        )
        .bind(voucher.get())
        .fetch_optional(&self.database)
        .await?;
        let Some(order) = due else { return Ok(WorkTurn::Idle) };
        work.at(Point::OrderDue, order).await;
        let mut transaction = self.database.begin().await?;
        lock_voucher(&mut transaction, voucher.get()).await?;
        let cancelled = sqlx::query(
            "update orders set status = 4, cancelled_at = now(), cancelled_by = 3
             where id = $1 and status = 1 and pay_by <= now()",
        )
        .bind(order)
        .execute(&mut *transaction)
        .await?;
        if cancelled.rows_affected() == 0 {
            transaction.rollback().await?;
            return Ok(WorkTurn::Outrun);
        }
        sqlx::query("update seckill_vouchers set stock = stock + 1 where voucher_id = $1")
            .bind(voucher.get())
            .execute(&mut *transaction)
            .await?;
        work.at(Point::Cancelling, order).await;
        transaction.commit().await?;
        Ok(WorkTurn::Cancelled)
    }
}

/// All steps that change the stock lock the voucher's row before they touch an order, as a purchase does:
/// so no two wait for each other.
async fn lock_voucher(transaction: &mut PgConnection, voucher: i64) -> Result<(), RungError> {
    sqlx::query("select from seckill_vouchers where voucher_id = $1 for no key update")
        .bind(voucher)
        .execute(transaction)
        .await?;
    Ok(())
}

/// The one decision about money that comes too late: the order lives again, or the money goes back.
async fn settle_late(
    transaction: &mut PgConnection,
    order: i64,
    voucher: i64,
) -> Result<WorkTurn, RungError> {
    lock_voucher(transaction, voucher).await?;
    let revived = sqlx::query(
        "update orders late
         set status = 2, paid_at = now(), cancelled_at = null, cancelled_by = null
         where id = $1 and status = 4 and cancelled_by = 3
           and exists (select from seckill_vouchers where voucher_id = $2 and stock > 0)
           and not exists (select from orders live
                           where live.voucher_id = $2 and live.user_id = late.user_id
                             and live.status in (1, 2, 3, 5))",
    )
    .bind(order)
    .bind(voucher)
    .execute(&mut *transaction)
    .await?;
    if revived.rows_affected() == 1 {
        sqlx::query("update seckill_vouchers set stock = stock - 1 where voucher_id = $1")
            .bind(voucher)
            .execute(transaction)
            .await?;
        return Ok(WorkTurn::Revived);
    }
    // The key of a refund is its payment's: nobody gets the money back twice.
    sqlx::query(
        "with returned as (
           update payments set status = 4, reason = 'order_cancelled' where order_id = $1
           returning *
         )
         insert into refunds (voucher_id, order_id, number, reason, created_at)
         select voucher_id, order_id, number, reason, now() from returned",
    )
    .bind(order)
    .execute(transaction)
    .await?;
    Ok(WorkTurn::GivenBack)
}
