//! The payment gateway of the sales for money, and what it did.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use rand::RngExt;
use seckill::http::webhook::{SIGNATURE, SigningKey};
use serde_json::{Value, json};

pub(super) const SECRET: &str = "what the gateway and the shop share";

/// What the gateway did.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// By transaction: the payment, and the amount.
    pub(super) taken: HashMap<String, (String, i64)>,
    /// By transaction: the amount. What is asked for again is given back once.
    pub(super) given_back: HashMap<String, i64>,
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
    pub(super) client: reqwest::Client,
    pub(super) nodes: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Gateway {
    /// One that listens at the address beside it.
    pub(super) async fn start(client: reqwest::Client) -> (Self, SocketAddr) {
        let key = SigningKey::new(SECRET.as_bytes());
        let gateway = Self { books: Arc::default(), key, client, nodes: Arc::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/", post(Self::asked)).with_state(gateway.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (gateway, address)
    }

    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    /// One of the nodes, which may be dead.
    pub(super) fn node(&self) -> SocketAddr {
        let nodes = self.nodes.lock().unwrap();
        nodes[rand::rng().random_range(0..nodes.len())]
    }

    /// Takes the buyer's money, now and then twice, and says so, now and then much too late.
    pub(super) fn pay(&self, payment: &str, amount: i64) {
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

pub(super) fn chance(share: f64) -> bool {
    rand::rng().random_bool(share)
}
