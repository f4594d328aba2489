//! A rush as JSON: the plan that goes into the process in which the load is made, and
//! the lines that come out of it.
//!
//! The load comes from a process of its own, so that it neither shares a runtime with
//! the judge nor is slowed by it. Both sides use these types.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::LoadError;
use super::latency::{Latencies, LatencyMs};
use super::outcome::{ACCEPTED, NOT_SENT, ORDERED};
use super::rush::{MAX_REQUESTS, PlannedRequest, RequestAnswer, RushPlan, RushResult};

/// The code by which a server says that the buyer already holds an order. A buyer who
/// got it was served, by this attempt's sibling or earlier.
const ALREADY_BOUGHT: &str = "already_bought";

/// What a crowd is to do, the one JSON document it reads.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrowdPlan {
    /// The servers.
    pub nodes: Vec<SocketAddr>,
    /// Path to `POST` to, of each buyer who does not say otherwise: `/api/vouchers/1/orders`.
    pub path: Arc<str>,
    /// The buyers, each user once.
    pub buyers: Vec<Buyer>,
    /// Attempts of each buyer who does not say otherwise. Attempt *k* of buyer *i* goes to
    /// node (*i* + *k*) mod nodes, both counted from 0.
    pub attempts: usize,
    /// The most connections to open, over all nodes.
    pub max_connections: usize,
    /// Decides the order of the buyers.
    pub seed: u64,
    /// How long to wait for one answer, in milliseconds; default 10,000.
    #[serde(default = "default_answer_timeout_ms")]
    pub answer_timeout_ms: u64,
    /// How long everything may take, in milliseconds; default 120,000.
    #[serde(default = "default_total_timeout_ms")]
    pub total_timeout_ms: u64,
}

fn default_answer_timeout_ms() -> u64 {
    10_000
}

fn default_total_timeout_ms() -> u64 {
    120_000
}

/// One of the crowd. Without `Debug`: the token is as good as the user.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buyer {
    /// Comes back in the report, and means nothing here.
    pub user_id: Arc<str>,
    /// Sent as `authorization: Bearer <token>`.
    pub token: Arc<str>,
    /// How often this one tries, where it is not as often as the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<usize>,
    /// Where this one posts to, where it is not where the others do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
}

/// A user, by whatever names it, with a token.
impl<U: ToString> From<&(U, String)> for Buyer {
    fn from((user, token): &(U, String)) -> Self {
        let (user_id, token) = (user.to_string().into(), token.as_str().into());
        Self { user_id, token, attempts: None, path: None }
    }
}

impl CrowdPlan {
    /// All attempts of all buyers. [`PlannedRequest::buyer`] is the index into
    /// [`CrowdPlan::buyers`].
    ///
    /// # Errors
    ///
    /// [`LoadError::TooManyRequests`] or [`LoadError::NothingToSend`], before any of them
    /// is made.
    pub fn rush_plan(&self) -> Result<RushPlan, LoadError> {
        let nodes = self.nodes.len();
        let requests = self.requests();
        if requests > MAX_REQUESTS {
            return Err(LoadError::TooManyRequests { requests, max: MAX_REQUESTS });
        }
        if requests == 0 || nodes == 0 {
            return Err(LoadError::NothingToSend { requests, nodes });
        }
        let request = |buyer: usize, attempt: usize| PlannedRequest {
            node: (buyer + attempt) % nodes,
            path: Arc::clone(self.path_of(buyer)),
            token: Arc::clone(&self.buyers[buyer].token),
            buyer: buyer as u64,
        };
        Ok(RushPlan {
            nodes: self.nodes.clone(),
            requests: (0..self.buyers.len())
                .flat_map(|buyer| (0..self.attempts_of(buyer)).map(move |k| request(buyer, k)))
                .collect(),
            max_connections: self.max_connections,
            answer_timeout: Duration::from_millis(self.answer_timeout_ms),
            total_timeout: Duration::from_millis(self.total_timeout_ms),
            seed: self.seed,
        })
    }

