//! Servers of a test's own, nodes before them, and the books.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use nix::sys::signal::Signal;
use reqwest::Client;
use seckill::embedded::{Home, Plan, Server, Servers};
use seckill::http::tokens::Tokens;
use seckill::model::{Clock, SystemClock, VoucherId};
use seckill::seckill::{Strategy, audit};
use seckill::store::vouchers::{self, NewVoucher};
use seckill::store::{Database, users};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Postgres, Transaction};

use super::crowd::{Answer, WIDTH, What, read};
use crate::group_commit::WAIT_LONG_FOR_ROWS;
use crate::processes::{Node, eventually, seckill, send_with_children};
use crate::world::{exe, user};

const SECRET: &str = "a secret of the tests, long enough";
/// Users there are: more than any test here can serve.
const USERS: u32 = 50_000;
/// How long a client waits. Whoever is not answered by then was left hanging.
const CLIENT_PATIENCE: Duration = Duration::from_secs(5);

/// The strategies that every fault is tried with.
pub const SOLD_BY: [Strategy; 2] = [Strategy::Locked, Strategy::GroupCommit];

/// A sale that does not sell out, with nobody selling yet.
pub struct Stage {
    pub servers: Servers,
    pub pool: PgPool,
    pub voucher: VoucherId,
    pub client: Client,
    strategy: Strategy,
    tokens: Arc<Tokens>,
}

impl Stage {
    /// On servers that may lose the last moments before they are killed.
    pub async fn new(strategy: Strategy) -> Self {
        Self::on(false, strategy).await
    }

    /// On servers that lose nothing.
    pub async fn durable(strategy: Strategy) -> Self {
        Self::on(true, strategy).await
    }

    async fn on(durable: bool, strategy: Strategy) -> Self {
        eprintln!("strategy {strategy}");
        let plan = Plan { home: Home::Throwaway, postgres: true, redis: true, durable };
        let started = tokio::task::spawn_blocking(move || Servers::start(exe(), &plan));
        let servers = started.await.unwrap().unwrap();
        let database = Database::new(servers.database_url().unwrap()).unwrap();
        database.migrate().await.unwrap();
        let now = SystemClock.now();
        users::create_range(database.pool(), user(1), USERS, now).await.unwrap();
        let new = NewVoucher {
            title: "100 for 80".to_owned(),
            stock: USERS.cast_signed(),
            begin_time: now - TimeDelta::hours(1),
            end_time: now + TimeDelta::hours(1),
        };
        let voucher = vouchers::create(database.pool(), &new, now).await.unwrap().id;
        database.close().await;
        let pool = PgPoolOptions::new().max_connections(4);
        let pool = pool.connect_lazy(servers.database_url().unwrap()).unwrap();
        let tokens = Arc::new(Tokens::new(SECRET.as_bytes(), Arc::new(SystemClock)));
        // No proxy that the developer's environment may name stands before 127.0.0.1.
        let client = Client::builder().no_proxy().timeout(CLIENT_PATIENCE).build().unwrap();
        Self { servers, pool, voucher, client, strategy, tokens }
    }

    pub async fn node(&self) -> Node {
        let mut command = seckill(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(["--strategy", self.strategy.as_str()]);
        command
            .env("DATABASE_URL", self.servers.database_url().unwrap())
            .env("REDIS_URL", self.servers.redis_url().unwrap())
            .env("SECKILL_SECRET", SECRET)
            .env("SECKILL_SMS", "log");
        Node::start(&mut command).await
    }

    /// Transactions of a node that may wait for the row at once.
    pub fn at_the_row(&self) -> i64 {
        if self.strategy == Strategy::Locked { 2 } else { 1 }
    }

    pub fn token(&self, number: i64) -> String {
        let now = SystemClock.now();
        self.tokens.mint(user(number), now, now + TimeDelta::hours(1)).unwrap()
    }

    /// The users of one worker of a crowd, each with a token, without end for a test's purpose.
    pub fn tokens_for(&self, worker: usize) -> impl Iterator<Item = (i64, String)> + Send + use<> {
        let tokens = Arc::clone(&self.tokens);
        let now = SystemClock.now();
        let expires = now + TimeDelta::hours(1);
        let buyers = (worker as i64 + 1..=i64::from(USERS)).step_by(WIDTH);
        buyers.map(move |buyer| (buyer, tokens.mint(user(buyer), now, expires).unwrap()))
    }

    pub fn path(&self) -> String {
        format!("/api/vouchers/{}/orders", self.voucher)
    }

    /// One attempt of `buyer` to buy.
    pub async fn buy(&self, node: SocketAddr, buyer: i64) -> What {
        let url = format!("http://{node}{}", self.path());
        read(self.client.post(url).bearer_auth(self.token(buyer)).send().await).await
    }

    pub async fn get(&self, node: SocketAddr, path: &str) -> (u16, What) {
        let request = self.client.get(format!("http://{node}{path}")).bearer_auth(self.token(1));
        let answer = request.send().await;
        let status = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
        (status, read(answer).await)
    }

    pub async fn orders(&self) -> i64 {
        sqlx::query_scalar("select count(*) from orders").fetch_one(&self.pool).await.unwrap()
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
        eventually("purchases wait for the row", async || {
            let waiting: i64 = sqlx::query_scalar(
                "select count(*) from pg_stat_activity
                 where application_name = 'seckill' and wait_event_type = 'Lock'",
            )
            .fetch_one(&self.pool)
            .await
            .unwrap();
            waiting >= purchases
        })
        .await;
    }

    /// Ends the sessions of those purchases: they write nothing.
    pub async fn end_those_waiting_for_the_row(&self) {
        let end = sqlx::query(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where application_name = 'seckill' and wait_event_type = 'Lock'",
        );
        end.execute(&self.pool).await.unwrap();
    }

    pub fn restart(&mut self, server: Server) {
        tokio::task::block_in_place(|| self.servers.restart(server)).unwrap();
    }

    /// Holds the books against what the buyers were told: every promise was kept, and every
    /// order that anybody was told of is there, his.
    pub async fn settle(&self, answers: &[Answer]) {
        let audits = audit::run(&self.pool, Some(self.voucher)).await.unwrap();
        assert!(audits.len() == 1 && audits[0].holds, "{audits:?}");
        let rows: Vec<(i64, i64)> =
            sqlx::query_as("select id, user_id from orders").fetch_all(&self.pool).await.unwrap();
        let owners: HashMap<i64, i64> = rows.into_iter().collect();
        let mut told = 0;
        for answer in answers {
            if let What::Ordered(order) | What::AlreadyBought(order) = answer.what {
                assert_eq!(owners.get(&order), Some(&answer.buyer), "lost: {answer:?}");
                told += 1;
            }
        }
        assert!(told > 0, "nobody was told of an order: the sale did not take place");
    }

    /// Ends the test's own connections, then the servers.
    pub async fn end(self) {
        self.pool.close().await;
        tokio::task::spawn_blocking(|| self.servers.stop()).await.unwrap().unwrap();
    }
}
