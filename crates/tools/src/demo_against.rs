//! `seckill demo --against r01`: the same crowd meets a design of the ladder, which the lab serves.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use axum::body::Bytes;
use axum::http::{HeaderMap, Method};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::node::Node;
use load::calls::{self, Call, CallAnswer};
use load::crowd::{Buyer, CrowdPlan, CrowdReport};
use load::latency::LatencyMs;
use load::told::Outcomes;
use load::verdict::{Books, Expectations, Findings, Verdict, judge};
use seckill::config::ConfigError;

/// How long the lab may take to answer; it may have to start servers for the rung's lock.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// How often the books are read until they have stopped moving.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// So many looks in a row must show the same books.
const SAME_LOOKS: usize = 3;
/// How long a rung that writes later may write.
const WRITTEN_WITHIN: Duration = Duration::from_secs(300);

/// A rung that is ready to sell, in a process of its own.
pub struct RungOnSale {
    /// Its full name: `r01_naive`.
    pub rung: String,
    voucher: String,
    node: Node,
}

/// What became of the rung's sale.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // as those of a demo
pub struct RungVerdict {
    pub rung: String,
    pub orders: i64,
    pub remaining: i64,
    #[serde(flatten)]
    pub found: Findings,
    pub outcomes: Outcomes,
    pub elapsed_ms: f64,
    pub orders_per_s: f64,
    pub answers_per_s: f64,
    pub latency_ms: Option<LatencyMs>,
    pub holds: bool,
    /// What was not as it should be, a sentence each.
    pub broken: Vec<String>,
}

#[derive(Deserialize)]
struct NewVoucher {
    voucher_id: String,
    rung: String,
}

/// What the lab says of the books.
#[derive(Deserialize, PartialEq)]
struct RungBooks {
    initial_stock: i64,
    stock: i64,
    orders: i64,
    distinct_users: i64,
}

#[derive(Deserialize)]
struct Problem {
    code: String,
    #[serde(default)]
    detail: Option<String>,
    title: String,
}

impl Problem {
    fn sentence(self) -> String {
        self.detail.unwrap_or(self.title)
    }
}

