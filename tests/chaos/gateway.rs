//! The payment gateway of the sales for money, and what it did; and how its customers ask the nodes.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use seckill::http::webhook::{SIGNATURE, SigningKey};
use serde_json::{Value, json};
use testkit::shop::till::{notice, succeeded};

pub(super) const PRICE: i64 = 8_000;
pub(super) const PAUSE: Duration = Duration::from_millis(20);
pub(super) const SECRET: &str = "what the gateway and the shop share";

/// What the gateway did.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// By transaction: the payment, and the amount.
    pub(super) taken: HashMap<String, (String, i64)>,
    /// By transaction: the amount. What is asked for again is given back once.
    pub(super) given_back: HashMap<String, i64>,
    /// Refunds that failed after all, by the name that the shop gave them: they are asked for by another.
    failed: HashSet<String>,
    /// Transactions that are charged back, until the shop was told that it has won.
    disputed: HashSet<String>,
    /// Steps of which somebody was told that they were done: the order, and what the log of steps calls it.
    pub(super) done: Vec<(String, &'static str)>,
    /// Notifications that no server has taken yet.
    pub(super) untold: usize,
    /// Answers that no gateway should get.
    pub(super) wrong: Vec<String>,
    /// Entries of which a buyer was told, with the buyer; and those that a buyer meant to take back.
    pub(super) entered: Vec<(String, i64)>,
    pub(super) left: HashSet<String>,
}

