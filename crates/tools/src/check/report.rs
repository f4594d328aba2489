//! What came of a check, for programs and for the two who show it to people.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use load::answer_rules::AnswerReader;
use load::latency::LatencyMs;
use load::outcome::ORDERED;
use load::rush::AnswerExample;
use load::verdict::Promise;
use serde::Serialize;
use tokio::time::Instant;

use super::crowds::{BookedRush, CrowdTotals, RushFigures};
use super::judge::Judge;
use super::promises::{PromiseVerdict, Ruling, ThreeValued};
use super::sale_record::SaleRecord;
use super::target::CheckTarget;
use super::words::{self, Words};

/// What came of a check.
#[derive(Debug, Serialize)]
pub struct CheckReport {
    /// The version of this program, with the revision where it is known.
    pub version: String,
    /// When the check began, in UTC.
    pub at: String,
    /// How long it took.
    pub elapsed_ms: u64,
    /// The file.
    pub target: String,
    /// The nodes.
    pub addresses: Vec<String>,
    /// Buyers.
    pub users: usize,
    /// How often a buyer tries who clicks twice.
    pub attempts: usize,
    /// What the order of the buyers was drawn from.
    pub seed: u64,
    /// Whether every promise holds.
    pub holds: bool,
    /// The promises.
    pub promises: Vec<PromiseVerdict>,
    /// The vouchers, in the order of their crowds.
    pub vouchers: Vec<VoucherFigures>,
    /// Attempts by outcome, as they were first answered.
    pub outcomes: BTreeMap<String, u64>,
    /// Examples of answers that no rule knows, and why some did not come.
    pub examples: Vec<ExampleText>,
    /// The rush.
    pub rush: Option<RushRates>,
    /// Of all answers.
    pub latency_ms: Option<LatencyMs>,
    /// What was not tried.
    pub not_tried: Vec<&'static Words>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// What is known of a voucher in the end.
#[derive(Debug, Serialize)]
pub struct VoucherFigures {
    /// What it was for.
    pub crowd: String,
    /// Its id.
    pub voucher: String,
    /// Stock when the crowd came.
    pub stock: Option<i64>,
    /// Yeses that told of an order.
    pub told: i64,
    /// New orders in the books.
    pub orders: Option<i64>,
    /// Stock left in the books.
    pub remaining: Option<i64>,
}

/// An example.
#[derive(Debug, Serialize)]
pub struct ExampleText {
    /// The outcome under which it is counted.
    pub outcome: String,
    /// The crowd.
    pub crowd: &'static str,
    /// The status, where there is one.
    pub status: Option<u16>,
    /// The beginning of the body, or why there is none.
    pub said: String,
}

/// The rates of the rush.
#[derive(Debug, Serialize)]
pub struct RushRates {
    /// Attempts.
    pub attempts: u64,
    /// Connections.
    pub connections: usize,
    /// From the first attempt to the last answer.
    pub elapsed_ms: f64,
    /// Answers a second.
    pub answers_per_s: f64,
    /// Orders in the books that came of it.
    pub durable_orders: Option<i64>,
    /// Orders in the books a second, from the first attempt to the last order.
    pub durable_orders_per_s: Option<f64>,
    /// From the last answer to the last order.
    pub behind_ms: Option<f64>,
}

/// What was asked for.
pub struct CheckTerms<'a> {
    /// When the check began.
    pub begun: DateTime<Utc>,
    /// The same for how long it took.
    pub since: Instant,
    /// The file's name.
    pub file: String,
    /// The target.
    pub target: &'a CheckTarget,
    /// Buyers that were asked for.
    pub wanted: usize,
    /// Buyers that there are.
    pub users: usize,
    /// How often a buyer tries who clicks twice.
    pub attempts: usize,
    /// The seed.
    pub seed: u64,
}

impl CheckReport {
    /// Judges what happened.
    #[must_use]
    pub fn new(terms: &CheckTerms<'_>, sales: &[SaleRecord], totals: &CrowdTotals) -> Self {
        let CheckTerms { target, .. } = terms;
        let judges: Vec<_> = sales.iter().map(|sale| Judge::new(sale, target)).collect();
        let verdict = |promise: Promise| {
            let rulings = sales.iter().zip(&judges).filter(|(_, judge)| judge.is_about(promise));
            let rulings = rulings.map(|(sale, judge)| (sale.name.as_str(), judge.ruling(promise)));
            let cut_short = totals.cut_short.as_ref();
            let missing = |why| ("", Ruling::Unknown(format!("not all crowds were sent: {why}")));
            let rulings = rulings.chain(cut_short.map(missing));
            PromiseVerdict::over(promise, rulings.collect())
        };
        let is_made = |promise: &Promise| match promise {
            Promise::OnePerUser => target.per_user.is_some(),
            Promise::InItsWindow => !target.closed.is_empty(),
            _ => true,
        };
        let promises: Vec<_> = Promise::ALL.iter().copied().filter(is_made).map(verdict).collect();
        let version = env!("CARGO_PKG_VERSION");
        Self {
            version: program::revision()
                .map_or(version.to_owned(), |it| format!("{version} ({it})")),
            at: terms.begun.to_rfc3339_opts(SecondsFormat::Secs, true),
            elapsed_ms: terms.since.elapsed().as_millis() as u64,
            target: terms.file.clone(),
            addresses: target.nodes.iter().map(|node| node.url.clone()).collect(),
            users: terms.users,
            attempts: terms.attempts,
            seed: terms.seed,
            holds: promises.iter().all(|promise| promise.verdict == ThreeValued::Holds),
            promises,
            vouchers: sales.iter().map(figures).collect(),
            outcomes: totals.outcomes.clone(),
            examples: totals.examples.iter().map(example).collect(),
            rush: totals.rush.as_ref().map(rates),
            latency_ms: totals.latencies.summary(),
            not_tried: words::not_tried(target),
            notes: notes(terms, sales, totals),
        }
    }

