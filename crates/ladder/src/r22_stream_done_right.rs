//! *Idea.* The stream done right: a consumer name for each process, idle entries claimed, dead
//! letters, the stock guard and the unique index in one transaction, the acknowledgement after the
//! commit; and the buyer is told "accepted", asks again, and hears what the database decided.
//! *Holds.* Everything, whichever process dies, and when, as long as an entry costs one process.
//! *Breaks when* Redis loses what it has acknowledged: a power cut within the second after its last
//! `fsync`, a failover to a replica that lags. The buyer never hears an answer. And when two
//! consumers die with one entry: it is given up, its voucher is on sale again, and a buyer who came
//! meanwhile was told "sold out". While Redis is down nobody buys.
//! *Next.* Let the database decide, and the stream only carry what comes after (r23a).

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redis_link::LuaScript;
use sqlx::PgPool;
use uuid::Uuid;

use super::entry::{GROUP, OrderEntry, QueuedOrder};
use super::queue_keys::QueueKeys;
use super::{Answer, Design, Point, Purchase, Resources, RungError, Work, WorkTurn};
use redis_link::{Redis, ScriptCall};
use seckill::model::VoucherId;

static TAKE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/take_and_promise.lua")));
static SETTLE: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("../lua/settle.lua")));

/// An entry in the hands of somebody for so long is in nobody's.
const IDLE: Duration = Duration::from_secs(30);
/// Under load, too, idle entries are looked for every so many turns.
const CLAIM_EVERY: usize = 64;
/// An entry that was delivered more often is put aside.
const MAX_DELIVERIES: u64 = 2;

struct StreamDoneRight {
    database: PgPool,
    redis: Redis,
    keys: QueueKeys,
    stream: String,
    consumer: String,
    turns: AtomicUsize,
}

pub(super) async fn build(resources: Resources) -> Result<Box<dyn Design>, RungError> {
    let redis = resources.first_redis()?;
    Ok(Box::new(StreamDoneRight {
        database: resources.database,
        redis,
        stream: resources.queue_keys.stream(),
        keys: resources.queue_keys,
        consumer: Uuid::new_v4().to_string(),
        turns: AtomicUsize::new(0),
    }))
}

#[async_trait]
impl Design for StreamDoneRight {
    async fn buy(&self, purchase: &Purchase) -> Result<Answer, RungError> {
        let Purchase { user, voucher, .. } = *purchase;
        let stock = self.keys.stock(voucher);
        // Any number that no other order has.
        let order = rand::random_range(1..i64::MAX);
        let take =
            ScriptCall::new(&TAKE).key(&stock).key(self.keys.told(voucher)).key(&self.stream);
        let take = take.arg(user).arg(order).arg(voucher);
        let told: String = match self.redis.invoke(&take).await? {
            Some(told) => told,
            None => {
                self.put_stock(voucher, &stock).await?;
                self.redis.invoke(&take).await?
            }
        };
        if told == "taken" {
            purchase.at(Point::TakenInRedis, order).await;
            return Ok(Answer::Accepted);
        }
        Ok(match answer(&told) {
            // An earlier request has taken it.
            Answer::Accepted => Answer::InProgress,
            Answer::Ordered(_) => Answer::AlreadyBought,
            refused => refused,
        })
    }

    async fn status(&self, purchase: &Purchase) -> Result<Option<Answer>, RungError> {
        let mut get = redis::cmd("HGET");
        get.arg(self.keys.told(purchase.voucher)).arg(purchase.user.get());
        let told: Option<String> = self.redis.query(&get).await?;
        match told {
            Some(told) => Ok(Some(answer(&told))),
            // Redis may have forgotten what it was told.
            None => self.order_of(purchase.user.get(), purchase.voucher.get()).await,
        }
    }

    async fn start_consumer(&self) -> Result<(), RungError> {
        let mut create = redis::cmd("XGROUP");
        // From the beginning: a buyer that came before there was a group is served, too.
        create.arg("CREATE").arg(&self.stream).arg(GROUP).arg("0").arg("MKSTREAM");
        // What fails is that the group is there already.
        let _ = self.redis.query::<()>(&create).await;
        Ok(())
    }

    async fn write_next(&self, work: &Work) -> Result<WorkTurn, RungError> {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let mut entry = None;
        if turn.is_multiple_of(CLAIM_EVERY) {
            entry = self.claim().await?;
        }
        if entry.is_none() {
            entry = self.read_new().await?;
        }
        if entry.is_none() {
            entry = self.claim().await?;
        }
        let Some(entry) = entry else { return Ok(WorkTurn::Idle) };
        if self.deliveries(&entry).await? > MAX_DELIVERIES {
            return self.put_aside(&entry).await;
        }
        let queued = entry.order()?;
        work.at(Point::EntryRead, queued.order).await;
        let answer = self.place(&entry, work).await?;
        work.at(Point::Acknowledging, queued.order).await;
        self.settle(&entry, answer).await?;
        Ok(WorkTurn::Settled(answer))
    }
}

