//! A rush as JSON: the plan for the process that makes the load, and the lines that it writes.
//!
//! The load comes from another process, so that its judge shares no runtime with it and does not slow
//! it. Both sides use these types.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::LoadError;
use super::latency::{Latencies, LatencyMs};
use super::rush::{BuyerChanges, MAX_REQUESTS, PlannedRequest, RushPlan, RushResult};
use super::target::{Target, TargetNode};
use super::template::Template;
use super::told::Told;

/// What a crowd is to do: the one JSON document that it reads.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrowdPlan {
    /// The servers.
    pub nodes: Vec<SocketAddr>,
    /// The path of every buyer without a path: `/api/vouchers/1/orders`.
    pub path: Arc<str>,
    /// The buyers, each user once.
    pub buyers: Vec<Buyer>,
    /// The attempts of every buyer without a number of attempts. Attempt *k* of buyer *i* goes to node
    /// (*i* + *k*) mod nodes, both counted from 0.
    pub attempts: usize,
    /// The most connections to open, over all nodes.
    pub max_connections: usize,
    /// Decides the order of the buyers.
    pub seed: u64,
    /// How long to wait for one answer, in milliseconds.
    pub answer_timeout_ms: u64,
    /// How long everything may take, in milliseconds.
    pub total_timeout_ms: u64,
    /// After so many milliseconds no further attempt begins; those that never began are not in the
    /// report. By default all are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// The attempts come evenly within so many milliseconds, in the order of the buyers. By default all at
    /// once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrive_within_ms: Option<u64>,
    /// Whether there are lines that tell of each buyer.
    #[serde(default)]
    pub tells_buyers: bool,
}

/// One of the crowd. Without `Debug`: the token is as good as the user.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buyer {
    /// The name of the buyer in the report. It means nothing here.
    pub user_id: Arc<str>,
    /// Sent as `authorization: Bearer <token>`.
    pub token: Arc<str>,
    /// How often this buyer tries; by default as often as the plan says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<usize>,
    /// Where this buyer posts to; by default where the plan says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// So many milliseconds after the opening of the barrier this buyer's attempts come; by default when the plan says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
}

/// A user, by whatever names it, with a token.
impl<U: ToString> From<&(U, String)> for Buyer {
    fn from((user, token): &(U, String)) -> Self {
        let (user_id, token) = (user.to_string().into(), token.as_str().into());
        Self { user_id, token, attempts: None, path: None, after_ms: None }
    }
}

impl CrowdPlan {
    /// All attempts of all buyers. [`PlannedRequest::buyer`] is the index into
    /// [`CrowdPlan::buyers`].
    ///
    /// # Errors
    ///
    /// [`LoadError::TooManyRequests`] or [`LoadError::NothingToSend`], before any request is made.
    pub fn rush_plan(&self) -> Result<RushPlan, LoadError> {
        let nodes = self.nodes.len();
        let requests = self.requests();
        if requests > MAX_REQUESTS {
            return Err(LoadError::TooManyRequests { requests, max: MAX_REQUESTS });
        }
        if requests == 0 || nodes == 0 {
            return Err(LoadError::NothingToSend { requests, nodes });
        }
        let own = Template::from(&*self.path);
        let paths = |path: &Arc<str>| match Arc::ptr_eq(path, &self.path) {
            true => own.clone(),
            false => Template::from(&**path),
        };
        let request = |buyer: usize, attempt: usize| PlannedRequest {
            node: (buyer + attempt) % nodes,
            path: paths(self.path_of(buyer)),
            token: Arc::clone(&self.buyers[buyer].token),
            user: Arc::clone(&self.buyers[buyer].user_id),
            buyer: buyer as u64,
            order: None,
        };
        Ok(RushPlan {
            target: Target::own_api(),
            nodes: self.nodes.iter().copied().map(TargetNode::from).collect(),
            requests: (0..self.buyers.len())
                .flat_map(|buyer| (0..self.attempts_of(buyer)).map(move |k| request(buyer, k)))
                .collect(),
            max_connections: self.max_connections,
            answer_timeout: Duration::from_millis(self.answer_timeout_ms),
            total_timeout: Duration::from_millis(self.total_timeout_ms),
            begin_within: self.for_ms.map(Duration::from_millis),
            arrivals: self.arrivals(),
            seed: self.seed,
            may_lack_connections: false,
            keeps_bodies: false,
        })
    }