    /// Requests in the plan, the `total` of its progress.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.requests() as u64
    }

    fn requests(&self) -> usize {
        (0..self.buyers.len()).fold(0, |sum, buyer| sum.saturating_add(self.attempts_of(buyer)))
    }

    fn attempts_of(&self, buyer: usize) -> usize {
        self.buyers[buyer].attempts.unwrap_or(self.attempts)
    }

    fn path_of(&self, buyer: usize) -> &Arc<str> {
        self.buyers[buyer].path.as_ref().unwrap_or(&self.path)
    }
}

/// Attempts by outcome (see [`outcome`](super::outcome)).
pub type Outcomes = BTreeMap<String, u64>;

/// Attempts whose outcome is none of `codes`.
#[must_use]
pub fn count_others(outcomes: &Outcomes, codes: &[&str]) -> u64 {
    let others = outcomes.iter().filter(|(code, _)| !codes.contains(&code.as_str()));
    others.map(|(_, count)| count).sum()
}

/// One line of a crowd's output: `{"progress":{…}}` or, last, `{"report":{…}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrowdLine {
    /// How far it has come.
    Progress {
        /// Requests that have their outcome.
        done: u64,
        /// Requests in the plan.
        total: u64,
    },
    /// The end.
    Report(CrowdReport),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrowdReport {
    /// Attempts that left: all but the `not_sent` ones.
    pub sent: u64,
    /// Attempts by outcome; all together the plan's total.
    pub outcomes: Outcomes,
    /// The same of each path.
    pub outcomes_by_path: BTreeMap<Arc<str>, Outcomes>,
    /// Every 201, one entry each, in the order of the plan.
    pub acknowledged: Vec<AcknowledgedOrder>,
    /// Connections the attempts were spread over.
    pub connections: usize,
    /// From the barrier to the last answer, in milliseconds.
    pub elapsed_ms: f64,
    /// Answers of any kind a second.
    pub answers_per_s: f64,
    /// Latency of all answers, in milliseconds; `null` when there was none.
    pub latency_ms: Option<LatencyMs>,
    /// Latency of the 201s, in milliseconds; `null` when there was none.
    pub latency_ordered_ms: Option<LatencyMs>,
    /// The buyers of whose attempts none was `ordered`, `accepted` or `already_bought`, counted by
    /// the set of outcomes they got.
    pub refused_buyers: Vec<RefusedBuyers>,
}

/// An order that the server has acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcknowledgedOrder {
    /// [`Buyer::user_id`].
    pub user_id: Arc<str>,
    /// The order; `null` when the 201 did not carry an `order_id` that is a string.
    pub order_id: Option<String>,
}

/// Buyers who all went away with the same answers, and without an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedBuyers {
    /// The set of outcomes that each of them got, sorted.
    pub codes: Vec<String>,
    /// How many they are.
    pub buyers: u64,
}

impl CrowdReport {
    /// Sums up `result`, which came from `plan`.
    #[must_use]
    pub fn new(plan: &CrowdPlan, result: RushResult) -> Self {
        let refused_buyers = refused_buyers(&result.answers);
        let elapsed_s = result.elapsed.as_secs_f64();
        let (mut all, mut ordered) = (Latencies::default(), Latencies::default());
        let mut outcomes = Outcomes::new();
        let mut outcomes_by_path: BTreeMap<Arc<str>, Outcomes> = BTreeMap::new();
        let mut acknowledged = Vec::new();
        let (mut sent, mut answered) = (0_u64, 0_u64);
        for answer in result.answers {
            sent += u64::from(answer.outcome != NOT_SENT);
            if answer.is_answered() {
                answered += 1;
                all.record(answer.latency);
            }
            let buyer = answer.buyer as usize;
            let of_path = outcomes_by_path.entry(Arc::clone(plan.path_of(buyer))).or_default();
            for outcomes in [of_path, &mut outcomes] {
                *outcomes.entry(answer.outcome.to_string()).or_default() += 1;
            }
            if answer.outcome == ORDERED {
                ordered.record(answer.latency);
                let user_id = Arc::clone(&plan.buyers[buyer].user_id);
                acknowledged.push(AcknowledgedOrder { user_id, order_id: answer.order_id });
            }
        }
        let per_s = if elapsed_s > 0.0 { answered as f64 / elapsed_s } else { 0.0 };
        Self {
            sent,
            outcomes,
            outcomes_by_path,
            acknowledged,
            connections: result.connections,
            elapsed_ms: (elapsed_s * 1e6).round() / 1e3,
            answers_per_s: (per_s * 10.0).round() / 10.0,
            latency_ms: all.summary(),
            latency_ordered_ms: ordered.summary(),
            refused_buyers,
        }
    }

