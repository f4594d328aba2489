//! Money, while everything breaks: buyers of a priced voucher pay, cancel or do nothing, an administrator
//! refunds and redeems, and a payment gateway of the test's own repeats, delays and reorders what it says.
//! In the end its books and the shop's say the same.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use rand::RngExt;
use seckill::http::webhook::{SIGNATURE, SigningKey};
use seckill::model::{Clock, SystemClock, VoucherId};
use seckill::store::vouchers::{self, NewVoucher};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::faults::sale::{Sale, USERS};
use testkit::wait::eventually;

const SECRET: &str = "what the gateway and the shop share";
const PRICE: i64 = 8_000;
/// Few, so that the sale sells out and what comes back is sold again.
const STOCK: i32 = 20;
const BUYERS: usize = 4;
/// Of this worker's own: the crowd of the free sale begins at the other end.
const BUYERS_EACH: i64 = 2_000;
const PAUSE: Duration = Duration::from_millis(20);

/// What the gateway did.
#[derive(Debug, Default)]
struct Books {
    /// By transaction: the payment, and the amount.
    taken: HashMap<String, (String, i64)>,
    /// By transaction: the amount. What is asked for again is given back once.
    given_back: HashMap<String, i64>,
    /// Steps of which somebody was told that they were done: the order, and what the log of steps calls it.
    done: Vec<(String, &'static str)>,
    /// Notifications that no server has taken yet.
    untold: usize,
    /// Answers that no gateway should get.
    wrong: Vec<String>,
}

/// The gateway: a service beside the nodes, which nobody breaks.
#[derive(Clone)]
struct Gateway {
    books: Arc<Mutex<Books>>,
    key: SigningKey,
    client: reqwest::Client,
    nodes: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Gateway {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    /// One of the nodes, which may be dead.
    fn node(&self) -> SocketAddr {
        let nodes = self.nodes.lock().unwrap();
        nodes[rand::rng().random_range(0..nodes.len())]
    }

    /// Takes the buyer's money, now and then twice, and says so, now and then much too late.
    fn pay(&self, payment: &str, amount: i64) {
        let times = if chance(0.05) { 2 } else { 1 };
        for number in 0..times {
            let transaction = format!("{payment}-{number}-{}", rand::random::<u32>());
            let took = (payment.to_owned(), amount);
            self.books().taken.insert(transaction.clone(), took);
            let said = json!({
                "payment_id": payment, "status": "succeeded", "transaction_id": transaction,
                "amount": amount,
            });
            let late = if chance(0.15) { 3_500 } else { 800 };
            // What comes twice comes at different times: also the second before the first.
            for _ in 0..rand::rng().random_range(1..=3) {
                self.tell(said.clone(), Duration::from_millis(rand::rng().random_range(0..late)));
            }
        }
        if chance(0.08) {
            // It gives the money back by itself, and may say so before it says that it took it.
            let first = self
                .books()
                .taken
                .keys()
                .find(|it| it.starts_with(&format!("{payment}-0-")))
                .cloned();
            let transaction = first.unwrap_or_else(|| unreachable!("it was taken above"));
            self.books().given_back.insert(transaction.clone(), amount);
            let said = json!({
                "payment_id": payment, "status": "refunded", "transaction_id": transaction, "amount": amount,
            });
            self.tell(said, Duration::from_millis(rand::rng().random_range(0..2_500)));
        }
        if chance(0.2) {
            // It was declined first, and that is heard whenever.
            let said = json!({ "payment_id": payment, "status": "failed" });
            self.tell(said, Duration::from_millis(rand::rng().random_range(0..1_500)));
        }
    }

    /// Says something until a node takes it.
    fn tell(&self, said: Value, delay: Duration) {
        self.books().untold += 1;
        let gateway = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let body = said.to_string();
            loop {
                let url = format!("http://{}/api/payments/notifications", gateway.node());
                let signature = gateway.key.sign(1, body.as_bytes());
                let request = gateway.client.post(url).header(SIGNATURE, signature);
                let answer = request.body(body.clone()).send().await;
                match answer.map(|answer| answer.status()) {
                    Ok(StatusCode::NO_CONTENT) => break,
                    Ok(status) if status != StatusCode::SERVICE_UNAVAILABLE => {
                        gateway.books().wrong.push(format!("{status} to {body}"));
                        break;
                    }
                    _ => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
            gateway.books().untold -= 1;
        });
    }

    /// What the shop asks for.
    async fn asked(
        State(gateway): State<Self>,
        headers: HeaderMap,
        body: Bytes,
    ) -> (StatusCode, Json<Value>) {
        let signature = headers[SIGNATURE].to_str().unwrap();
        assert!(gateway.key.verifies(signature, &body), "the shop signs what it says");
        let asked: Value = serde_json::from_slice(&body).unwrap();
        if asked["type"] == "payment" {
            let url = format!("https://pay.example/{}", asked["payment_id"].as_str().unwrap());
            return (StatusCode::OK, Json(json!({ "pay_url": url })));
        }
        let broken = (StatusCode::INTERNAL_SERVER_ERROR, Json(Value::Null));
        if chance(0.2) {
            return broken;
        }
        if asked["type"] == "cancellation" {
            return (StatusCode::OK, Json(Value::Null));
        }
        assert_eq!(asked["type"], "refund");
        let id = asked["transaction_id"].as_str().unwrap().to_owned();
        gateway.books().given_back.insert(id, asked["amount"].as_i64().unwrap());
        // The answer is lost: the shop asks again.
        if chance(0.15) { broken } else { (StatusCode::OK, Json(Value::Null)) }
    }
}

fn chance(share: f64) -> bool {
    rand::rng().random_bool(share)
}

/// A sale for money, its buyers and its administrator.
pub struct Money {
    gateway: Gateway,
    address: SocketAddr,
    voucher: VoucherId,
    stop: Arc<AtomicBool>,
    people: JoinSet<()>,
}

impl Money {
    /// Beside `sale`, on the same servers. Nobody comes before [`Money::begin`].
    pub async fn open(sale: &Sale) -> Self {
        let now = SystemClock.now();
        let hour = chrono::TimeDelta::hours(1);
        let free = NewVoucher::free("for money", STOCK, now - hour, now + hour);
        let new = NewVoucher { price: PRICE, pay_within_s: 2, ..free };
        let voucher = vouchers::create(&sale.pool, &new, now).await.unwrap().id;
        let gateway = Gateway {
            books: Arc::default(),
            key: SigningKey::new(SECRET.as_bytes()),
            client: sale.client.clone(),
            nodes: Arc::default(),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/", post(Gateway::asked)).with_state(gateway.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { gateway, address, voucher, stop: Arc::default(), people: JoinSet::new() }
    }

    /// What a node has to know of the gateway, and of the administrator.
    pub fn configure(&self, command: &mut Command) {
        command
            .env("SECKILL_PAYMENTS", "http")
            .env("SECKILL_PAYMENTS_URL", format!("http://{}/", self.address))
            .env("SECKILL_PAYMENTS_SECRET", SECRET)
            .env("SECKILL_ADMIN_PHONES", format!("+999{:011}", USERS));
    }

    /// Buyers come to `nodes`, and the administrator.
    pub fn begin(&mut self, sale: &Sale, nodes: &[SocketAddr]) {
        *self.gateway.nodes.lock().unwrap() = nodes.to_vec();
        for worker in 0..BUYERS {
            let first = i64::from(USERS) - 1 - worker as i64 * BUYERS_EACH;
            let buyers: Vec<(i64, String)> =
                (first - BUYERS_EACH + 1..=first).map(|buyer| (buyer, sale.token(buyer))).collect();
            self.people.spawn(buy(self.gateway.clone(), self.voucher, buyers, self.stop.clone()));
        }
        let admin = sale.token(i64::from(USERS));
        let paid = (sale.pool.clone(), self.voucher);
        self.people.spawn(administer(self.gateway.clone(), admin, paid, self.stop.clone()));
    }

    /// Sends everybody home, waits until nothing is left to do, and holds the books together.
    pub async fn settle(mut self, sale: &Sale) -> String {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(person) = self.people.join_next().await {
            person.unwrap();
        }
        eventually(
            "no order waits for time, no refund for the gateway, no word of it for a node",
            async || {
                let left: i64 = sqlx::query_scalar(
                "select (select count(*) from orders where voucher_id = $1 and status in (1, 5))
                      + (select count(*) from refunds where voucher_id = $1 and status = 1)",
            )
            .bind(self.voucher.get())
            .fetch_one(&sale.pool)
            .await
            .unwrap();
                left == 0 && self.gateway.books().untold == 0
            },
        )
        .await;
        self.judge(sale).await
    }

    async fn judge(&self, sale: &Sale) -> String {
        let audit = seckill::purchase::audit::run(&sale.pool, Some(self.voucher)).await.unwrap();
        let [audit] = audit.as_slice() else { panic!("{audit:?}") };
        assert!(audit.holds, "{audit:?}");
        let paid: Vec<(String, i64, i16)> = sqlx::query_as(
            "select transaction_id, paid_amount, status
             from payments where voucher_id = $1 and transaction_id is not null",
        )
        .bind(self.voucher.get())
        .fetch_all(&sale.pool)
        .await
        .unwrap();
        let charged_back: i64 = sqlx::query_scalar(
            "select count(*) from orders where voucher_id = $1 and charged_back_at is not null",
        )
        .bind(self.voucher.get())
        .fetch_one(&sale.pool)
        .await
        .unwrap();
        let logged: Vec<(String, String)> =
            sqlx::query_as("select order_id::text, step from order_steps where voucher_id = $1")
                .bind(self.voucher.get())
                .fetch_all(&sale.pool)
                .await
                .unwrap();
        let books = self.gateway.books();
        // Each step of which somebody was told has a row of its own.
        let mut told: HashMap<(&str, &str), usize> = HashMap::new();
        for (order, step) in &books.done {
            *told.entry((order, step)).or_default() += 1;
        }
        for ((order, step), times) in told {
            let rows = logged
                .iter()
                .filter(|row| (row.0.as_str(), row.1.as_str()) == (order, step))
                .count();
            assert!(
                times <= rows,
                "{times} were told that order {order} was {step}, and the log has {rows}"
            );
        }
        assert!(books.wrong.is_empty(), "{:?}", books.wrong);
        assert!(audit.life.paid > 0, "nobody paid: the sale did not take place");
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
        assert_eq!(kept, (audit.life.paid - charged_back) * PRICE, "{audit:?}");
        assert_eq!(books.given_back.len() as i64, audit.life.refunds);
        for (transaction, amount, status) in &paid {
            let is_back = books.given_back.contains_key(transaction);
            assert!(*status == 2 || is_back, "{transaction} of {amount} is nowhere");
        }
        format!(
            "{} paid, {} expired, {} cancelled, {} payments, {} refunds",
            audit.life.paid,
            audit.life.expired,
            audit.life.cancelled - audit.life.expired,
            audit.life.payments,
            audit.life.refunds,
        )
    }
}

/// One request after the other, each until it is answered for good: the status and the body.
async fn insist(
    gateway: &Gateway,
    path: &str,
    token: &str,
    stop: &AtomicBool,
) -> Option<(u16, Value)> {
    while !stop.load(Ordering::Relaxed) {
        let url = format!("http://{}{path}", gateway.node());
        if let Ok(answer) = gateway.client.post(url).bearer_auth(token).send().await {
            let status = answer.status().as_u16();
            if let (false, Ok(body)) = (status == 503, answer.json::<Value>().await) {
                return Some((status, body));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    None
}

/// Buyers, one after the other: seven of ten pay, one cancels, two do nothing.
async fn buy(
    gateway: Gateway,
    voucher: VoucherId,
    buyers: Vec<(i64, String)>,
    stop: Arc<AtomicBool>,
) {
    for (buyer, token) in buyers {
        let path = format!("/api/vouchers/{voucher}/orders");
        let Some((status, body)) = insist(&gateway, &path, &token, &stop).await else { return };
        let order = body["order_id"].as_str();
        match (status, body["code"].as_str(), order) {
            (201, None, Some(order)) | (409, Some("already_bought"), Some(order)) => {
                decide(&gateway, order, &token, &stop).await;
            }
            (409, Some("sold_out" | "order_in_progress"), _) => tokio::time::sleep(PAUSE).await,
            _ => panic!("user {buyer} was told {status} {body}"),
        }
    }
}

async fn decide(gateway: &Gateway, order: &str, token: &str, stop: &AtomicBool) {
    let wish = rand::rng().random_range(0..10);
    if wish < 7 {
        let path = format!("/api/orders/{order}/payments");
        if let Some((201, payment)) = insist(gateway, &path, token, stop).await {
            // Somebody pays what is not asked for.
            let more = i64::from(chance(0.05));
            gateway.pay(payment["payment_id"].as_str().unwrap(), PRICE + more);
        }
    } else if wish < 8 {
        let path = format!("/api/orders/{order}/cancellation");
        let told = insist(gateway, &path, token, stop).await;
        assert!(told.as_ref().is_none_or(|(status, _)| [200, 409].contains(status)), "{told:?}");
        if told.is_some_and(|(status, _)| status == 200) {
            gateway.books().done.push((order.to_owned(), "cancelled"));
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
    token: String,
    (pool, voucher): (sqlx::PgPool, VoucherId),
    stop: Arc<AtomicBool>,
) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        for order in paid_orders(&pool, voucher).await.into_iter().filter(|_| chance(0.2)) {
            // Both at once: one of them is refused.
            let step = async |step: &str| {
                insist(&gateway, &format!("/api/orders/{order}/{step}"), &token, &stop).await
            };
            let (refund, redemption) = tokio::join!(step("refund"), step("redemption"));
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