    /// Requests in the plan.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.requests() as u64
    }

    fn requests(&self) -> usize {
        (0..self.buyers.len()).fold(0, |sum, buyer| sum.saturating_add(self.attempts_of(buyer)))
    }

    /// When each attempt is due, where they do not all come at once.
    fn arrivals(&self) -> Vec<Duration> {
        let within = self.arrive_within_ms.map(Duration::from_millis);
        if within.is_none() && self.buyers.iter().all(|buyer| buyer.after_ms.is_none()) {
            return Vec::new();
        }
        let (within, all) = (within.unwrap_or_default(), self.requests() as f64);
        let buyers = (0..self.buyers.len())
            .flat_map(|buyer| (0..self.attempts_of(buyer)).map(move |_| &self.buyers[buyer]));
        let arrival = |(request, buyer): (usize, &Buyer)| {
            let evenly = within.mul_f64((request + 1) as f64 / all);
            buyer.after_ms.map_or(evenly, Duration::from_millis)
        };
        buyers.enumerate().map(arrival).collect()
    }

    fn attempts_of(&self, buyer: usize) -> usize {
        self.buyers[buyer].attempts.unwrap_or(self.attempts)
    }

    fn path_of(&self, buyer: usize) -> &Arc<str> {
        self.buyers[buyer].path.as_ref().unwrap_or(&self.path)
    }
}

/// What has happened since the last such line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuyersTold {
    /// From the first line on, in milliseconds.
    pub at_ms: u64,
    /// Requests that have their outcome, in all.
    pub done: u64,
    /// Those of them that were told yes.
    pub ordered: u64,
    /// The buyers in another state, by their index in the plan.
    pub changes: BuyerChanges,
}

/// One line of a crowd's output: `{"progress":{…}}`, `{"told":{…}}` where the plan asks for it, or, last,
/// `{"report":{…}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrowdLine {
    /// How far it has come.
    Progress {
        /// Requests that have their outcome.
        done: u64,
    },
    /// What each buyer was told.
    Told(BuyersTold),
    /// The end.
    Report(CrowdReport),
}

/// What came of a rush.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrowdReport {
    /// What the buyers of each path were told.
    pub told_at: BTreeMap<Arc<str>, Told>,
    /// Connections over which the attempts went.
    pub connections: usize,
    /// From the barrier to the last answer, in milliseconds.
    pub elapsed_ms: f64,
    /// Answers of any kind a second.
    pub answers_per_s: f64,
    /// Latency of all answers, in milliseconds; `null` when there was none.
    pub latency_ms: Option<LatencyMs>,
}

impl CrowdReport {
    /// Sums up `result`, which came from `plan`.
    #[must_use]
    pub fn new(plan: &CrowdPlan, result: RushResult) -> Self {
        let elapsed_s = result.elapsed.as_secs_f64();
        let (mut latencies, mut answered) = (Latencies::default(), 0_u64);
        for answer in result.answers.iter().filter(|answer| answer.is_answered()) {
            answered += 1;
            latencies.record(answer.latency);
        }
        let mut told_at: BTreeMap<Arc<str>, Told> = BTreeMap::new();
        // The answers have the order of the plan's requests, so those of one buyer are neighbours.
        for of_buyer in result.answers.chunk_by(|a, b| a.buyer == b.buyer) {
            let buyer = of_buyer[0].buyer as usize;
            let told = told_at.entry(Arc::clone(plan.path_of(buyer))).or_default();
            told.add_buyer(&plan.buyers[buyer].user_id, of_buyer);
        }
        let per_s = if elapsed_s > 0.0 { answered as f64 / elapsed_s } else { 0.0 };
        Self {
            told_at,
            connections: result.connections,
            elapsed_ms: (elapsed_s * 1e6).round() / 1e3,
            answers_per_s: (per_s * 10.0).round() / 10.0,
            latency_ms: latencies.summary(),
        }
    }

    /// What the buyers of all paths were told.
    #[must_use]
    pub fn told(&self) -> Told {
        self.told_at.values().fold(Told::default(), Told::plus)
    }