    /// Whether some promise was broken.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.promises.iter().any(|promise| promise.verdict == ThreeValued::Broken)
    }

    /// The verdict in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let of = |verdict| -> Vec<&str> {
            let all = self.promises.iter().filter(|promise| promise.verdict == verdict);
            all.map(|promise| promise.promise.name()).collect()
        };
        let (broken, unknown) = (of(ThreeValued::Broken), of(ThreeValued::Unknown));
        if !broken.is_empty() {
            return format!("BROKEN: {}.", broken.join(", "));
        }
        if !unknown.is_empty() {
            return format!("UNKNOWN: {}; nothing was found broken.", unknown.join(", "));
        }
        format!("HOLDS: all {} promises.", self.promises.len())
    }
}

fn figures(sale: &SaleRecord) -> VoucherFigures {
    VoucherFigures {
        crowd: sale.name.clone(),
        voucher: sale.voucher.clone(),
        stock: sale.capacity,
        told: sale.promised(),
        orders: sale.new_orders(),
        remaining: sale.after.as_ref().and_then(|after| after.reading.stock),
    }
}

fn example((crowd, example): &(&'static str, AnswerExample)) -> ExampleText {
    let AnswerExample { outcome, status, said, .. } = example;
    ExampleText { outcome: outcome.clone(), crowd, status: *status, said: said.clone() }
}

fn rates(rush: &RushFigures) -> RushRates {
    let RushFigures { attempts, answered, connections, elapsed, booked, .. } = *rush;
    let elapsed_s = elapsed.as_secs_f64().max(1e-6);
    let rounded = |number: f64| (number * 10.0).round() / 10.0;
    let durable = |rush: BookedRush| rush.orders as f64 / (elapsed_s + rush.behind.as_secs_f64());
    RushRates {
        attempts,
        connections,
        elapsed_ms: rounded(elapsed_s * 1e3),
        answers_per_s: rounded(answered as f64 / elapsed_s),
        durable_orders: booked.map(|booked| booked.orders),
        durable_orders_per_s: booked.map(|booked| rounded(durable(booked))),
        behind_ms: booked.map(|booked| rounded(booked.behind.as_secs_f64() * 1e3)),
    }
}

fn notes(terms: &CheckTerms<'_>, sales: &[SaleRecord], totals: &CrowdTotals) -> Vec<String> {
    let mut notes = Vec::new();
    if terms.users < terms.wanted {
        notes.push(format!(
            "There are tokens for {} buyers, fewer than the {} that were asked for.",
            terms.users, terms.wanted
        ));
    }
    for sale in sales {
        let Some(before) = sale.before.as_ref().filter(|before| before.orders > 0) else {
            continue;
        };
        let users = before.users.map_or_else(String::new, |users| format!(" of {users} users"));
        notes.push(format!(
            "{} had {} orders{users} before the crowd came; only what came after is judged.",
            sale.name, before.orders
        ));
    }
    let others = |sale: &SaleRecord| Some(sale.new_orders()? - sale.orders_of_crowd()?);
    let others: i64 = sales.iter().filter_map(others).sum();
    if others > 0 {
        notes.push(format!(
            "{others} new orders are of users who are not in the crowd: somebody else bought meanwhile."
        ));
    }
    if let Some(sale) = sales.iter().find(|sale| sale.has_other_names()) {
        notes.push(format!(
            "The list of {} names users otherwise than the tokens do: all new orders count as the crowd's.",
            sale.name
        ));
    }
    let yeses = || sales.iter().flat_map(SaleRecord::yeses).filter(|answer| !answer.is_later);
    let AnswerReader::Rules(rules) = &terms.target.purchase.target.answers else { unreachable!() };
    let mut names_order = rules.iter().filter(|rule| rule.outcome == ORDERED);
    if names_order.any(|rule| rule.order.is_some()) && yeses().all(|answer| answer.order.is_none())
    {
        let yeses = yeses().count();
        notes.push(format!(
            "`order` of the rule for ordered points at nothing in all {yeses} answers: see --trial."
        ));
    }
    let limit = totals.rush.as_ref().and_then(|rush| rush.own_cpu).and_then(|cpu| cpu.limit());
    notes.extend(limit);
    notes
}
