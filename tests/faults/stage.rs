//! Servers of a test's own, and a sale on them.

use std::collections::HashMap;
use std::ops::Deref;

use nix::sys::signal::Signal;
use private_stores::{Server, Servers};
use seckill::purchase::Strategy;
use sqlx::{Postgres, Transaction};

use super::sale::{Sale, USERS};
use testkit::processes::send_with_children;
use testkit::servers;
use testkit::shop::held_rows::{WAIT_LONG_FOR_ROWS, waiting};
use testkit::wait::eventually;

/// The strategies that every fault is tried with.
pub const SOLD_BY: [Strategy; 2] = [Strategy::Locked, Strategy::GroupCommit];

/// What a test breaks.
pub struct Stage {
    pub servers: Servers,
    pub sale: Sale,
}

impl Deref for Stage {
    type Target = Sale;

    fn deref(&self) -> &Sale {
        &self.sale
    }
}

impl Stage {
    /// On servers that may lose the last moments before they are killed.
    pub async fn new(strategy: Strategy) -> Self {
        eprintln!("strategy {strategy}");
        Self::on(servers::own_of(true, false).await, strategy, USERS).await
    }

    pub async fn on(servers: Servers, strategy: Strategy, users: u32) -> Self {
        let urls = (servers.database_url().unwrap(), servers.redis_url().unwrap());
        let sale = Sale::open(urls, strategy, users).await;
        Self { servers, sale }
    }

    /// Transactions of a node that may wait for the row at once.
    pub fn at_the_row(&self) -> i64 {
        if self.strategy == Strategy::Locked { 2 } else { 1 }
    }

    /// The users whose purchase is locked, by any node, and the milliseconds each lock has
    /// left.
    pub fn locked(&self) -> HashMap<i64, i64> {
        let mut redis = ::redis::Client::open(self.servers.redis_url().unwrap())
            .unwrap()
            .get_connection()
            .unwrap();
        let keys: Vec<String> = ::redis::cmd("KEYS").arg("lock:order:*").query(&mut redis).unwrap();
        keys.iter()
            .map(|key| {
                let left = ::redis::cmd("PTTL").arg(key).query(&mut redis).unwrap();
                (key.rsplit(':').next().unwrap().parse().unwrap(), left)
            })
            .collect()
    }

    /// Signals a server and, for PostgreSQL, all its sessions.
    pub fn signal(&self, server: Server, signal: Signal) {
        send_with_children(self.servers.pid(server).unwrap(), signal);
    }

    /// See `World::wait_long_for_rows`.
    pub async fn wait_long_for_rows(&self) {
        sqlx::raw_sql(WAIT_LONG_FOR_ROWS).execute(&self.pool).await.unwrap();
    }

    /// Holds the voucher's row: buyers wait in the database, and hold their locks.
    pub async fn hold_the_row(&self) -> Transaction<'static, Postgres> {
        let mut transaction = self.pool.begin().await.unwrap();
        let row = sqlx::query("select from seckill_vouchers for update");
        row.execute(&mut *transaction).await.unwrap();
        transaction
    }

    /// Waits until as many purchases are in the database, waiting for the row.
    pub async fn waiting_for_the_row(&self, purchases: i64) {
        eventually("purchases wait for the row", async || waiting(&self.pool).await >= purchases)
            .await;
    }

    pub fn restart(&mut self, server: Server) {
        tokio::task::block_in_place(|| self.servers.restart(server)).unwrap();
    }

    /// Ends the test's own connections, then the servers.
    pub async fn end(self) {
        self.pool.close().await;
        servers::ended(self.servers).await;
    }
}
