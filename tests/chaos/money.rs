//! Money, while everything breaks: buyers of a priced voucher pay, cancel or do nothing, an administrator
//! refunds and redeems, and a payment gateway of the test's own repeats, delays and reorders what it says.
//! In the end its books and the shop's say the same.

use std::cell::Cell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use reqwest::Method;
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, SystemClock, VoucherId};
use seckill::purchase::audit::OrderLives;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::gateway::{Gateway, PAUSE, PRICE, SECRET, dice};
use super::{lines, rare};
use crate::faults::sale::{MANY_USERS, Sale, put_on_sale};
use testkit::wait::eventually_or_tell;

/// Few, so that the sale sells out and what comes back is sold again.
const STOCK: i32 = 20;
const BUYERS: usize = 4;
/// Of this worker's own: the crowd of the free sale begins at the other end.
const BUYERS_EACH: i64 = 2_000;

/// A sale for money, its buyers and its administrator.
pub struct Money {
    gateway: Gateway,
    address: SocketAddr,
    voucher: VoucherId,
    /// It is drawn, and has a line.
    drawn: VoucherId,
    stop: Arc<AtomicBool>,
    people: JoinSet<()>,
}

impl Money {
    /// Beside `sale`, on the same servers, in the round of this seed. Nobody comes before [`Money::begin`].
    pub async fn open(sale: &Sale, seed: u64) -> Self {
        let now = SystemClock.now();
        let hour = chrono::TimeDelta::hours(1);
        let free = NewVoucher::free("for money", STOCK, now - hour, now + hour);
        let new = NewVoucher { price: Some(PRICE), pay_within_s: Some(2), ..free };
        let voucher = put_on_sale(&sale.pool, &new).await;
        let drawn = lines::open(&sale.pool, &mut dice(seed, "the draw")).await;
        let (gateway, address) = Gateway::start(sale.client.clone(), seed).await;
        Self { gateway, address, voucher, drawn, stop: Arc::default(), people: JoinSet::new() }
    }

    /// What a node has to know of the gateway, and of the administrator.
    pub fn configure(&self, command: &mut Command) {
        command
            .env("SECKILL_PAYMENTS", "http")
            .env("SECKILL_PAYMENTS_URL", format!("http://{}/", self.address))
            .env("SECKILL_PAYMENTS_SECRET", SECRET)
            .env("SECKILL_PAYMENTS_ASK_WITHIN", "5s")
            .env("SECKILL_ADMIN_PHONES", format!("+999{:011}", MANY_USERS));
    }

    /// Buyers come to `nodes`, and the administrator.
    pub fn begin(&mut self, sale: &Sale, nodes: &[SocketAddr]) {
        *self.gateway.nodes.lock().unwrap() = nodes.to_vec();
        for worker in 0..BUYERS {
            let first = i64::from(MANY_USERS) - 1 - worker as i64 * BUYERS_EACH;
            let buyers: Vec<(i64, String)> =
                (first - BUYERS_EACH + 1..=first).map(|buyer| (buyer, sale.token(buyer))).collect();
            self.people.spawn(buy(self.gateway.clone(), self.voucher, buyers, self.stop.clone()));
        }
        let last = i64::from(MANY_USERS) - BUYERS as i64 * BUYERS_EACH;
        lines::begin(&mut self.people, (sale, &self.gateway), (self.drawn, last), &self.stop);
        for (voucher, name) in [(self.voucher, "at the counter"), (self.drawn, "at the line")] {
            let admin = (sale.token(i64::from(MANY_USERS)), self.gateway.dice(name));
            let paid = (sale.pool.clone(), voucher);
            self.people.spawn(administer(self.gateway.clone(), admin, paid, self.stop.clone()));
        }
    }

    /// Sends everybody home, waits until nothing is left to do, and holds the books together.
    pub async fn settle(mut self, sale: &Sale) -> (String, Vec<&'static str>) {
        lines::drawn(&sale.pool, self.drawn).await;
        self.stop.store(true, Ordering::Relaxed);
        while let Some(person) = self.people.join_next().await {
            person.unwrap();
        }
        let seen = Cell::new((0, 0));
        eventually_or_tell(
            "no order waits for time, no refund for the gateway, no word of it for a node",
            async || {
                let left: i64 = sqlx::query_scalar(
                    "select (select count(*) from orders where voucher_id = any ($1) and status in (1, 5, 7))
                          + (select count(*) from refunds where voucher_id = any ($1) and status = 1)",
                )
                .bind(self.vouchers())
                .fetch_one(&sale.pool)
                .await
                .unwrap();
                let books = self.gateway.books();
                assert!(books.wrong.is_empty(), "{:?}", books.wrong);
                seen.set((left, books.untold));
                seen.get() == (0, 0)
            },
            || format!("(left, untold): {:?}", seen.get()),
        )
        .await;
        (self.judge(sale).await, rare::look(&sale.pool, self.vouchers()).await)
    }

    fn vouchers(&self) -> [i64; 2] {
        [self.voucher, self.drawn].map(VoucherId::get)
    }

