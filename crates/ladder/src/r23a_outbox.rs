//! *Idea.* The transactional outbox (本地消息表, the local message table): the database decides, as in
//! production; the order and a row in an outbox are one transaction. A relay puts the row into a stream,
//! whose consumers do what comes after: the payment, a mail. The row goes when that is done.
//! *Holds.* Everything; nobody is told yes before the commit, and nothing that comes after is
//! ever lost, whatever Redis forgets.
//! *Breaks when* a consumer is not idempotent: a relay that dies between publishing and marking
//! publishes twice. The payment looks whether it was begun; the mail is sent again. When an asynchronous standby of
//! the database is promoted, as in r18a.
//! *Next.* Put many purchases, each with its row, into one transaction (r23b).

// A turn of the relay publishes the oldest row that was not published; where there is none, it does what comes after
// one order; where it finds nothing to do, it publishes again a row that was published half a minute ago: Redis may
// have lost it.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::PgPool;
use uuid::Uuid;

use super::entry::{GROUP, OrderEntry};
use super::{Answer, Design, Point, Purchase, Resources, RungError, Work, WorkTurn};
use redis_link::Redis;

/// An entry in the hands of somebody for so long is in nobody's.
const IDLE: Duration = Duration::from_secs(30);

struct Outbox {
    database: PgPool,
    redis: Redis,
    stream: String,
    consumer: String,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(Outbox {
        database: resources.database,
        redis,
        stream: resources.queue_keys.stream(),
        consumer: Uuid::new_v4().to_string(),
    }))
}

#[async_trait]
impl Design for Outbox {
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
            "insert into orders (user_id, voucher_id) values ($1, $2)
             on conflict do nothing returning id",
        )
        .bind(purchase.user.get())
        .bind(purchase.voucher.get())
        .fetch_optional(&mut *transaction)
        .await?;
        // Dropped, the transaction gives back what it took.
        let Some(order) = written else { return Ok(Answer::AlreadyBought) };
        sqlx::query("insert into outbox (order_id, stream) values ($1, $2)")
            .bind(order)
            .bind(&self.stream)
            .execute(&mut *transaction)
            .await?;
        purchase.at(Point::Committing, order).await;
        transaction.commit().await?;
        Ok(Answer::Ordered(order))
    }

    async fn start_consumer(&self) -> Result<(), RungError> {
        let mut create = redis::cmd("XGROUP");
        create.arg("CREATE").arg(&self.stream).arg(GROUP).arg("0").arg("MKSTREAM");
        // What fails is that the group is there already.
        let _ = self.redis.query::<()>(&create).await;
        Ok(())
    }

    async fn write_next(&self, work: &Work) -> Result<WorkTurn, RungError> {
        if self.relay(work, false).await? {
            return Ok(WorkTurn::Published);
        }
        let turn = self.follow_up(work).await?;
        // Again only when nothing is left to follow up: what waits there is not lost.
        match turn == WorkTurn::Idle && self.relay(work, true).await? {
            true => Ok(WorkTurn::Published),
            false => Ok(turn),
        }
    }
}

impl Outbox {
    /// Publishes the oldest order that is not published; with `again` also one that was published
    /// long ago and is not done with: Redis may have lost it.
    async fn relay(&self, work: &Work, again: bool) -> Result<bool, RungError> {
        let mut transaction = self.database.begin().await?;
        let oldest: Option<i64> = sqlx::query_scalar(
            "select order_id from outbox where stream = $1
               and (published_at is null or $2 and published_at < now() - interval '30 s')
             order by published_at nulls first, order_id limit 1 for update skip locked",
        )
        .bind(&self.stream)
        .bind(again)
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(order) = oldest else { return Ok(false) };
        work.at(Point::EntryRead, order).await;
        let mut add = redis::cmd("XADD");
        add.arg(&self.stream).arg("*").arg("order").arg(order);
        self.redis.query::<()>(&add).await?;
        work.at(Point::Published, order).await;
        sqlx::query("update outbox set published_at = now() where order_id = $1")
            .bind(order)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// What comes after an order: one consumer that is idempotent, and one that is not.
    async fn follow_up(&self, work: &Work) -> Result<WorkTurn, RungError> {
        let Some(entry) = self.read().await? else { return Ok(WorkTurn::Idle) };
        let order = entry.number("order").ok_or(RungError::NoOrder)?;
        work.at(Point::EntryRead, order).await;
        let mut transaction = self.database.begin().await?;
        for what in [
            "insert into payments_begun (order_id) values ($1) on conflict do nothing",
            "insert into mails (order_id) values ($1)",
            "delete from outbox where order_id = $1",
        ] {
            sqlx::query(what).bind(order).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        work.at(Point::Acknowledging, order).await;
        for done in ["XACK", "XDEL"] {
            let mut command = redis::cmd(done);
            command.arg(&self.stream).arg((done == "XACK").then_some(GROUP)).arg(&entry.id);
            self.redis.query::<()>(&command).await?;
        }
        Ok(WorkTurn::FollowedUp)
    }

    /// A new entry, or one that a consumer has had in hand for so long that it is in nobody's.
    async fn read(&self) -> Result<Option<OrderEntry>, RungError> {
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg(GROUP).arg(&self.consumer).arg("COUNT").arg(1);
        read.arg("STREAMS").arg(&self.stream).arg(">");
        if let Some(entry) = OrderEntry::first_read(self.redis.query(&read).await?) {
            return Ok(Some(entry));
        }
        let mut claim = redis::cmd("XAUTOCLAIM");
        claim.arg(&self.stream).arg(GROUP).arg(&self.consumer).arg(IDLE.as_millis() as u64);
        claim.arg("0").arg("COUNT").arg(1);
        Ok(OrderEntry::first_claimed(self.redis.query(&claim).await?))
    }
}