    /// So many orders as a rate. It has four decimals, so that one voucher in an hour is not zero.
    #[must_use]
    pub fn orders_per_s(&self, orders: i64) -> f64 {
        (orders as f64 / self.elapsed_ms.max(1.0) * 1e7).round() / 1e4
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::outcome::ORDERED;
    use crate::rush::RequestAnswer;
    use crate::told::AcknowledgedOrder;

    fn plan(buyers: usize, attempts: usize) -> CrowdPlan {
        let buyers: Vec<_> = (0..buyers)
            .map(|i| serde_json::json!({"user_id": format!("{i}"), "token": format!("t{i}")}))
            .collect();
        let plan = serde_json::json!({
            "nodes": ["127.0.0.1:1", "127.0.0.1:2", "[::1]:3"], "path": "/p", "buyers": buyers,
            "attempts": attempts, "max_connections": 8, "seed": 1, "answer_timeout_ms": 10_000,
            "total_timeout_ms": 120_000,
        });
        serde_json::from_value(plan).unwrap()
    }

    fn answer(request: usize, buyer: u64, outcome: &'static str, latency_ms: u64) -> RequestAnswer {
        let order_id = (outcome == ORDERED).then(|| format!("order-{request}"));
        let latency = Duration::from_millis(latency_ms);
        let outcome = outcome.into();
        let (asked, said) = (Duration::ZERO, None);
        RequestAnswer { request, buyer, outcome, order_id, latency, asked, at: latency, said }
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
        let paths: Vec<_> = rush.requests.iter().map(|request| request.path.clone()).collect();
        assert_eq!(paths, ["/p", "/p", "/p", "/q"].map(Template::from));
        assert_eq!(plan.total(), 4);
        assert_eq!(rush.arrivals, []);
        plan.buyers[2].after_ms = Some(50);
        let ms = Duration::from_millis;
        assert_eq!(plan.rush_plan().unwrap().arrivals, [ms(0), ms(0), ms(0), ms(50)]);
        plan.arrive_within_ms = Some(8);
        assert_eq!(plan.rush_plan().unwrap().arrivals, [ms(2), ms(4), ms(6), ms(50)]);
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
        let (elapsed, examples) = (Duration::from_secs(2), Vec::new());
        let start = Instant::now();
        let result = RushResult { answers, start, connections: 8, elapsed, examples };
        let mut plan = plan(5, 2);
        plan.buyers[2].path = Some("/q".into());
        let report = CrowdReport::new(&plan, result);
        let told = report.told();
        assert_eq!(told.served, 2);
        assert_eq!(told.outcomes.values().sum::<u64>(), 10);
        assert_eq!((told.count("sold_out"), told.count("unavailable")), (3, 0));
        let (p, q) = (&report.told_at["/p"], &report.told_at["/q"]);
        assert_eq!((p.count("sold_out"), q.count("sold_out"), q.outcomes.len()), (2, 1, 2));
        let acknowledged =
            AcknowledgedOrder { user_id: "0".into(), order_id: Some("order-0".into()) };
        assert_eq!((&*told.acknowledged, &*q.acknowledged), (&[acknowledged][..], &[][..]));
        assert_eq!((report.elapsed_ms, report.answers_per_s), (2_000.0, 4.0));
        assert_eq!((report.orders_per_s(3), report.orders_per_s(0)), (1.5, 0.0));
        assert!(report.latency_ms.is_some_and(|latency| latency.max < 5.0));
        // One of them at each path, and one group in all.
        let refused = |told: &Told| -> Vec<u64> {
            told.refused_buyers.iter().map(|group| group.buyers).collect()
        };
        assert_eq!((refused(p), refused(q), refused(&told)), (vec![1, 1], vec![1], vec![2, 1]));
        assert_eq!(told.count_refused(|codes| codes.contains("sold_out")), 2);
        assert_eq!(told.count_refused(|codes| codes.contains("already_bought")), 0);
    }

    #[test]
    fn the_lines_read_as_they_are_documented() {
        let line = CrowdLine::Progress { done: 1 };
        assert_eq!(serde_json::to_string(&line).unwrap(), r#"{"progress":{"done":1}}"#);
        let (answers, examples) = (vec![], vec![]);
        let (start, elapsed) = (Instant::now(), Duration::ZERO);
        let result = RushResult { answers, start, connections: 0, elapsed, examples };
        let line = CrowdLine::Report(CrowdReport::new(&plan(1, 1), result));
        let text = serde_json::to_string(&line).unwrap();
        assert!(text.starts_with(r#"{"report":{"told_at":{}"#), "{text}");
        assert_eq!(serde_json::from_str::<CrowdLine>(&text).unwrap(), line);
    }
}
