//! A shop of one's own: private PostgreSQL and Redis that write to disk as those of `serve` do
//! (`fsync` on, append-only file), sales in it, and the audit of their books.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use chrono::TimeDelta;
use seckill::embedded::{Home, Plan, Servers};
use seckill::model::{SaleStatus, SharedClock, SystemClock, UserId, VoucherId};
use seckill::seckill::audit;
use seckill::store::{Database, Redis, users, vouchers};
use tokio::runtime::Runtime;

use crate::machine::{self, Machine};
use crate::server;

/// More than any measurement sells.
const PLENTY: i32 = 1_000_000_000;

/// Users that one statement creates, in a second or so; the server ends it after five.
const USERS_AT_ONCE: i64 = 50_000;

/// Servers and buyers.
#[derive(Debug)]
pub struct Shop {
    /// The handle that a server process has.
    pub database: Database,
    /// As well.
    pub redis: Redis,
    /// The machine's.
    pub clock: SharedClock,
    buyers: AtomicI64,
    servers: Servers,
}

/// A voucher on sale, and what is known of its books beside the database.
#[derive(Debug)]
pub struct Sale {
    /// The voucher.
    pub voucher: VoucherId,
    confirmed: AtomicU64,
}

impl Sale {
    /// So many orders were confirmed.
    pub fn note_confirmed(&self, orders: u64) {
        self.confirmed.fetch_add(orders, Ordering::Relaxed);
    }
}

impl Shop {
    /// Starts the servers, empty but for the tables, and says on stderr what runs where.
    /// To be called, and the shop to be dropped, with the runtime entered.
    ///
    /// # Errors
    /// When a server is missing or does not start, or would not write to disk.
    pub fn open(runtime: &Runtime) -> anyhow::Result<Self> {
        let plan = Plan { home: Home::Throwaway, postgres: true, redis: true, durable: true };
        let servers = Servers::start(&std::env::current_exe()?, &plan)?;
        let database_url = servers.database_url().context("the plan has a PostgreSQL")?;
        let redis_url = servers.redis_url().context("the plan has a Redis")?;
        let shop = Self {
            database: Database::new(database_url)?,
            redis: Redis::new(redis_url)?,
            clock: Arc::new(SystemClock),
            buyers: AtomicI64::new(1),
            servers,
        };
        runtime.block_on(shop.set_up())?;
        Ok(shop)
    }

    async fn set_up(&self) -> anyhow::Result<()> {
        self.database.migrate().await?;
        let redis_url = self.servers.redis_url().unwrap_or_default();
        write_to_disk(redis_url).await?;
        let fsync: String =
            sqlx::query_scalar("show fsync").fetch_one(self.database.pool()).await?;
        ensure!(fsync == "on", "PostgreSQL runs with fsync {fsync}");
        let postgres: String =
            sqlx::query_scalar("show server_version").fetch_one(self.database.pool()).await?;
        let machine = Machine::look(redis_url).await?;
        eprintln!(
            "revision {}; {}, {} processors, {:.0} GB; {}; PostgreSQL {postgres}, fsync on; \
             Redis {}, appendonly yes, appendfsync everysec; data on {}; {}",
            machine.revision,
            machine.processor,
            machine.processors,
            machine.memory_gb,
            machine.system,
            machine.redis,
            machine::file_system(self.servers.directory()),
            machine.rustc,
        );
        Ok(())
    }

    /// Puts a voucher there whose sale is at this `status`.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn put_on_sale(&self, title: &str, status: SaleStatus) -> anyhow::Result<Arc<Sale>> {
        let (now, day) = (self.clock.now(), TimeDelta::days(1));
        let (begin_time, end_time) = match status {
            SaleStatus::Upcoming => (now + day, now + day * 2),
            SaleStatus::OnSale | SaleStatus::SoldOut => (now - day, now + day),
            SaleStatus::Ended => (now - day * 2, now - day),
        };
        let stock = if status == SaleStatus::SoldOut { 0 } else { PLENTY };
        let new = vouchers::NewVoucher { title: title.to_owned(), stock, begin_time, end_time };
        let voucher = vouchers::create(self.database.pool(), &new, now).await?.id;
        Ok(Arc::new(Sale { voucher, confirmed: AtomicU64::new(0) }))
    }

    /// Somebody who has bought nothing yet.
    ///
    /// # Errors
    /// After 2^63 of them.
    pub fn fresh_buyer(&self) -> anyhow::Result<UserId> {
        let number = self.buyers.fetch_add(1, Ordering::Relaxed);
        UserId::new(number).context("users are exhausted")
    }

    /// Judges the books: every promise was kept, and each sale has just as many orders as were
    /// confirmed. Closes the shop.
    ///
    /// # Errors
    /// When they are wrong.
    pub async fn audit(self, sales: &[Arc<Sale>]) -> anyhow::Result<()> {
        self.register_buyers().await?;
        let audits = audit::run(self.database.pool(), None).await?;
        for audit in &audits {
            ensure!(audit.holds, "the audit does not hold: {:?}", audit.violations);
        }
        let mut confirmed_in_all = 0;
        for sale in sales {
            let books = audits.iter().find(|audit| audit.voucher_id == sale.voucher);
            let orders = books.context("a voucher is gone")?.orders;
            let confirmed = sale.confirmed.load(Ordering::Relaxed);
            ensure!(
                u64::try_from(orders) == Ok(confirmed),
                "voucher {}: {confirmed} orders were confirmed, and {orders} are there",
                sale.voucher
            );
            confirmed_in_all += confirmed;
        }
        eprintln!("audit: holds; {confirmed_in_all} orders were confirmed and are there");
        self.database.close().await;
        Ok(())
    }

    /// No purchase looks into the table of users, but the audit does, for orders of nobody. Only
    /// now, when it is known how many there are.
    async fn register_buyers(&self) -> anyhow::Result<()> {
        let end = self.buyers.load(Ordering::Relaxed);
        let mut first = 1;
        while first < end {
            let count = USERS_AT_ONCE.min(end - first);
            let id = UserId::new(first).context("users are exhausted")?;
            let (pool, now) = (self.database.pool(), self.clock.now());
            users::create_range(pool, id, u32::try_from(count)?, now).await?;
            first += count;
        }
        Ok(())
    }
}

/// A throw-away Redis keeps nothing, and a sale's does: from now on it does, too. So the data
/// is thrown away however the benchmark ends, which that of a kept home would not be.
async fn write_to_disk(redis_url: &str) -> anyhow::Result<()> {
    let mut aside = server::aside(redis_url).await?;
    let mut config = redis::cmd("CONFIG");
    config.arg("SET").arg(&["appendfsync", "everysec", "appendonly", "yes"]);
    config.query_async::<()>(&mut aside).await?;
    // It begins with a copy of what there is, in a process of its own, which is not to be
    // measured.
    for _ in 0..1000 {
        let rewriting = server::info(&mut aside, "persistence", "aof_rewrite_in_progress").await?
            + server::info(&mut aside, "persistence", "aof_rewrite_scheduled").await?;
        if rewriting == 0 {
            let enabled = server::info(&mut aside, "persistence", "aof_enabled").await?;
            ensure!(enabled == 1, "Redis writes no append-only file");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    anyhow::bail!("Redis does not come to its append-only file")
}
