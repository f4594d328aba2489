//! *Idea.* As r21a, and the consumer writes in batches: whatever entries have come, up to 256, go into one
//! transaction, which locks each voucher's row once. Every process has a name of its own, and claims what another
//! one has left.
//! *Holds.* The stock, and one order per user, also when an entry comes twice: the transaction leaves out
//! users who have an order.
//! *Breaks when* one entry of a batch can never be written: the whole batch fails with it, again and again.
//! When Redis loses the stream, or sells what the database refuses. While Redis is down nobody buys.
//! *Next.* Put aside what fails too often, and let the buyer ask what became of it (r22).

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use redis_link::LuaScript;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::entry::{GROUP, OrderEntry, QueuedOrder};
use super::queue_keys::QueueKeys;
use super::{Answer, Design, Point, Purchase, Resources, RungError, Work, WorkTurn};
use redis_link::{Redis, ScriptCall};
use seckill::model::VoucherId;

static TAKE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/take_and_queue.lua")));

/// An entry in the hands of somebody for so long is in nobody's.
const IDLE: Duration = Duration::from_secs(30);

/// Entries of one transaction at most.
const BATCH: usize = 256;

struct BatchedConsumer {
    database: PgPool,
    redis: Redis,
    keys: QueueKeys,
    stream: String,
    consumer: String,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(BatchedConsumer {
        database: resources.database,
        redis,
        stream: resources.queue_keys.stream(),
        keys: resources.queue_keys,
        consumer: Uuid::new_v4().to_string(),
    }))
}

#[async_trait]
impl Design for BatchedConsumer {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let Purchase { user, voucher, .. } = *purchase;
        let stock = self.keys.stock(voucher);
        let buyers = self.keys.buyers(voucher);
        // Any number that no other order has.
        let order = rand::random_range(1..i64::MAX);
        let take = ScriptCall::new(&TAKE).key(&stock).key(buyers).key(&self.stream);
        let take = take.arg(user).arg(order).arg(voucher);
        let told = match self.redis.invoke(&take).await? {
            Some(told) => told,
            None => {
                self.put_stock(voucher, &stock).await?;
                self.redis.invoke(&take).await?
            }
        };
        match told {
            1 => return Ok(Answer::SoldOut),
            2 => return Ok(Answer::AlreadyBought),
            _ => {}
        }
        purchase.at(Point::TakenInRedis, order).await;
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
        let entries = self.read().await?;
        // One that is no order fails all of them.
        let queued: Vec<QueuedOrder> =
            entries.iter().map(OrderEntry::order).collect::<Result<_, _>>()?;
        let Some(first) = queued.first() else { return Ok(WorkTurn::Idle) };
        work.at(Point::EntryRead, first.order).await;
        let mut by_voucher: BTreeMap<i64, Vec<&QueuedOrder>> = BTreeMap::new();
        for order in &queued {
            by_voucher.entry(order.voucher).or_default().push(order);
        }
        let mut transaction = self.database.begin().await?;
        // In the same order in every process: no two batches wait for each other.
        for (voucher, orders) in by_voucher {
            write(&mut transaction, voucher, &orders).await?;
        }
        work.at(Point::Committing, first.order).await;
        transaction.commit().await?;
        work.at(Point::Acknowledging, first.order).await;
        let mut acknowledge = redis::cmd("XACK");
        acknowledge.arg(&self.stream).arg(GROUP);
        for entry in &entries {
            acknowledge.arg(&entry.id);
        }
        self.redis.query::<()>(&acknowledge).await?;
        Ok(WorkTurn::Batch(entries.len()))
    }
}

/// The orders of one voucher, as far as the stock goes.
async fn write(
    transaction: &mut PgConnection,
    voucher: i64,
    queued: &[&QueuedOrder],
) -> sqlx::Result<()> {
    let stock: i32 =
        sqlx::query_scalar("select stock from seckill_vouchers where voucher_id = $1 for update")
            .bind(voucher)
            .fetch_one(&mut *transaction)
            .await?;
    // A statement of its own: it sees what was committed before the row was ours. What it leaves out was promised.
    sqlx::query(
        "with written as (
           insert into orders (id, user_id, voucher_id)
           select distinct on (user_id) id, user_id, $1
           from unnest($2::bigint[], $3::bigint[]) queued (id, user_id)
           where not exists (select from orders
                             where voucher_id = $1 and orders.user_id = queued.user_id)
           limit $4
           returning id
         )
         update seckill_vouchers set stock = stock - (select count(*) from written)
         where voucher_id = $1",
    )
    .bind(voucher)
    .bind(queued.iter().map(|order| order.order).collect::<Vec<_>>())
    .bind(queued.iter().map(|order| order.user).collect::<Vec<_>>())
    .bind(stock.max(0))
    .execute(transaction)
    .await?;
    Ok(())
}

impl BatchedConsumer {
    /// New entries; where there are none, those that somebody has had in hand for too long.
    async fn read(&self) -> Result<Vec<OrderEntry>, RungError> {
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg(GROUP).arg(&self.consumer).arg("COUNT").arg(BATCH);
        read.arg("STREAMS").arg(&self.stream).arg(">");
        let new = OrderEntry::all_read(self.redis.query(&read).await?);
        if !new.is_empty() {
            return Ok(new);
        }
        let mut claim = redis::cmd("XAUTOCLAIM");
        claim.arg(&self.stream).arg(GROUP).arg(&self.consumer).arg(IDLE.as_millis() as u64);
        claim.arg("0").arg("COUNT").arg(BATCH);
        Ok(OrderEntry::all_claimed(self.redis.query(&claim).await?))
    }

    /// Tells Redis the stock of a voucher that it does not know yet.
    async fn put_stock(&self, voucher: VoucherId, key: &str) -> Result<(), RungError> {
        let stock: i32 =
            sqlx::query_scalar("select stock from seckill_vouchers where voucher_id = $1")
                .bind(voucher.get())
                .fetch_one(&self.database)
                .await?;
        Ok(self.redis.query(redis::cmd("SET").arg(key).arg(stock).arg("NX")).await?)
    }
}
