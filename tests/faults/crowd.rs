//! Buyers who do not give up: each asks until it has its order, then the next one comes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Response;
use reqwest::header::RETRY_AFTER;
use serde_json::Value;
use tokio::task::JoinSet;

use super::sale::Sale;
use testkit::processes::Node;
use testkit::wait::{eventually, eventually_or_tell};

/// Buyers at once, spread over the nodes.
pub const WIDTH: usize = 16;
/// Orders that make a sale one that is under way.
const UNDER_WAY: usize = 200;
/// Before a buyer who was not served asks again.
const PAUSE: Duration = Duration::from_millis(20);

/// What a buyer was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Ordered(i64),
    AlreadyBought(i64),
    /// 503 `unavailable`, with `Retry-After`.
    Unavailable,
    /// Anything else: the code, or what there is in its place.
    Else(String),
    /// The connection could not be made, or broke.
    Nothing,
}

impl What {
    /// The buyer knows of an order.
    pub const fn is_served(&self) -> bool {
        matches!(self, Self::Ordered(_) | Self::AlreadyBought(_))
    }
}

/// Reads an answer. One that does not come in time reads `Else("hang")`.
pub async fn read(answer: reqwest::Result<Response>) -> What {
    let broken = |error: reqwest::Error| {
        if error.is_timeout() { What::Else("hang".to_owned()) } else { What::Nothing }
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return broken(error),
    };
    let (status, retry_after) =
        (answer.status().as_u16(), answer.headers().get(RETRY_AFTER).cloned());
    let text = match answer.text().await {
        Ok(text) => text,
        Err(error) => return broken(error),
    };
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    let order = body["order_id"].as_str().and_then(|id| id.parse().ok());
    match (status, body["code"].as_str(), order) {
        (201, None, Some(order)) => What::Ordered(order),
        (409, Some("already_bought"), Some(order)) => What::AlreadyBought(order),
        (503, Some("unavailable"), None) if retry_after.is_some() => What::Unavailable,
        (409, Some(code), None) => What::Else(code.to_owned()),
        _ => What::Else(format!("{status} {text}")),
    }
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub worker: usize,
    pub buyer: i64,
    pub sent: Instant,
    pub took: Duration,
    pub what: What,
}

pub struct Crowd {
    answers: Arc<Mutex<Vec<Answer>>>,
    stop: Arc<AtomicBool>,
    workers: JoinSet<()>,
}

impl Crowd {
    /// Worker *w* asks node *w* mod nodes, in the names of the users *w* + 1, *w* + 17, …
    pub fn start<'a>(sale: &Sale, nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let nodes: Vec<SocketAddr> = nodes.into_iter().map(|node| node.address).collect();
        let answers = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let mut workers = JoinSet::new();
        for worker in 0..WIDTH {
            let node = nodes[worker % nodes.len()];
            let paths = sale.paths().into_iter().map(|path| format!("http://{node}{path}"));
            let urls: Vec<String> = paths.collect();
            let tokens = sale.tokens_for(worker);
            let (client, answers, stop) = (sale.client.clone(), answers.clone(), stop.clone());
            workers.spawn(async move {
                for (buyer, token) in tokens {
                    // Buyers of one worker are WIDTH apart.
                    let url = &urls[buyer as usize / WIDTH % urls.len()];
                    loop {
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        let sent = Instant::now();
                        let what = read(client.post(url).bearer_auth(&token).send().await).await;
                        let served = what.is_served();
                        let took = sent.elapsed();
                        answers.lock().unwrap().push(Answer { worker, buyer, sent, took, what });
                        if served {
                            break;
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            });
        }
        Self { answers, stop, workers }
    }

    /// The same, when the sale is under way.
    pub async fn buying<'a>(sale: &Sale, nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let crowd = Self::start(sale, nodes);
        crowd.orders_after(Instant::now(), UNDER_WAY).await;
        crowd
    }

    pub fn count(&self, wanted: impl Fn(&Answer) -> bool) -> usize {
        self.answers.lock().unwrap().iter().filter(|answer| wanted(answer)).count()
    }

    /// Waits until `orders` purchases that were sent after `since` were acknowledged.
    pub async fn orders_after(&self, since: Instant, orders: usize) {
        let ordered =
            |answer: &Answer| answer.sent >= since && matches!(answer.what, What::Ordered(_));
        let goes_on = async || self.count(ordered) >= orders;
        let last = || {
            let answers = self.answers.lock().unwrap();
            format!("{:#?}", &answers[answers.len().saturating_sub(WIDTH)..])
        };
        eventually_or_tell("the sale goes on", goes_on, last).await;
    }

    /// How long after `since` each worker's first order was acknowledged, of those that were
    /// asked for after it.
    pub fn first_orders_after(&self, since: Instant) -> [Option<Duration>; WIDTH] {
        let mut first = [None; WIDTH];
        for answer in self.answers.lock().unwrap().iter() {
            if answer.sent >= since && matches!(answer.what, What::Ordered(_)) {
                first[answer.worker].get_or_insert(answer.sent + answer.took - since);
            }
        }
        first
    }

    /// Waits until every buyer was told `unavailable` on asking after `since`.
    pub async fn refusals_after(&self, since: Instant) {
        eventually("every buyer was told that the service is unavailable", async || {
            (0..WIDTH).all(|worker| {
                let refused = |answer: &Answer| {
                    answer.worker == worker
                        && answer.sent >= since
                        && answer.what == What::Unavailable
                };
                self.count(refused) > 0
            })
        })
        .await;
    }

    /// Sends the buyers home and brings back what they were told.
    pub async fn go_home(mut self) -> Vec<Answer> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(worker) = self.workers.join_next().await {
            worker.unwrap();
        }
        std::mem::take(&mut *self.answers.lock().unwrap())
    }

    /// The same. What they were told may be told, and is in the books: see [`only`] and [`Sale::settle`].
    pub async fn settle(self, sale: &Sale, of_the_fault: &[What]) -> Vec<Answer> {
        let answers = self.go_home().await;
        only(&answers, of_the_fault);
        sale.settle(&answers).await;
        answers
    }
}

/// Fails on an answer that no buyer should ever get, and that does not belong to the fault.
pub fn only(answers: &[Answer], of_the_fault: &[What]) {
    let usual = [What::Unavailable, in_progress()];
    let mut unexpected: Vec<_> = answers.iter().filter(|answer| !answer.what.is_served()).collect();
    unexpected.retain(|it| !usual.contains(&it.what) && !of_the_fault.contains(&it.what));
    assert!(unexpected.is_empty(), "{unexpected:#?}");
}

pub fn in_progress() -> What {
    What::Else("order_in_progress".to_owned())
}
