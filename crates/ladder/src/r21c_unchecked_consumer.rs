//! *Idea.* As r21a, and as widely copied: the consumer takes no lock, counts nothing, and does not look
//! at what the update came to. The script in Redis has decided, so the copies say, and decides once.
//! *Holds.* What r21a holds as long as each entry comes once and Redis forgets nothing.
//! *Breaks when* an entry comes twice: it is written twice. When Redis sells again what was sold: there
//! are orders without stock, and second orders of one user. And wherever r21a breaks.
//! *Next.* Do the stream right (r22).

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use redis_link::LuaScript;
use sqlx::PgPool;

use super::entry::{GROUP, OrderEntry};
use super::queue_keys::QueueKeys;
use super::{Answer, Design, Point, Purchase, Resources, RungError, Work, WorkTurn};
use redis_link::{Redis, ScriptCall};
use seckill::model::VoucherId;

static TAKE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/take_and_queue.lua")));

const CONSUMER: &str = "c1";

struct UncheckedConsumer {
    database: PgPool,
    redis: Redis,
    keys: QueueKeys,
    stream: String,
    /// Whether the pending entries are read, until there are none.
    after_error: AtomicBool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(UncheckedConsumer {
        database: resources.database,
        redis,
        stream: resources.queue_keys.stream(),
        keys: resources.queue_keys,
        after_error: AtomicBool::new(false),
    }))
}

#[async_trait]
impl Design for UncheckedConsumer {
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
        let mut entry = None;
        if self.after_error.load(Ordering::SeqCst) {
            entry = self.read("0").await?;
            self.after_error.store(entry.is_some(), Ordering::SeqCst);
        }
        if entry.is_none() {
            entry = self.read(">").await?;
        }
        let Some(entry) = entry else { return Ok(WorkTurn::Idle) };
        let written = self.write(&entry, work).await;
        if written.is_err() {
            self.after_error.store(true, Ordering::SeqCst);
        }
        written
    }
}

impl UncheckedConsumer {
    async fn read(&self, from: &str) -> Result<Option<OrderEntry>, RungError> {
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg(GROUP).arg(CONSUMER).arg("COUNT").arg(1);
        read.arg("STREAMS").arg(&self.stream).arg(from);
        Ok(OrderEntry::first_read(self.redis.query(&read).await?))
    }

    async fn write(&self, entry: &OrderEntry, work: &Work) -> Result<WorkTurn, RungError> {
        let queued = entry.order()?;
        work.at(Point::EntryRead, queued.order).await;
        let mut transaction = self.database.begin().await?;
        // Nobody looks whether the update found a row.
        sqlx::query(
            "update seckill_vouchers set stock = stock - 1 where voucher_id = $1 and stock > 0",
        )
        .bind(queued.voucher)
        .execute(&mut *transaction)
        .await?;
        sqlx::query("insert into orders (id, user_id, voucher_id) values ($1, $2, $3)")
            .bind(queued.order)
            .bind(queued.user)
            .bind(queued.voucher)
            .execute(&mut *transaction)
            .await?;
        work.at(Point::Committing, queued.order).await;
        transaction.commit().await?;
        work.at(Point::Acknowledging, queued.order).await;
        let mut acknowledge = redis::cmd("XACK");
        self.redis.query::<()>(acknowledge.arg(&self.stream).arg(GROUP).arg(&entry.id)).await?;
        Ok(WorkTurn::Settled(Answer::Ordered(queued.order)))
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
