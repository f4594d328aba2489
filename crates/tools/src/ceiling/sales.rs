//! The strategies over HTTP: what they sell, and how fast they refuse.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::ensure;

use super::figures::Figure;
use super::rounds::{CONNECTIONS, MEMORY_CONNECTIONS, Measurement, Refused, VOUCHERS};
use super::testbed::{ANSWER_WITHIN, Load, Testbed, path};
use crate::node::Node;
use load::outcome::{NO_ANSWER, NOT_SENT, ORDERED};
use load::steady::{Arrival, Pairing, PhaseReport};
use seckill::purchase::Strategy;

/// What a buyer may hear who comes twice at a time.
const ORDER_IN_PROGRESS: &str = "order_in_progress";
/// What a buyer hears whose purchase may have come through, or was not begun.
const UNAVAILABLE: &str = "unavailable";
/// More than any strategy sells on any machine that we know of, a second; what is prepared is
/// enough for that.
const AT_MOST_PER_S: f64 = 120_000.0;

/// A figure, and what spoils it.
pub(super) type Found = (Figure, Vec<String>);

impl Testbed {
    /// Confirmed orders a second through `nodes`, of one voucher after the other.
    pub(super) async fn orders(
        &mut self,
        measurement: Measurement,
        nodes: Vec<SocketAddr>,
        connections: usize,
    ) -> anyhow::Result<Found> {
        let needed = self.at_most() + connections;
        let count = needed.div_ceil(self.tokens.len());
        let tokens = self.tokens.iter().take(needed).cloned().collect();
        let sale = SalePlan { nodes, count, tokens, pairing: Pairing::PathAfterPath, connections };
        self.sell(measurement, sale).await
    }

    /// Confirmed orders a second with many vouchers on sale at once.
    pub(super) async fn many_vouchers(
        &mut self,
        measurement: Measurement,
        strategy: Strategy,
    ) -> anyhow::Result<Found> {
        let needed = self.at_most() + CONNECTIONS;
        // Each request has another voucher than the one before it, and another buyer: one who is
        // at two vouchers at once is refused at one of them. As the number of vouchers is a power
        // of two and that of buyers is odd, no buyer comes to one voucher twice before all have
        // been to all; as they are many, none comes again while still under way.
        let buyers = (needed.min(self.tokens.len()) - 1) | 1;
        let sale = SalePlan {
            nodes: self.addresses(strategy, 1),
            count: VOUCHERS,
            tokens: self.tokens.iter().take(buyers).cloned().collect(),
            pairing: Pairing::Again,
            connections: CONNECTIONS,
        };
        self.sell(measurement, sale).await
    }

    /// The largest part of memory that a node has while very many buy, in megabytes.
    pub(super) async fn memory(
        &mut self,
        measurement: Measurement,
        strategy: Strategy,
    ) -> anyhow::Result<Found> {
        let needed = self.at_most() + MEMORY_CONNECTIONS;
        let sale = SalePlan {
            nodes: self.addresses(strategy, 1),
            count: needed.div_ceil(self.tokens.len()),
            tokens: self.tokens.iter().take(needed).cloned().collect(),
            pairing: Pairing::PathAfterPath,
            connections: MEMORY_CONNECTIONS,
        };
        let (figure, spoiled) = self.sell(measurement, sale).await?;
        let bytes = figure.counts.get("resident_bytes").copied().unwrap_or_default();
        ensure!(bytes > 0, "this system does not tell how much memory a process has");
        let per_s = figure.value.round() as u64;
        Ok((
            Figure { value: bytes as f64 / 1e6, ..figure }.counting("orders_per_s", per_s),
            spoiled,
        ))
    }