/// The gateway: a service beside the nodes, which nobody breaks.
#[derive(Clone)]
pub(super) struct Gateway {
    books: Arc<Mutex<Books>>,
    key: SigningKey,
    seed: u64,
    /// What it makes of what the shop asks.
    whims: Arc<Mutex<StdRng>>,
    client: reqwest::Client,
    pub(super) nodes: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Gateway {
    /// One that listens at the address beside it, in the round of this seed.
    pub(super) async fn start(client: reqwest::Client, seed: u64) -> (Self, SocketAddr) {
        let key = SigningKey::new(SECRET.as_bytes());
        let whims = Arc::new(Mutex::new(dice(seed, "the gateway")));
        let (books, nodes) = (Arc::default(), Arc::default());
        let gateway = Self { books, key, seed, whims, client, nodes };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/", post(Self::asked)).with_state(gateway.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (gateway, address)
    }

    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    /// What `actor` chooses by in this round.
    pub(super) fn dice(&self, actor: impl Hash) -> StdRng {
        dice(self.seed, actor)
    }

    /// One of the nodes in turn, which may be dead.
    fn node(&self, turn: u32) -> SocketAddr {
        let nodes = self.nodes.lock().unwrap();
        nodes[turn as usize % nodes.len()]
    }

    /// One request after the other, to the nodes in turn from this one on, each until it is answered for good: the status
    /// and the body.
    pub(super) async fn insist(
        &self,
        method: Method,
        path: &str,
        token: &str,
        stop: &AtomicBool,
        mut turn: u32,
    ) -> Option<(u16, Value)> {
        while !stop.load(Ordering::Relaxed) {
            let url = format!("http://{}{path}", self.node(turn));
            turn = turn.wrapping_add(1);
            let request = self.client.request(method.clone(), url).bearer_auth(token);
            if let Ok(answer) = request.send().await {
                let status = answer.status().as_u16();
                match (status, answer.bytes().await) {
                    (204, Ok(_)) => return Some((status, Value::Null)),
                    (429 | 503, _) | (_, Err(_)) => {}
                    (_, Ok(body)) => {
                        if let Ok(body) = serde_json::from_slice(&body) {
                            return Some((status, body));
                        }
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        None
    }

    /// What a buyer does with an order: seven of ten pay, one cancels, two do nothing.
    pub(super) async fn decide(
        &self,
        order: &str,
        token: &str,
        stop: &AtomicBool,
        mut dice: StdRng,
    ) {
        let (wish, turn) = (dice.random_range(0..10), dice.random());
        let ask = async |what: &str| {
            self.insist(Method::POST, &format!("/api/orders/{order}/{what}"), token, stop, turn)
                .await
        };
        if wish < 7 {
            if let Some((201, payment)) = ask("payments").await {
                // Somebody pays what is not asked for.
                let more = i64::from(dice.random_bool(0.05));
                let payment = payment["payment_id"].as_str().unwrap();
                self.pay(payment, PRICE + more, &mut dice);
            }
        } else if wish < 8 {
            let told = ask("cancellation").await.map(|(status, _)| status);
            assert!(matches!(told, None | Some(200 | 409)), "{told:?}");
            if told == Some(200) {
                self.books().done.push((order.to_owned(), "cancelled"));
            }
        }
    }

    /// Takes the buyer's money, now and then twice, and says so, now and then much too late.
    fn pay(&self, payment: &str, amount: i64, dice: &mut StdRng) {
        let transaction = |number| format!("{payment}-{number}");
        let times = if dice.random_bool(0.05) { 2 } else { 1 };
        for transaction in (0..times).map(transaction) {
            let took = (payment.to_owned(), amount);
            self.books().taken.insert(transaction.clone(), took);
            let said = succeeded(payment, &transaction, amount);
            let late = if dice.random_bool(0.15) { 3_500 } else { 800 };
            // What comes twice comes at different times: also the second before the first.
            for _ in 0..dice.random_range(1..=3) {
                self.tell(said.clone(), late, dice);
            }
        }
        if dice.random_bool(0.08) {
            // It gives the money back by itself, and may say so before it says that it took it.
            let transaction = transaction(0);
            self.books().given_back.insert(transaction.clone(), amount);
            self.tell(notice("refunded", payment, &transaction, amount), 2_500, dice);
        } else if times == 1 && dice.random_bool(0.08) {
            // The shop wins, and is told so before it is told of what, or after.
            let transaction = transaction(0);
            self.books().disputed.insert(transaction.clone());
            for status in ["charged_back", "charge_back_won"] {
                let mut said = notice(status, payment, &transaction, amount);
                said["return_id"] = json!("the dispute");
                self.tell(said, 2_500, dice);
            }
        }
        if dice.random_bool(0.2) {
            // It was declined first, and that is heard whenever.
            let said = json!({ "payment_id": payment, "status": "failed" });
            self.tell(said, 1_500, dice);
        }
    }

    /// Says something, within so many milliseconds, until a node takes it.
    fn tell(&self, said: Value, late: u64, dice: &mut StdRng) {
        self.books().untold += 1;
        let (gateway, turn) = (self.clone(), dice.random_range(0..2));
        let delay = Duration::from_millis(dice.random_range(0..late));
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let body = said.to_string();
            for turn in turn.. {
                let url = format!("http://{}/api/payments/notifications", gateway.node(turn));
                let signature = gateway.key.sign(1, body.as_bytes());
                let request = gateway.client.post(url).header(SIGNATURE, signature);
                let answer = request.body(body.clone()).send().await;
                match answer.map(|answer| answer.status()) {
                    Ok(StatusCode::NO_CONTENT) => break,
                    // Of money that went back meanwhile nobody can say that it never came.
                    Ok(StatusCode::UNPROCESSABLE_ENTITY) if said["status"] == "failed" => break,
                    Ok(status) if status != StatusCode::SERVICE_UNAVAILABLE => {
                        gateway.books().wrong.push(format!("{status} to {body}"));
                        break;
                    }
                    _ => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
            let mut books = gateway.books();
            books.untold -= 1;
            if said["status"] == "charge_back_won" {
                books.disputed.remove(said["transaction_id"].as_str().unwrap_or_default());
            }
        });
    }

    /// What the shop asks for. An assertion here would reach no test.
    async fn asked(
        State(gateway): State<Self>,
        headers: HeaderMap,
        body: Bytes,
    ) -> (StatusCode, Json<Value>) {
        let (status, answer) = gateway.answer(&headers, &body).unwrap_or_else(|| {
            gateway.books().wrong.push(format!("asked for {body:?} with {headers:?}"));
            (StatusCode::BAD_REQUEST, Value::Null)
        });
        (status, Json(answer))
    }

    /// `None`: the shop should not ask for this, or has not signed it.
    fn answer(&self, headers: &HeaderMap, body: &Bytes) -> Option<(StatusCode, Value)> {
        let signature = headers.get(SIGNATURE)?.to_str().ok()?;
        let asked: Value = serde_json::from_slice(body).ok()?;
        if !self.key.verifies(signature, body) {
            return None;
        }
        let payment = asked["payment_id"].as_str()?;
        let chance = |share| self.whims.lock().unwrap().random_bool(share);
        let broken = (StatusCode::INTERNAL_SERVER_ERROR, Value::Null);
        let done = (StatusCode::OK, Value::Null);
        match asked["type"].as_str()? {
            "payment" => {
                let url = format!("https://pay.example/{payment}");
                return Some((StatusCode::OK, json!({ "pay_url": url })));
            }
            "cancellation" | "refund" | "payment_status" if chance(0.2) => return Some(broken),
            "cancellation" => return Some(done),
            // What it took it may not know itself yet.
            "payment_status" if chance(0.5) => {
                return Some((StatusCode::OK, json!({ "status": "pending" })));
            }
            "payment_status" => return Some((StatusCode::OK, self.status_of(payment))),
            "refund" => {}
            _ => return None,
        }
        // The answer is lost: the shop asks again.
        let answer = if chance(0.15) { broken.clone() } else { done };
        let (name, amount) = (asked["refund_id"].as_str()?, asked["amount"].as_i64()?);
        let transaction = asked["transaction_id"].as_str()?;
        let fails = !name.contains('-') && chance(0.1);
        let mut books = self.books();
        if books.disputed.contains(transaction) {
            return Some(broken);
        } else if books.failed.contains(name) {
            return Some(answer);
        } else if fails && !books.given_back.contains_key(transaction) {
            books.failed.insert(name.to_owned());
            drop(books);
            let mut said = notice("refund_failed", payment, transaction, amount);
            said["return_id"] = json!(name);
            let mut whims = self.whims.lock().unwrap();
            self.tell(said.clone(), 1_500, &mut whims);
            self.tell(said, 3_500, &mut whims);
            return Some(answer);
        }
        books.given_back.insert(transaction.to_owned(), amount);
        Some(answer)
    }
}

impl Gateway {
    fn status_of(&self, payment: &str) -> Value {
        let books = self.books();
        let taken = books.taken.iter().find(|(_, (of, _))| of == payment);
        taken.map_or_else(
            || json!({ "status": "pending" }),
            |(transaction, (_, amount))| succeeded(payment, transaction, *amount),
        )
    }
}

/// What `actor` chooses by in the round of this seed, whatever others have chosen before.
pub(super) fn dice(seed: u64, actor: impl Hash) -> StdRng {
    let mut hasher = DefaultHasher::new();
    (seed, actor).hash(&mut hasher);
    StdRng::seed_from_u64(hasher.finish())
}

#[test]
fn what_an_actor_chooses_is_of_the_seed_and_of_nobody_else() {
    let chooses = |seed, buyer: i64| dice(seed, ("a buyer", buyer)).random::<u64>();
    let first = chooses(1, 7);
    assert_ne!(first, chooses(1, 8));
    assert_ne!(first, chooses(2, 7));
    assert_eq!(first, chooses(1, 7));
}
