//! *Idea.* r23a and r19 in one: the purchases that wait together are one transaction, the orders and their
//! rows in the outbox (本地消息表) together. The batch locks the voucher's row first, so that it sees every
//! order that another process has committed. The relay is that of r23a.
//! *Holds.* Everything, as r23a, and faster the greater the crowd.
//! *Breaks when* an asynchronous standby of the database is promoted, as in r18a. A consumer has to be
//! idempotent, as after r23a, and the relay, a row a turn, falls behind a crowd: nothing is lost, only late.
//! *Next.* Nothing is left to mend: `docs/ladder/asynchronous.md` says when an asynchronous design is worth it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use group_commit::{Batcher, Limits};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::entry::{GROUP, OrderEntry};
use super::{Answer, Awaited, Design, Point, Purchase, Resources, RungError, Work, WorkTurn};
use redis_link::Redis;

/// An entry in the hands of somebody for so long is in nobody's.
const IDLE: Duration = Duration::from_secs(30);

/// One batch at a time: two of a process would queue for the same row.
const LIMITS: Limits = Limits::batches_of(512).waiting(65_536);

/// What a user wants.
#[derive(Debug, Clone, Copy)]
struct Wish {
    user: i64,
    voucher: i64,
}

struct BatchedOutbox {
    batches: Batcher<Wish, Answer, Arc<sqlx::Error>>,
    database: PgPool,
    redis: Redis,
    stream: String,
    consumer: String,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let (redis, database) = (resources.first_redis()?, resources.database);
    let stream = resources.queue_keys.stream();
    let own = (database.clone(), stream.clone());
    let batches = Batcher::new(LIMITS, move |wishes: Vec<Wish>| {
        let (database, stream) = own.clone();
        async move { sell(&database, &stream, &wishes).await.map_err(Arc::new) }
    });
    let consumer = Uuid::new_v4().to_string();
    Ok(Box::new(BatchedOutbox { batches, database, redis, stream, consumer }))
}

/// All of them in one transaction: an answer for each.
async fn sell(database: &PgPool, stream: &str, wishes: &[Wish]) -> sqlx::Result<Vec<Answer>> {
    let mut by_voucher: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (nth, wish) in wishes.iter().enumerate() {
        by_voucher.entry(wish.voucher).or_default().push(nth);
    }
    let mut answers = vec![Answer::SoldOut; wishes.len()];
    let mut transaction = database.begin().await?;
    // In the same order in every process: no two batches wait for each other.
    for (voucher, wanted) in by_voucher {
        let users: Vec<i64> = wanted.iter().map(|nth| wishes[*nth].user).collect();
        let told = sell_voucher(&mut transaction, stream, voucher, &users).await?;
        for (nth, answer) in wanted.into_iter().zip(told) {
            answers[nth] = answer;
        }
    }
    transaction.commit().await?;
    Ok(answers)
}

/// One voucher to these users, some of whom may be the same.
async fn sell_voucher(
    transaction: &mut PgConnection,
    stream: &str,
    voucher: i64,
    users: &[i64],
) -> sqlx::Result<Vec<Answer>> {
    let stock: i32 =
        sqlx::query_scalar("select stock from seckill_vouchers where voucher_id = $1 for update")
            .bind(voucher)
            .fetch_one(&mut *transaction)
            .await?;
    // A statement of its own: it sees what was committed before the row was ours.
    let owners: Vec<i64> = sqlx::query_scalar(
        "select user_id from orders where voucher_id = $1 and user_id = any($2)",
    )
    .bind(voucher)
    .bind(users)
    .fetch_all(&mut *transaction)
    .await?;
    let mut known: HashSet<i64> = owners.iter().copied().collect();
    let is_new = |user: &i64| known.insert(*user);
    let buyers: Vec<i64> =
        users.iter().copied().filter(is_new).take(stock.max(0) as usize).collect();
    let written: Vec<(i64, i64)> = sqlx::query_as(
        "with written as (
           insert into orders (user_id, voucher_id) select unnest($1::bigint[]), $2
           returning user_id, id
         ), told as (
           insert into outbox (order_id, stream) select id, $3 from written
         ), taken as (
           update seckill_vouchers set stock = stock - cardinality($1) where voucher_id = $2
         )
         select user_id, id from written",
    )
    .bind(&buyers)
    .bind(voucher)
    .bind(stream)
    .fetch_all(&mut *transaction)
    .await?;
    let mut has: HashMap<i64, Answer> =
        written.into_iter().map(|(user, order)| (user, Answer::Ordered(order))).collect();
    has.extend(owners.into_iter().map(|user| (user, Answer::AlreadyBought)));
    // A second wish of one user finds the first one's order.
    let told = users.iter().map(|user| match has.get_mut(user) {
        Some(answer) => std::mem::replace(answer, Answer::AlreadyBought),
        None => Answer::SoldOut,
    });
    Ok(told.collect())
}

#[async_trait]
impl Design for BatchedOutbox {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let wish = Wish { user: purchase.user.get(), voucher: purchase.voucher.get() };
        Ok(purchase.waiting(Awaited::Batch, self.batches.submit(wish)).await?)
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

impl BatchedOutbox {
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