    /// Sells, and looks into the books.
    async fn sell(&mut self, measurement: Measurement, sale: SalePlan) -> anyhow::Result<Found> {
        let vouchers = self.put_on_sale(measurement, sale.count).await?;
        let since = self.latest_second().await?;
        let connections = sale.connections;
        let pairs = (sale.tokens.len() * vouchers.len()) as u64;
        let load = Load {
            nodes: sale.nodes.clone(),
            paths: vouchers.iter().copied().map(path).collect(),
            tokens: sale.tokens,
            pairing: sale.pairing,
            arrival: self.closed(),
            connections,
            answer_within: ANSWER_WITHIN,
            connection_within: None,
        };
        let watched = self.all_nodes().filter(|node| sale.nodes.contains(&node.address));
        let watched: Vec<&Node> = watched.collect();
        let mut resident_bytes = 0;
        let look = |_| {
            let now = watched.iter().filter_map(|node| node.resident_bytes()).max();
            resident_bytes = now.unwrap_or_default().max(resident_bytes);
        };
        let report = self.send(load, look).await?;
        let confirmed = total(&report.phases, |code| code == ORDERED);
        let unanswered = total(&report.phases, |code| code == NO_ANSWER);
        let refused = total(&report.phases, |code| ![ORDERED, NO_ANSWER, NOT_SENT].contains(&code));
        let due: u64 = report.phases.iter().map(|phase| phase.due).sum();
        let stored = self.stored(&vouchers, since).await?;
        let mut spoiled = Vec::new();
        let mut spoil = |what: String| spoiled.push(format!("{}: {what}", measurement.label()));
        if refused > 0 {
            spoil(format!("{refused} purchases were refused: {}", codes(&report.phases)));
        }
        if unanswered > 0 {
            spoil(format!("{unanswered} purchases were not answered"));
        }
        if report.exhausted || due > pairs {
            spoil("there were not enough buyers: raise --users".to_owned());
        }
        if let Some(what) = discrepancy(&report.phases, stored) {
            spoil(what);
        }
        let figure = figure(&report.phases, ORDERED)
            .counting("confirmed", confirmed)
            .counting("stored", stored)
            .counting("resident_bytes", resident_bytes);
        Ok((figure, spoiled))
    }

    /// Refusals a second.
    pub(super) async fn refusals(
        &mut self,
        measurement: Measurement,
        strategy: Strategy,
        refused: Refused,
        connections: usize,
    ) -> anyhow::Result<Found> {
        let load = Load {
            nodes: self.addresses(strategy, 1),
            paths: vec![self.refusing(refused)],
            tokens: self.who_bought(),
            pairing: Pairing::Again,
            arrival: self.closed(),
            connections,
            answer_within: ANSWER_WITHIN,
            connection_within: None,
        };
        self.refuse(measurement, load, refused).await
    }

    /// Answers a second of the handler that does nothing else.
    pub(super) async fn bare(
        &mut self,
        measurement: Measurement,
        connections: usize,
    ) -> anyhow::Result<Found> {
        let load = Load {
            nodes: vec![self.bare.address],
            paths: vec![self.refusing(Refused::SoldOut)],
            tokens: self.who_bought(),
            pairing: Pairing::Again,
            arrival: self.closed(),
            connections,
            answer_within: ANSWER_WITHIN,
            connection_within: None,
        };
        self.refuse(measurement, load, Refused::SoldOut).await
    }

    async fn refuse(
        &mut self,
        measurement: Measurement,
        load: Load,
        refused: Refused,
    ) -> anyhow::Result<Found> {
        let report = self.send(load, |_| ()).await?;
        let code = refused.code();
        // A buyer that comes twice at a time may be refused for that, and the one who has the voucher
        // that is sold out hears of it.
        let is_fair = |other: &str| {
            other == code
                || refused == Refused::AlreadyBought && other == ORDER_IN_PROGRESS
                || refused == Refused::SoldOut && other == Refused::AlreadyBought.code()
        };
        let others = total(&report.phases, |other| !is_fair(other));
        let mut spoiled = Vec::new();
        if others > 0 {
            let codes = codes(&report.phases);
            spoiled
                .push(format!("{}: {others} answers are not {code}: {codes}", measurement.label()));
        }
        let answers = total(&report.phases, |other| other == code);
        Ok((figure(&report.phases, code).counting("answers", answers), spoiled))
    }