    async fn judge(&self, sale: &Sale) -> String {
        let mut lives = Vec::new();
        for voucher in [self.voucher, self.drawn] {
            let audit = seckill::purchase::audit::run(&sale.pool, Some(voucher)).await.unwrap();
            let [audit] = audit.as_slice() else { panic!("{audit:?}") };
            assert!(audit.holds, "{audit:?}");
            lives.push(audit.life);
        }
        let sum = |of: fn(&OrderLives) -> i64| lives.iter().map(of).sum::<i64>();
        let line = lines::judge(sale, self.drawn, &self.gateway).await;
        let paid: Vec<(String, i64, i16)> = sqlx::query_as(
            "select transaction_id, paid_amount, status
             from payments where voucher_id = any ($1) and transaction_id is not null",
        )
        .bind(self.vouchers())
        .fetch_all(&sale.pool)
        .await
        .unwrap();
        let logged: Vec<(String, String)> = sqlx::query_as(
            "select order_id::text, step from order_steps where voucher_id = any ($1)",
        )
        .bind(self.vouchers())
        .fetch_all(&sale.pool)
        .await
        .unwrap();
        let books = self.gateway.books();
        each_has_a_row(&books.done, &logged);
        assert!(books.wrong.is_empty(), "{:?}", books.wrong);
        assert!(lives[0].paid > 0, "nobody paid: the sale did not take place");
        // What the gateway took, the shop knows, once each.
        let mut known: Vec<&str> =
            paid.iter().map(|(transaction, ..)| transaction.as_str()).collect();
        let mut taken: Vec<&str> = books.taken.keys().map(String::as_str).collect();
        known.sort_unstable();
        taken.sort_unstable();
        assert_eq!(known, taken);
        // What the shop applied or gave back is what the gateway kept or gave back.
        let refunds: i64 = books.given_back.values().sum();
        let kept: i64 = books.taken.values().map(|(_, amount)| amount).sum::<i64>() - refunds;
        assert_eq!(kept, sum(|life| life.money_kept), "{lives:?}");
        assert_eq!(books.given_back.len() as i64, sum(|life| life.refunds));
        for (transaction, amount, status) in &paid {
            let is_back = books.given_back.contains_key(transaction);
            assert!(*status == 2 || is_back, "{transaction} of {amount} is nowhere");
        }
        format!(
            "{} paid, {} expired, {} cancelled, {} payments, {} refunds | {line}",
            sum(|life| life.paid),
            sum(|life| life.expired),
            sum(|life| life.cancelled - life.expired),
            sum(|life| life.payments),
            sum(|life| life.refunds),
        )
    }
}

/// Each step of which somebody was told has a row of its own.
fn each_has_a_row(done: &[(String, &str)], logged: &[(String, String)]) {
    let mut told: HashMap<(&str, &str), usize> = HashMap::new();
    for (order, step) in done {
        *told.entry((order, step)).or_default() += 1;
    }
    for (step, times) in told {
        let rows = logged.iter().filter(|(order, is)| (order.as_str(), is.as_str()) == step);
        let rows = rows.count();
        assert!(times <= rows, "{times} were told of {step:?}, and the log has {rows}");
    }
}

/// Buyers, one after the other.
async fn buy(
    gateway: Gateway,
    voucher: VoucherId,
    buyers: Vec<(i64, String)>,
    stop: Arc<AtomicBool>,
) {
    for (buyer, token) in buyers {
        let path = format!("/api/vouchers/{voucher}/orders");
        let mut dice = gateway.dice(("buyer", buyer));
        let buying = gateway.insist(Method::POST, &path, &token, &stop, dice.random());
        let Some((status, body)) = buying.await else {
            return;
        };
        let order = body["order_id"].as_str();
        match (status, body["code"].as_str(), order) {
            (201, None, Some(order)) | (409, Some("already_bought"), Some(order)) => {
                gateway.decide(order, &token, &stop, dice).await;
            }
            (409, Some("sold_out" | "order_in_progress"), _) => tokio::time::sleep(PAUSE).await,
            _ => panic!("user {buyer} was told {status} {body}"),
        }
    }
}

/// The paid orders of a voucher.
async fn paid_orders(pool: &sqlx::PgPool, voucher: VoucherId) -> Vec<i64> {
    let orders = sqlx::query_scalar("select id from orders where voucher_id = $1 and status = 2");
    // The database may be away.
    orders.bind(voucher.get()).fetch_all(pool).await.unwrap_or_default()
}

/// Refunds some of the paid orders, and redeems some.
async fn administer(
    gateway: Gateway,
    (token, mut dice): (String, StdRng),
    (pool, voucher): (sqlx::PgPool, VoucherId),
    stop: Arc<AtomicBool>,
) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut orders = paid_orders(&pool, voucher).await;
        orders.retain(|_| dice.random_bool(0.2));
        for order in orders {
            // Both at once: one of them is refused.
            let step = async |step: &str, turn| {
                let path = format!("/api/orders/{order}/{step}");
                gateway.insist(Method::POST, &path, &token, &stop, turn).await
            };
            let (refund, redemption) =
                tokio::join!(step("refund", dice.random()), step("redemption", dice.random()));
            for (told, step) in [(refund, "refund_begun"), (redemption, "redeemed")] {
                let Some((status, body)) = told else { continue };
                assert!([200, 202, 409].contains(&status), "{status} {body}");
                if status != 409 {
                    gateway.books().done.push((order.to_string(), step));
                }
            }
        }
    }
}
