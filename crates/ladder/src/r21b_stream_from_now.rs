//! *Idea.* As r21a with two settings that are often copied wrongly: the group is made to read from now on
//! (`$`), and the stream keeps a bounded number of entries (`MAXLEN`).
//! *Holds.* The stock, and one order per user, as in r21a.
//! *Breaks when* a buyer comes before the group is made, or more buy than the stream keeps: their entries
//! are never read. And wherever r21a breaks.
//! *Next.* Read from 0, and delete what is done with instead of trimming what is old (r22).

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use redis_link::LuaScript;
use sqlx::PgPool;
use uuid::Uuid;

use super::entry::{GROUP, OrderEntry, QueuedOrder};
use super::queue_keys::QueueKeys;
use super::{Answer, Design, Point, Purchase, Resources, RungError, Work, WorkTurn};
use redis_link::{Redis, ScriptCall};
use seckill::model::{UserId, VoucherId};
use seckill::store::Keys;

static TAKE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/take_and_trim.lua")));
static COMPARE_AND_DELETE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/compare_and_delete.lua")));

const CONSUMER: &str = "c1";

/// The lease of the writer's lock.
const LEASE_MS: u64 = 30_000;

struct StreamFromNow {
    database: PgPool,
    redis: Redis,
    keys: QueueKeys,
    locks: Keys,
    stream: String,
    keeps: usize,
    /// Whether the pending entries are read, until there are none.
    after_error: AtomicBool,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(StreamFromNow {
        database: resources.database,
        redis,
        stream: resources.queue_keys.stream(),
        keys: resources.queue_keys,
        locks: resources.keys,
        keeps: resources.queue,
        after_error: AtomicBool::new(false),
    }))
}

#[async_trait]
impl Design for StreamFromNow {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let Purchase { user, voucher, .. } = *purchase;
        let stock = self.keys.stock(voucher);
        let buyers = self.keys.buyers(voucher);
        // Any number that no other order has.
        let order = rand::random_range(1..i64::MAX);
        let take = ScriptCall::new(&TAKE).key(&stock).key(buyers).key(&self.stream);
        let take = take.arg(user).arg(order).arg(voucher).arg(self.keeps);
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
        // From now on: `$`.
        create.arg("CREATE").arg(&self.stream).arg(GROUP).arg("$").arg("MKSTREAM");
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

impl StreamFromNow {
    async fn read(&self, from: &str) -> Result<Option<OrderEntry>, RungError> {
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg(GROUP).arg(CONSUMER).arg("COUNT").arg(1);
        read.arg("STREAMS").arg(&self.stream).arg(from);
        Ok(OrderEntry::first_read(self.redis.query(&read).await?))
    }

    async fn write(&self, entry: &OrderEntry, work: &Work) -> Result<WorkTurn, RungError> {
        let queued = entry.order()?;
        work.at(Point::EntryRead, queued.order).await;
        // What is refused is written to a log, and acknowledged.
        let answer = self.write_locked(queued, work).await?;
        work.at(Point::Acknowledging, queued.order).await;
        let mut acknowledge = redis::cmd("XACK");
        self.redis.query::<()>(acknowledge.arg(&self.stream).arg(GROUP).arg(&entry.id)).await?;
        Ok(WorkTurn::Settled(answer))
    }

    async fn write_locked(&self, queued: QueuedOrder, work: &Work) -> Result<Answer, RungError> {
        let user = UserId::try_from(queued.user).map_err(|_| RungError::NoOrder)?;
        let (key, owner) = (self.locks.order_lock(user), Uuid::new_v4().to_string());
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(&owner).arg("NX").arg("PX").arg(LEASE_MS);
        let taken: Option<String> = self.redis.query(&set).await?;
        if taken.is_none() {
            return Ok(Answer::InProgress);
        }
        let written = self.place(queued, work).await;
        let release = ScriptCall::new(&COMPARE_AND_DELETE).key(&key).arg(&owner);
        self.redis.invoke::<()>(&release).await?;
        written
    }

    async fn place(&self, queued: QueuedOrder, work: &Work) -> Result<Answer, RungError> {
        let mut transaction = self.database.begin().await?;
        let orders: i64 = sqlx::query_scalar(
            "select count(*) from orders where user_id = $1 and voucher_id = $2",
        )
        .bind(queued.user)
        .bind(queued.voucher)
        .fetch_one(&mut *transaction)
        .await?;
        if orders > 0 {
            return Ok(Answer::AlreadyBought);
        }
        let taken = sqlx::query(
            "update seckill_vouchers set stock = stock - 1 where voucher_id = $1 and stock > 0",
        )
        .bind(queued.voucher)
        .execute(&mut *transaction)
        .await?;
        if taken.rows_affected() == 0 {
            return Ok(Answer::SoldOut);
        }
        sqlx::query("insert into orders (id, user_id, voucher_id) values ($1, $2, $3)")
            .bind(queued.order)
            .bind(queued.user)
            .bind(queued.voucher)
            .execute(&mut *transaction)
            .await?;
        work.at(Point::Committing, queued.order).await;
        transaction.commit().await?;
        Ok(Answer::Ordered(queued.order))
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