    fn closed(&self) -> Arrival {
        let [lead_in_ms, duration_ms] =
            [self.options.lead_in(), self.options.lasting].map(|time| time.as_millis() as u64);
        Arrival::Closed { lead_in_ms, duration_ms }
    }

    /// So many buy in one load at the most.
    fn at_most(&self) -> usize {
        (AT_MOST_PER_S * self.options.load_lasts().as_secs_f64()) as usize
    }
}

/// A sale to measure.
struct SalePlan {
    nodes: Vec<SocketAddr>,
    /// Vouchers.
    count: usize,
    tokens: Vec<Arc<str>>,
    pairing: Pairing,
    connections: usize,
}

/// How many requests had an outcome of this kind.
fn total(phases: &[PhaseReport], kind: impl Fn(&str) -> bool) -> u64 {
    let all = phases.iter().flat_map(|phase| &phase.outcomes);
    all.filter(|(code, _)| kind(code)).map(|(_, count)| count).sum()
}

/// Why so many orders in the database cannot be those that were made. Every request is waited for;
/// who was not answered, or told that nobody knows, may have an order all the same.
pub(super) fn discrepancy(phases: &[PhaseReport], stored: u64) -> Option<String> {
    let confirmed = total(phases, |code| code == ORDERED);
    let unsure = total(phases, |code| [NO_ANSWER, UNAVAILABLE].contains(&code));
    let is_possible = (confirmed..=confirmed + unsure).contains(&stored);
    (!is_possible).then(|| format!("{confirmed} orders confirmed, but {stored} in the database"))
}

/// The outcomes, the lead-in's too.
fn codes(phases: &[PhaseReport]) -> String {
    let mut outcomes: BTreeMap<&str, u64> = BTreeMap::new();
    for (code, count) in phases.iter().flat_map(|phase| &phase.outcomes) {
        *outcomes.entry(code).or_default() += count;
    }
    let told: Vec<String> =
        outcomes.iter().map(|(code, count)| format!("{code} {count}")).collect();
    told.join(", ")
}

/// Answers of one kind a second that came within the time after the lead-in, and their latency.
fn figure(phases: &[PhaseReport], code: &str) -> Figure {
    let Some(phase) = phases.last() else { return Figure::default() };
    let answers = phase.answers.get(code).copied().unwrap_or_default();
    Figure {
        value: answers as f64 * 1e3 / phase.duration_ms,
        latency_ms: phase.latency_ms.get(code).copied(),
        ..Figure::default()
    }
    .counting("measured", answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(duration_ms: f64, orders: u64) -> PhaseReport {
        PhaseReport {
            duration_ms,
            due: orders,
            outcomes: [(ORDERED.to_owned(), orders)].into(),
            answers: [(ORDERED.to_owned(), orders)].into(),
            latency_ms: BTreeMap::new(),
            service_ms: BTreeMap::new(),
        }
    }

    #[test]
    fn whose_outcome_is_unknown_may_have_an_order_and_nobody_else() {
        let mut phases = [phase(500.0, 7), phase(2_000.0, 30)];
        for (code, count) in [(NO_ANSWER, 2), (UNAVAILABLE, 3), (NOT_SENT, 10), ("sold_out", 20)] {
            phases[1].outcomes.insert(code.to_owned(), count);
        }
        for (stored, is_possible) in [(36, false), (37, true), (42, true), (43, false)] {
            assert_eq!(discrepancy(&phases, stored).is_none(), is_possible, "{stored}");
        }
    }

    #[test]
    fn what_comes_in_the_lead_in_is_in_no_figure_but_in_the_totals() {
        let phases = [phase(500.0, 7), phase(2_000.0, 30)];
        let figure = figure(&phases, ORDERED);
        assert_eq!((figure.value, figure.counts["measured"]), (15.0, 30));
        assert_eq!(total(&phases, |code| code == ORDERED), 37);
        assert_eq!(codes(&phases), "ordered 37");
    }
}
