//! A sale that does not sell out: the nodes that sell, one attempt to buy, and the books.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use reqwest::Client;
use seckill::http::tokens::Tokens;
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, SystemClock, VoucherId};
use seckill::purchase::{Strategy, audit};
use seckill::store::vouchers;
use seckill::store::{Database, MigrationError, users};
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::process::Command;

use super::crowd::{Answer, WIDTH, What, in_progress, read};
use testkit::processes::{Node, seckill};
use testkit::shop::world::user;
use testkit::wait::eventually;

const SECRET: &str = "a secret of the tests, long enough";
/// Users there are for one fault: more than are served until it is over.
pub const USERS: u32 = 20_000;
/// Users there are for a round of chaos, or while shards move.
pub const MANY_USERS: u32 = 50_000;
const USERS_A_STATEMENT: u32 = 5_000;
/// Of each voucher that is not to sell out.
const PLENTY: i32 = MANY_USERS.cast_signed();
/// How long a client waits. A client that is not answered by then was left hanging.
pub const CLIENT_PATIENCE: Duration = Duration::from_secs(5);

/// One voucher on sale, or several, with nobody selling yet.
#[derive(Clone)]
pub struct Sale {
    pub pool: PgPool,
    pub voucher: VoucherId,
    /// On sale, too: of these and the first each buyer of a crowd wants one, in turn.
    beside: Vec<VoucherId>,
    pub client: Client,
    pub strategy: Strategy,
    pub database_url: String,
    pub redis_url: String,
    users: u32,
    tokens: Arc<Tokens>,
}

fn pool_of(database_url: &str) -> PgPool {
    PgPoolOptions::new().max_connections(4).connect_lazy(database_url).unwrap()
}

/// Puts a voucher on sale, sooner or later: on a busy machine Citus may take longer for it than a server waits. An
/// attempt of which nobody knows leaves at most a voucher that nobody buys, of which every promise holds.
pub async fn put_on_sale(pool: &PgPool, new: &NewVoucher) -> VoucherId {
    let mut made = None;
    eventually("the voucher is on sale", async || {
        match vouchers::create(pool, new, SystemClock.now()).await {
            Ok(voucher) => made = Some(voucher.id),
            Err(error) => assert!(error.retry_may_help(), "{error}"),
        }
        made.is_some()
    })
    .await;
    made.unwrap()
}

/// For free, and open for the whole test.
fn free(stock: i32) -> NewVoucher {
    let (now, hour) = (SystemClock.now(), TimeDelta::hours(1));
    NewVoucher::free("100 for 80", stock, now - hour, now + hour)
}

fn path_of(voucher: VoucherId) -> String {
    format!("/api/vouchers/{voucher}/orders")
}

impl Sale {
    /// The first sale on these servers, to so many users.
    pub async fn open(
        (database_url, redis_url): (&str, &str),
        strategy: Strategy,
        users: u32,
    ) -> Self {
        let database = Database::new(database_url).unwrap();
        // On a busy machine a connection may take longer than a server waits for one.
        eventually("the database is migrated", async || match database.migrate().await {
            Ok(()) => true,
            Err(MigrationError::Store(error)) if error.retry_may_help() => false,
            Err(error) => panic!("{error}"),
        })
        .await;
        let now = SystemClock.now();
        // In parts: Citus takes a second on idle cores for all of them, and a statement has five.
        for first in (1..=i64::from(users)).step_by(USERS_A_STATEMENT as usize) {
            let created = users::create_range(database.pool(), user(first), USERS_A_STATEMENT, now);
            created.await.unwrap();
        }
        let voucher = put_on_sale(database.pool(), &free(PLENTY)).await;
        database.close().await;
        Self {
            pool: pool_of(database_url),
            voucher,
            beside: Vec::new(),
            // No proxy that the developer's environment may name stands before 127.0.0.1.
            client: Client::builder().no_proxy().timeout(CLIENT_PATIENCE).build().unwrap(),
            strategy,
            database_url: database_url.to_owned(),
            redis_url: redis_url.to_owned(),
            users,
            tokens: Arc::new(Tokens::new(SECRET.as_bytes(), Arc::new(SystemClock))),
        }
    }

    /// Another sale on the same servers.
    pub async fn another(&self, strategy: Strategy) -> Self {
        Self { strategy, ..self.another_of(PLENTY).await }
    }

    /// Another sale on the same servers, which can sell out.
    pub async fn another_of(&self, stock: i32) -> Self {
        let voucher = put_on_sale(&self.pool, &free(stock)).await;
        Self { voucher, beside: Vec::new(), ..self.at(&self.database_url) }
    }

    /// The same sale with so many vouchers.
    pub async fn of_vouchers(mut self, count: usize) -> Self {
        while 1 + self.beside.len() < count {
            self.beside.push(put_on_sale(&self.pool, &free(PLENTY)).await);
        }
        self
    }

    /// The same sale as another database server knows it.
    pub fn at(&self, database_url: &str) -> Self {
        let (pool, database_url) = (pool_of(database_url), database_url.to_owned());
        Self { pool, database_url, ..self.clone() }
    }

    pub async fn node(&self) -> Node {
        self.node_by(&self.database_url).await
    }