    /// Every 201 as the numbers of its user and its order; -1 for what is not a number, which
    /// is neither's.
    #[must_use]
    pub fn acknowledged_ids(&self) -> Vec<(i64, i64)> {
        let number = |text: &str| text.parse().unwrap_or(-1);
        let ids = |told: &AcknowledgedOrder| {
            (number(&told.user_id), told.order_id.as_deref().map_or(-1, number))
        };
        self.acknowledged.iter().map(ids).collect()
    }

    /// How many buyers without an order got `code` at least once.
    #[must_use]
    pub fn refused_buyers_told(&self, code: &str) -> u64 {
        let told = |group: &&RefusedBuyers| group.codes.iter().any(|got| got == code);
        self.refused_buyers.iter().filter(told).map(|group| group.buyers).sum()
    }
}

/// The answers come in the order of the plan's requests, all of one buyer together.
fn refused_buyers(answers: &[RequestAnswer]) -> Vec<RefusedBuyers> {
    let mut buyers_by_codes: BTreeMap<BTreeSet<&str>, u64> = BTreeMap::new();
    for of_buyer in answers.chunk_by(|a, b| a.buyer == b.buyer) {
        let codes: BTreeSet<&str> = of_buyer.iter().map(|answer| &*answer.outcome).collect();
        if ![ORDERED, ACCEPTED, ALREADY_BOUGHT].iter().any(|code| codes.contains(code)) {
            *buyers_by_codes.entry(codes).or_default() += 1;
        }
    }
    let group = |(codes, buyers): (BTreeSet<&str>, u64)| RefusedBuyers {
        codes: codes.into_iter().map(str::to_owned).collect(),
        buyers,
    };
    buyers_by_codes.into_iter().map(group).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn plan(buyers: usize, attempts: usize) -> CrowdPlan {
        let buyers: Vec<_> = (0..buyers)
            .map(|i| serde_json::json!({"user_id": format!("{i}"), "token": format!("t{i}")}))
            .collect();
        let plan = serde_json::json!({
            "nodes": ["127.0.0.1:1", "127.0.0.1:2", "[::1]:3"], "path": "/p", "buyers": buyers,
            "attempts": attempts, "max_connections": 8, "seed": 1,
        });
        serde_json::from_value(plan).unwrap()
    }

    fn answer(request: usize, buyer: u64, outcome: &'static str, latency_ms: u64) -> RequestAnswer {
        let order_id = (outcome == ORDERED).then(|| format!("order-{request}"));
        let latency = Duration::from_millis(latency_ms);
        RequestAnswer { request, buyer, outcome: outcome.into(), order_id, latency }
    }

    #[test]
    fn attempts_go_round_the_nodes_beginning_at_the_buyers_own() {
        let rush = plan(2, 4).rush_plan().unwrap();
        let aimed: Vec<_> =
            rush.requests.iter().map(|request| (request.buyer, request.node)).collect();
        assert_eq!(aimed, [(0, 0), (0, 1), (0, 2), (0, 0), (1, 1), (1, 2), (1, 0), (1, 1)]);
        assert_eq!(rush.answer_timeout, Duration::from_secs(10));
        assert_eq!(rush.total_timeout, Duration::from_secs(120));
    }

    #[test]
    fn a_buyer_who_says_so_tries_more_or_less_often_than_the_others_or_elsewhere() {
        let mut plan = plan(3, 1);
        plan.buyers[0].attempts = Some(3);
        plan.buyers[1].attempts = Some(0);
        plan.buyers[2].path = Some("/q".into());
        let rush = plan.rush_plan().unwrap();
        let aimed: Vec<_> =
            rush.requests.iter().map(|request| (request.buyer, request.node)).collect();
        assert_eq!(aimed, [(0, 0), (0, 1), (0, 2), (2, 2)]);
        let paths: Vec<_> = rush.requests.iter().map(|request| &*request.path).collect();
        assert_eq!(paths, ["/p", "/p", "/p", "/q"]);
        assert_eq!(plan.total(), 4);
        let again: CrowdPlan =
            serde_json::from_value(serde_json::to_value(&plan).unwrap()).unwrap();
        assert_eq!(again.total(), 4);
    }

    #[test]
    fn a_plan_without_end_is_refused_before_it_is_made() {
        let refusal = plan(2, usize::MAX).rush_plan().err().unwrap();
        assert!(matches!(refusal, LoadError::TooManyRequests { .. }));
        let refusal = plan(0, 5).rush_plan().err().unwrap();
        assert!(matches!(refusal, LoadError::NothingToSend { requests: 0, nodes: 3 }));
    }

    #[test]
    fn a_report_counts_outcomes_orders_and_those_who_went_away_empty() {
        let answers = vec![
            answer(0, 0, "ordered", 4),
            answer(1, 0, "order_in_progress", 2),
            answer(2, 1, "already_bought", 2),
            answer(3, 1, "sold_out", 2),
            answer(4, 2, "sold_out", 2),
            answer(5, 2, "order_in_progress", 2),
            answer(6, 3, "order_in_progress", 2),
            answer(7, 3, "sold_out", 2),
            answer(8, 4, "no_answer", 9_999),
            answer(9, 4, "not_sent", 9_999),
        ];
        let result = RushResult { answers, connections: 8, elapsed: Duration::from_secs(2) };
        let mut plan = plan(5, 2);
        plan.buyers[2].path = Some("/q".into());
        let report = CrowdReport::new(&plan, result);
        assert_eq!(report.sent, 9);
        assert_eq!(report.outcomes.values().sum::<u64>(), 10);
        assert_eq!(report.outcomes["sold_out"], 3);
        let (p, q) = (&report.outcomes_by_path["/p"], &report.outcomes_by_path["/q"]);
        assert_eq!((p["sold_out"], q["sold_out"], q.len()), (2, 1, 2));
        let acknowledged =
            AcknowledgedOrder { user_id: "0".into(), order_id: Some("order-0".into()) };
        assert_eq!(report.acknowledged, [acknowledged]);
        assert_eq!((report.elapsed_ms, report.answers_per_s), (2_000.0, 4.0));
        assert!(report.latency_ms.is_some_and(|latency| latency.max < 5.0));
        assert!(report.latency_ordered_ms.is_some_and(|latency| latency.p50 > 3.9));
        assert_eq!(report.refused_buyers.len(), 2);
        assert_eq!(report.refused_buyers_told("sold_out"), 2);
        assert_eq!(report.refused_buyers_told("no_answer"), 1);
        assert_eq!(report.refused_buyers_told("already_bought"), 0);
    }

    #[test]
    fn the_lines_read_as_they_are_documented() {
        let line = CrowdLine::Progress { done: 1, total: 2 };
        assert_eq!(serde_json::to_string(&line).unwrap(), r#"{"progress":{"done":1,"total":2}}"#);
        let result = RushResult { answers: vec![], connections: 0, elapsed: Duration::ZERO };
        let line = CrowdLine::Report(CrowdReport::new(&plan(1, 1), result));
        let text = serde_json::to_string(&line).unwrap();
        assert!(text.starts_with(r#"{"report":{"sent":0,"#), "{text}");
        assert_eq!(serde_json::from_str::<CrowdLine>(&text).unwrap(), line);
    }
}
