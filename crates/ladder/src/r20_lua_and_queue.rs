//! *Idea.* Asynchronous, as the course has it: one Lua script decides in Redis, the buyer is told yes, and
//! a queue in this process feeds one writer.
//! *Holds.* The stock, and one order per user: the writer asks the database again before it believes
//! Redis. An answer waits for no database.
//! *Breaks when* the process dies with orders in its queue: a buyer that was told yes has none, and the
//! vouchers are gone. When the queue is full. And whatever the writer refuses was promised already: when
//! Redis comes back from an older snapshot, or somebody loads its stock anew. While Redis is down nobody
//! buys.
//! *Next.* Keep the queue where the death of a process does not reach it (r21a).

use std::sync::LazyLock;

use async_trait::async_trait;
use redis_link::LuaScript;
use sqlx::PgPool;
use tokio::sync::{Mutex, mpsc};
use uuid::Uuid;

use super::entry::QueuedOrder;
use super::queue_keys::QueueKeys;
use super::{Answer, Design, Point, Purchase, Resources, RungError, Work, WorkTurn};
use redis_link::{Redis, ScriptCall};
use seckill::model::{UserId, VoucherId};
use seckill::store::Keys;

static TAKE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/take.lua")));
static COMPARE_AND_DELETE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/compare_and_delete.lua")));

/// The lease of the writer's lock.
const LEASE_MS: u64 = 30_000;

struct LuaAndQueue {
    database: PgPool,
    redis: Redis,
    keys: QueueKeys,
    locks: Keys,
    queue: mpsc::Sender<QueuedOrder>,
    waiting: Mutex<mpsc::Receiver<QueuedOrder>>,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    let (queue, waiting) = mpsc::channel(resources.queue);
    Ok(Box::new(LuaAndQueue {
        database: resources.database,
        redis,
        keys: resources.queue_keys,
        locks: resources.keys,
        queue,
        waiting: Mutex::new(waiting),
    }))
}

#[async_trait]
impl Design for LuaAndQueue {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let Purchase { user, voucher, .. } = *purchase;
        let stock = self.keys.stock(voucher);
        let buyers = self.keys.buyers(voucher);
        let take = ScriptCall::new(&TAKE).key(&stock).key(buyers).arg(user);
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
        // Any number that no other order has.
        let order = rand::random_range(1..i64::MAX);
        purchase.at(Point::TakenInRedis, order).await;
        let queued = QueuedOrder { order, user: user.get(), voucher: voucher.get() };
        // Where it is full, the voucher has been taken all the same.
        self.queue.try_send(queued).map_err(|_| RungError::QueueFull)?;
        Ok(Answer::Ordered(order))
    }

    async fn write_next(&self, work: &Work) -> Result<WorkTurn, RungError> {
        let Ok(queued) = self.waiting.lock().await.try_recv() else { return Ok(WorkTurn::Idle) };
        work.at(Point::EntryRead, queued.order).await;
        // What fails or is refused from here on is written to a log, and the order is gone.
        Ok(WorkTurn::Settled(self.write(queued, work).await?))
    }
}

impl LuaAndQueue {
    async fn write(&self, queued: QueuedOrder, work: &Work) -> Result<Answer, RungError> {
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
