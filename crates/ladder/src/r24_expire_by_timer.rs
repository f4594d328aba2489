//! *Idea.* An order has to be paid within a time. As widely taught: a timer in this process
//! (`DelayQueue`, `HashedWheelTimer`; or a key that expires in Redis, with a notification) says that the
//! time is over. The order is read; if it is unpaid it is cancelled, and then its voucher is given back.
//! The payment handler, too, reads "unpaid" and then writes "paid".
//! *Holds.* One live order per user: the unique index of r18a stays.
//! *Breaks when* the process dies: its timers are forgotten, and the stock is stuck for ever.
//! When a payment and the end of the time both read "unpaid": both win. When a payment comes late: the money
//! is taken for an order that is gone, and nobody gives it back.
//! *Next.* Let the write require the state before it, and the database say what is due (r25).

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgPool;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Answer, Design, PaymentNotice, Point, Purchase, Resources, RungError, Work, WorkTurn};
use seckill::model::VoucherId;

struct Timer {
    goes_off: Instant,
    order: i64,
    voucher: i64,
}

struct ExpireByTimer {
    database: PgPool,
    timers: Mutex<VecDeque<Timer>>,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    Ok(Box::new(ExpireByTimer { database: resources.database, timers: Mutex::default() }))
}

#[async_trait]
impl Design for ExpireByTimer {
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
        let pay_within = Duration::from_secs(pay_within_s.unsigned_abs().into());
        let timer = Timer { goes_off: Instant::now() + pay_within, order, voucher };
        self.timers.lock().await.push_back(timer);
        Ok(Answer::Ordered(order))
    }

    async fn pay(&self, notice: &PaymentNotice, work: &Work) -> Result<WorkTurn, RungError> {
        if !self.is_unpaid(notice.order).await? {
            // A line in a log, and that is all.
            return Ok(WorkTurn::TooLate);
        }
        work.at(Point::UnpaidRead, notice.order).await;
        sqlx::query("update orders set status = 2, paid_at = now() where id = $1")
            .bind(notice.order)
            .execute(&self.database)
            .await?;
        Ok(WorkTurn::Paid)
    }

    async fn expire(&self, voucher: VoucherId, work: &Work) -> Result<WorkTurn, RungError> {
        let next = {
            let mut timers = self.timers.lock().await;
            let place = timers.iter().position(|timer| timer.voucher == voucher.get());
            place.and_then(|place| timers.remove(place))
        };
        let Some(Timer { goes_off, order, voucher }) = next else { return Ok(WorkTurn::Idle) };
        work.sleep_until(goes_off).await;
        if !self.is_unpaid(order).await? {
            return Ok(WorkTurn::Outrun);
        }
        work.at(Point::OrderDue, order).await;
        sqlx::query(
            "update orders set status = 4, cancelled_at = now(), cancelled_by = 3 where id = $1",
        )
        .bind(order)
        .execute(&self.database)
        .await?;
        work.at(Point::Cancelled, order).await;
        sqlx::query("update seckill_vouchers set stock = stock + 1 where voucher_id = $1")
            .bind(voucher)
            .execute(&self.database)
            .await?;
        Ok(WorkTurn::Cancelled)
    }
}

impl ExpireByTimer {
    async fn is_unpaid(&self, order: i64) -> Result<bool, RungError> {
        let status: i16 = sqlx::query_scalar("select status from orders where id = $1")
            .bind(order)
            .fetch_one(&self.database)
            .await?;
        Ok(status == 1)
    }
}