/// What a buyer is told, by the word in Redis: the number of the order where there is one.
fn answer(told: &str) -> Answer {
    match told {
        "accepted" => Answer::Accepted,
        "sold_out" => Answer::SoldOut,
        "already_bought" => Answer::AlreadyBought,
        order => order.parse().map_or(Answer::GivenUp, Answer::Ordered),
    }
}

impl StreamDoneRight {
    async fn read_new(&self) -> Result<Option<OrderEntry>, RungError> {
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg(GROUP).arg(&self.consumer).arg("COUNT").arg(1);
        read.arg("STREAMS").arg(&self.stream).arg(">");
        Ok(OrderEntry::first_read(self.redis.query(&read).await?))
    }

    async fn claim(&self) -> Result<Option<OrderEntry>, RungError> {
        // A database that is away is not an entry's fault, and counts for no delivery.
        sqlx::query("select").execute(&self.database).await?;
        let mut claim = redis::cmd("XAUTOCLAIM");
        claim.arg(&self.stream).arg(GROUP).arg(&self.consumer).arg(IDLE.as_millis() as u64);
        claim.arg("0").arg("COUNT").arg(1);
        Ok(OrderEntry::first_claimed(self.redis.query(&claim).await?))
    }

    async fn deliveries(&self, entry: &OrderEntry) -> Result<u64, RungError> {
        let mut pending = redis::cmd("XPENDING");
        pending.arg(&self.stream).arg(GROUP).arg(&entry.id).arg(&entry.id).arg(1);
        let found: Vec<(String, String, u64, u64)> = self.redis.query(&pending).await?;
        Ok(found.first().map_or(0, |(.., deliveries)| *deliveries))
    }

    async fn place(&self, entry: &OrderEntry, work: &Work) -> Result<Answer, RungError> {
        let queued = entry.order()?;
        let mut transaction = self.database.begin().await?;
        let taken = sqlx::query(
            "update seckill_vouchers set stock = stock - 1 where voucher_id = $1 and stock > 0",
        )
        .bind(queued.voucher)
        .execute(&mut *transaction)
        .await?;
        let written = sqlx::query(
            "insert into orders (id, user_id, voucher_id) values ($1, $2, $3)
             on conflict do nothing",
        )
        .bind(queued.order)
        .bind(queued.user)
        .bind(queued.voucher)
        .execute(&mut *transaction)
        .await?;
        if taken.rows_affected() == 1 && written.rows_affected() == 1 {
            work.at(Point::Committing, queued.order).await;
            transaction.commit().await?;
            return Ok(Answer::Ordered(queued.order));
        }
        // Gives back what it took.
        transaction.rollback().await?;
        Ok(self.decided(queued).await?.unwrap_or(Answer::SoldOut))
    }

    /// What the database has decided already.
    async fn decided(&self, queued: QueuedOrder) -> Result<Option<Answer>, RungError> {
        let known = self.order_of(queued.user, queued.voucher).await?;
        Ok(known.map(|order| match order {
            // It came twice.
            own if own == Answer::Ordered(queued.order) => own,
            _ => Answer::AlreadyBought,
        }))
    }

    /// What the database knows of a purchase.
    async fn order_of(&self, user: i64, voucher: i64) -> Result<Option<Answer>, RungError> {
        let order: Option<i64> =
            sqlx::query_scalar("select id from orders where user_id = $1 and voucher_id = $2")
                .bind(user)
                .bind(voucher)
                .fetch_optional(&self.database)
                .await?;
        Ok(order.map(Answer::Ordered))
    }

    /// What failed too often: its consumer may have died after the commit, so that the database
    /// is asked first.
    async fn put_aside(&self, entry: &OrderEntry) -> Result<WorkTurn, RungError> {
        if let Ok(queued) = entry.order()
            && let Some(answer) = self.decided(queued).await?
        {
            self.settle(entry, answer).await?;
            return Ok(WorkTurn::Settled(answer));
        }
        let mut add = redis::cmd("XADD");
        add.arg(format!("{}.dead", self.stream)).arg("*").arg(&entry.fields);
        self.redis.query::<()>(&add).await?;
        self.settle(entry, Answer::GivenUp).await?;
        Ok(WorkTurn::PutAside)
    }

    async fn settle(&self, entry: &OrderEntry, answer: Answer) -> Result<(), RungError> {
        let told = match answer {
            Answer::Ordered(order) => order.to_string(),
            refused => refused.code().to_owned(),
        };
        // An entry that is no order has taken nothing.
        let gives_back = answer == Answer::GivenUp && entry.order().is_ok();
        let (voucher, user) = (entry.field("voucher"), entry.field("user"));
        let settle = ScriptCall::new(&SETTLE).key(&self.stream);
        let voucher = voucher.unwrap_or_default();
        let settle = settle.key(self.keys.told(voucher)).key(self.keys.stock(voucher));
        let settle = settle.arg(GROUP).arg(&entry.id).arg(user.unwrap_or_default()).arg(told);
        Ok(self.redis.invoke(&settle.arg(u8::from(gives_back))).await?)
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