impl RungOnSale {
    /// Starts the lab on these servers, in scratch databases, and has `rung` sell `stock` vouchers.
    ///
    /// # Errors
    /// [`ConfigError`] when there is no such rung; otherwise when the lab does not start, or the rung lacks
    /// something, which the sentence names.
    pub async fn open(
        rung: &str,
        stock: i32,
        (database_url, redis_url): (&str, &str),
    ) -> anyhow::Result<Self> {
        // A rung's name in a path: what is no name is no rung.
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if rung.is_empty() || !rung.chars().all(is_name) {
            return Err(no_such_rung(rung));
        }
        let node = Node::start_lab(database_url, redis_url).await?;
        let body = Bytes::from(format!(r#"{{"stock":{stock}}}"#));
        let path = format!("/lab/{rung}/vouchers");
        let answer = ask(&node, Method::POST, path, None, body).await?;
        if answer.status == 404 {
            return Err(no_such_rung(rung));
        }
        ensure!(answer.status == 201, "the lab cannot put a voucher on sale: {}", words(&answer));
        let NewVoucher { voucher_id: voucher, rung } = serde_json::from_slice(&answer.body)?;
        let on_sale = Self { rung, voucher, node };
        on_sale.is_ready().await?;
        Ok(on_sale)
    }

    /// A question that only a rung answers whose servers are there. Nobody has bought yet.
    async fn is_ready(&self) -> anyhow::Result<()> {
        let (path, nobody) = (self.path(), Some("1".into()));
        let answer = ask(&self.node, Method::GET, path, nobody, Bytes::new()).await?;
        let problem = serde_json::from_slice::<Problem>(&answer.body);
        match problem.map(|problem| (problem.code == "no_purchase", problem)) {
            Ok((true, _)) => Ok(()),
            Ok((false, problem)) => bail!("{} cannot sell here: {}", self.rung, problem.sentence()),
            Err(_) => bail!("{} cannot sell here: {}", self.rung, words(&answer)),
        }
    }

    fn path(&self) -> String {
        format!("/lab/{}/vouchers/{}/orders", self.rung, self.voucher)
    }

    /// The same crowd, sent here. The lab's users are numbers, and prove nothing.
    #[must_use]
    pub fn crowd(&self, plan: CrowdPlan) -> CrowdPlan {
        let buyer = |number: usize| {
            let number: Arc<str> = (number + 1).to_string().into();
            Buyer { user_id: Arc::clone(&number), token: number, attempts: None, path: None }
        };
        CrowdPlan {
            nodes: vec![self.node.address],
            path: self.path().into(),
            buyers: (0..plan.buyers.len()).map(buyer).collect(),
            ..plan
        }
    }

    /// Judges what the books say once they have stopped moving, and ends the lab.
    ///
    /// # Errors
    /// When the lab does not answer, or does not come to an end.
    pub async fn judge(self, crowd: CrowdReport) -> anyhow::Result<RungVerdict> {
        let RungBooks { initial_stock, stock, orders, distinct_users } = self.last_books().await?;
        let told = crowd.told();
        // Orders that are missing are counted: the lab's API names none by its id.
        let books = Books {
            initial_stock,
            stock,
            orders,
            distinct_users,
            orders_of_crowd: orders,
            lost: 0,
            objections: Vec::new(),
        };
        // A design whose lock was late or lost may refuse, as long as everything is sold all the same.
        let expected =
            Expectations { writes_later: true, excuses_one_in: Some(1), ..Expectations::ALONE };
        let verdict = judge(&books, &told, &expected);
        self.node.stop().await?;
        Ok(RungVerdict::new(self.rung, &books, &verdict, &crowd))
    }

    async fn last_books(&self) -> anyhow::Result<RungBooks> {
        let path = format!("/lab/{}/vouchers/{}", self.rung, self.voucher);
        let until = Instant::now() + WRITTEN_WITHIN;
        let (mut last, mut same) = (None, 0);
        loop {
            let answer = ask(&self.node, Method::GET, path.clone(), None, Bytes::new()).await?;
            ensure!(answer.status == 200, "the books of {}: {}", self.rung, words(&answer));
            let books: RungBooks = serde_json::from_slice(&answer.body)?;
            same = if last.as_ref() == Some(&books) { same + 1 } else { 0 };
            if same >= SAME_LOOKS {
                return Ok(books);
            }
            ensure!(Instant::now() < until, "the books of {} still move", self.rung);
            last = Some(books);
            sleep(LOOK_EVERY).await;
        }
    }
}

impl RungVerdict {
    fn new(rung: String, books: &Books, verdict: &Verdict, crowd: &CrowdReport) -> Self {
        Self {
            rung,
            orders: books.orders,
            remaining: books.stock,
            found: verdict.counts,
            outcomes: crowd.told().outcomes,
            elapsed_ms: crowd.elapsed_ms,
            orders_per_s: crowd.orders_per_s(books.orders),
            answers_per_s: crowd.answers_per_s,
            latency_ms: crowd.latency_ms,
            holds: verdict.holds(),
            broken: verdict
                .findings
                .iter()
                .filter(|finding| !finding.is_excused)
                .map(|finding| finding.sentence.clone())
                .collect(),
        }
    }

    /// The verdict in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { rung, orders, broken, holds, .. } = self;
        match holds {
            true => format!("{rung}: HOLDS this time: {orders} orders."),
            false => format!("{rung}: BROKEN: {}.", broken.join("; ")),
        }
    }
}

fn no_such_rung(name: &str) -> anyhow::Error {
    let name: String = name.chars().take(64).collect();
    ConfigError(format!("--against: there is no rung {name:?}; `seckill lab list` names them all"))
        .into()
}

/// What an answer says that is not as expected.
fn words(answer: &CallAnswer) -> String {
    match serde_json::from_slice::<Problem>(&answer.body) {
        Ok(problem) => problem.sentence(),
        Err(_) => format!("status {}", answer.status),
    }
}

async fn ask(
    node: &Node,
    method: Method,
    path: String,
    token: Option<Arc<str>>,
    body: Bytes,
) -> anyhow::Result<CallAnswer> {
    let headers = HeaderMap::new();
    let call = Call { node: node.address.into(), method, path, token, headers, body };
    let answer = calls::send(&[call], 1, ANSWERS_WITHIN).await.pop().flatten();
    answer.context("the lab does not answer")
}