    /// A node that reaches the database by this URL.
    pub async fn node_by(&self, database_url: &str) -> Node {
        Node::start(&mut self.serve(database_url)).await
    }

    /// The same, not started yet.
    pub fn serve(&self, database_url: &str) -> Command {
        self.serve_at(([127, 0, 0, 1], 0).into(), database_url, &self.redis_url)
    }

    /// A node that listens there and reaches its stores by these URLs; not started yet.
    pub fn serve_at(&self, listen: SocketAddr, database_url: &str, redis_url: &str) -> Command {
        let mut command = seckill(&["serve", "--listen", &listen.to_string()]);
        command
            .args(["--strategy", self.strategy.as_str()])
            .env("DATABASE_URL", database_url)
            .env("REDIS_URL", redis_url)
            .env("SECKILL_SECRET", SECRET)
            .env("SECKILL_SMS", "log")
            // A crowd asks again at once, whatever `Retry-After` says.
            .env("SECKILL_BUYER_RATE", "off");
        command
    }

    pub fn token(&self, number: i64) -> String {
        let now = SystemClock.now();
        self.tokens.mint(user(number), None, now, now + TimeDelta::hours(1))
    }

    /// The users of one worker of a crowd, each with a token, without end for a test's purpose.
    pub fn tokens_for(&self, worker: usize) -> impl Iterator<Item = (i64, String)> + Send + use<> {
        let tokens = Arc::clone(&self.tokens);
        let now = SystemClock.now();
        let expires = now + TimeDelta::hours(1);
        let buyers = (worker as i64 + 1..=i64::from(self.users)).step_by(WIDTH);
        buyers.map(move |buyer| (buyer, tokens.mint(user(buyer), None, now, expires)))
    }

    pub fn path(&self) -> String {
        path_of(self.voucher)
    }

    /// Where each buyer of a crowd buys, in turn.
    pub fn paths(&self) -> Vec<String> {
        std::iter::once(&self.voucher)
            .chain(&self.beside)
            .map(|voucher| path_of(*voucher))
            .collect()
    }

    /// One attempt of `buyer` to buy.
    pub async fn buy(&self, node: SocketAddr, buyer: i64) -> What {
        let url = format!("http://{node}{}", self.path());
        read(self.client.post(url).bearer_auth(self.token(buyer)).send().await).await
    }

    /// Asks until the buyer is served, and returns with what.
    pub async fn served(&self, node: &Node, buyer: i64) -> What {
        let mut told = What::Nothing;
        eventually("the buyer is served", async || {
            told = self.buy(node.address, buyer).await;
            // A server that waited for its database closes the connections on which it said so.
            let may_ask_again = [What::Unavailable, What::Nothing, in_progress()].contains(&told);
            assert!(told.is_served() || may_ask_again, "{told:?}");
            told.is_served()
        })
        .await;
        told
    }

    pub async fn get(&self, node: SocketAddr, path: &str) -> (u16, What) {
        let request = self.client.get(format!("http://{node}{path}")).bearer_auth(self.token(1));
        let answer = request.send().await;
        let status = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
        (status, read(answer).await)
    }

    pub async fn orders(&self) -> i64 {
        sqlx::query_scalar("select count(*) from orders where voucher_id = $1")
            .bind(self.voucher.get())
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    /// The users who have an order.
    pub async fn owners(&self) -> HashSet<i64> {
        let owners = sqlx::query_scalar("select user_id from orders where voucher_id = $1");
        owners.bind(self.voucher.get()).fetch_all(&self.pool).await.unwrap().into_iter().collect()
    }

    /// The answers that told of an order which is not there for its buyer; and fails unless the
    /// books of every sale hold.
    pub async fn lost<'a>(&self, answers: &'a [Answer]) -> Vec<&'a Answer> {
        let audits = audit::run(&self.pool, None).await.unwrap();
        assert!(audits.iter().any(|audit| audit.voucher_id == self.voucher), "{audits:?}");
        let broken: Vec<_> = audits.iter().filter(|audit| !audit.holds).collect();
        assert!(broken.is_empty(), "{broken:?}");
        let vouchers = std::iter::once(&self.voucher).chain(&self.beside);
        let rows: Vec<(i64, i64)> =
            sqlx::query_as("select id, user_id from orders where voucher_id = any($1)")
                .bind(vouchers.map(|voucher| voucher.get()).collect::<Vec<_>>())
                .fetch_all(&self.pool)
                .await
                .unwrap();
        let owners: HashMap<i64, i64> = rows.into_iter().collect();
        let is_lost = |answer: &&Answer| match answer.what {
            What::Ordered(order) | What::AlreadyBought(order) => {
                owners.get(&order) != Some(&answer.buyer)
            }
            _ => false,
        };
        answers.iter().filter(is_lost).collect()
    }

    /// Holds the books against what the buyers were told: every promise was kept, and every
    /// order that a buyer was told of is there for that buyer.
    pub async fn settle(&self, answers: &[Answer]) {
        let lost = self.lost(answers).await;
        assert!(lost.is_empty(), "{} orders are lost: {:?} …", lost.len(), &lost[..1]);
        let took_place = answers.iter().any(|answer| answer.what.is_served());
        assert!(took_place, "nobody was told of an order");
    }
}
