//! The figures as shares of their ceilings, and the floors that they have to reach.

use serde::Serialize;
use serde::ser::SerializeStruct;

use super::figures::Spread;
use super::options::Options;
use super::overload::Overload;
use super::results::Results;
use super::rounds::{
    BATCH_CLIENTS, BUYING_CONNECTIONS, CONNECTIONS, Measurement, NODES, OptionalPart,
    REFERENCE_CLIENTS, REFUSED_CONNECTIONS, Refused,
};
use seckill::purchase::Strategy;

/// Sold-out refusals, as a share of a handler that does nothing behind the same router.
const SOLD_OUT_FLOOR: f64 = 0.55;
/// 64 vouchers on sale at once, as a share of one.
const VOUCHERS_FLOOR: f64 = 0.45;
/// Orders in an overload, as a share of the peak, by clients that obey `Retry-After`.
const GOODPUT_FLOOR: f64 = 0.7;
const RECOVERY_BELOW_MS: f64 = 5_000.0;
const MEMORY_BELOW_MB: f64 = 64.0;

/// The bound of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

impl Bound {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
            Self::Below(bound) => value < bound,
        }
    }

    pub(super) fn in_words(self) -> String {
        match self {
            Self::AtLeast(bound) => format!("at least {bound}"),
            Self::AtMost(bound) => format!("at most {bound}"),
            Self::Below(bound) => format!("below {bound}"),
        }
    }
}

/// A share, or another figure of which something is wanted.
#[derive(Debug)]
pub(super) struct Share {
    /// In words.
    pub(super) name: String,
    /// Names of what is divided by what; of what is no share, the one.
    pub(super) above: String,
    pub(super) below: Option<String>,
    /// Of each round.
    pub(super) rounds: Vec<f64>,
    pub(super) target: Option<Bound>,
    /// Whether the worst round counts, and not the median: what may never happen.
    pub(super) by_worst: bool,
    /// Rounds in which it should have been found and was not.
    pub(super) never: usize,
}

impl Share {
    pub(super) fn spread(&self) -> Option<Spread> {
        Spread::of(&self.rounds)
    }

    /// `None` without a target.
    pub(super) fn is_met(&self) -> Option<bool> {
        let target = self.target?;
        let Some(spread) = self.spread() else { return Some(false) };
        let counts = match (self.by_worst, target) {
            (false, _) => spread.median,
            (true, Bound::AtLeast(_)) => spread.min,
            (true, _) => spread.max,
        };
        Some(self.never == 0 && target.is_met(counts))
    }
}

impl Serialize for Share {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut share = serializer.serialize_struct("Share", 7)?;
        share.serialize_field("name", &self.name)?;
        share.serialize_field("above", &self.above)?;
        share.serialize_field("below", &self.below)?;
        share.serialize_field("rounds", &self.rounds)?;
        share.serialize_field("spread", &self.spread())?;
        share.serialize_field("target", &self.target.map(Bound::in_words))?;
        share.serialize_field("met", &self.is_met())?;
        share.end()
    }
}

/// The floor of `strategy` at 256 connections, as a multiple of PostgreSQL's own hot row.
const fn floor_of(strategy: Strategy) -> f64 {
    match strategy {
        Strategy::Locked => 0.65,
        Strategy::GroupCommit => 5.2,
        Strategy::GroupCommitUnlocked => 7.0,
    }
}

/// What is divided by what.
pub(super) fn of_hot_row(strategy: Strategy, connections: usize) -> [Measurement; 2] {
    let hot_row = Measurement::HotRow { clients: REFERENCE_CLIENTS };
    [Measurement::Orders { strategy, connections }, hot_row]
}

/// Of the best that PostgreSQL does in batches, round by round.
pub(super) fn of_batches(results: &Results, orders: Measurement) -> Vec<f64> {
    let batches = BATCH_CLIENTS.map(|clients| Measurement::Batches { clients });
    results.each_round(|round| round.share([orders, round.best(batches)?]))
}

/// One figure as a share of another, round by round.
pub(super) fn share(results: &Results, pair: [Measurement; 2]) -> Vec<f64> {
    results.each_round(|round| round.share(pair))
}

/// All of them.
pub(super) fn shares(results: &Results, options: &Options) -> Vec<Share> {
    let mut shares = Vec::new();
    for strategy in options.strategies.iter().copied() {
        shares.extend(selling(results, strategy));
    }
    if Strategy::ALL[..2].iter().all(|strategy| options.strategies.contains(strategy)) {
        shares.push(alone(results));
    }
    for strategy in options.strategies.iter().copied() {
        shares.extend(refusing(results, strategy));
    }
    for strategy in options.strategies.iter().copied() {
        shares.extend(further(results, options, strategy));
    }
    for strategy in options.overloaded.iter().copied() {
        shares.extend(overloaded(strategy, &results.overloads(strategy)));
    }
    shares
}

fn plain(results: &Results, name: String, pair: [Measurement; 2], target: Option<Bound>) -> Share {
    Share {
        name,
        above: pair[0].id(),
        below: Some(pair[1].id()),
        rounds: share(results, pair),
        target,
        by_worst: false,
        never: 0,
    }
}

fn selling(results: &Results, strategy: Strategy) -> Vec<Share> {
    let mut shares = Vec::new();
    for connections in BUYING_CONNECTIONS {
        let pair = of_hot_row(strategy, connections);
        let name = format!("{} / {}", pair[0].label(), pair[1].label());
        // Commits that carry many need many who wait.
        let target = (connections == CONNECTIONS).then(|| Bound::AtLeast(floor_of(strategy)));
        shares.push(plain(results, name, pair, target));
        if strategy != Strategy::Locked {
            shares.push(Share {
                name: format!("{} / PostgreSQL, batches, the best", pair[0].label()),
                above: pair[0].id(),
                below: Some("postgresql_batches/best".to_owned()),
                rounds: of_batches(results, pair[0]),
                target: None,
                by_worst: false,
                never: 0,
            });
        }
    }
    shares
}

/// A purchase that comes alone must not be slower because others are batched.
fn alone(results: &Results) -> Share {
    let [locked, grouped] = [Strategy::Locked, Strategy::GroupCommit]
        .map(|strategy| Measurement::Orders { strategy, connections: 1 });
    Share {
        name: "group-commit's p50 at 1 connection / locked's".to_owned(),
        above: format!("{}/p50_ms", grouped.id()),
        below: Some(format!("{}/p50_ms", locked.id())),
        rounds: results.each_round(|round| {
            round.share_of([grouped, locked], |figure| Some(figure.latency_ms?.p50))
        }),
        target: Some(Bound::AtMost(1.1)),
        by_worst: false,
        never: 0,
    }
}

fn refusing(results: &Results, strategy: Strategy) -> Vec<Share> {
    let of_bare = |refused: Refused, connections, target| {
        let refusals = Measurement::Refusals { strategy, refused, connections };
        let name = format!("{} / bare handler", refusals.label());
        plain(results, name, [refusals, Measurement::Bare { connections }], target)
    };
    let sold_out = REFUSED_CONNECTIONS.map(|connections| {
        of_bare(Refused::SoldOut, connections, Some(Bound::AtLeast(SOLD_OUT_FLOOR)))
    });
    let others = [Refused::AlreadyBought, Refused::NotStarted, Refused::Ended]
        .map(|refused| of_bare(refused, CONNECTIONS, None));
    sold_out.into_iter().chain(others).collect()
}

fn further(results: &Results, options: &Options, strategy: Strategy) -> Vec<Share> {
    let one = Measurement::Orders { strategy, connections: CONNECTIONS };
    let mut shares = Vec::new();
    let mut against_one = |measurement: Measurement, what: &str, floor: Option<Bound>| {
        let name = format!("{} / {what}", measurement.label());
        shares.push(plain(results, name, [measurement, one], floor));
    };
    if options.parts.contains(&OptionalPart::Vouchers) {
        let floor = Some(Bound::AtLeast(VOUCHERS_FLOOR));
        against_one(Measurement::ManyVouchers { strategy }, "one voucher", floor);
    }
    if options.parts.contains(&OptionalPart::Nodes) {
        for nodes in NODES {
            against_one(Measurement::Nodes { strategy, nodes }, "one node", None);
        }
    }
    if options.parts.contains(&OptionalPart::Memory) {
        let memory = Measurement::Memory { strategy };
        shares.push(Share {
            name: format!("{} (MB, the worst round)", memory.label()),
            above: memory.id(),
            below: None,
            rounds: results.each_round(|round| round.value(memory)),
            target: Some(Bound::Below(MEMORY_BELOW_MB)),
            by_worst: true,
            never: 0,
        });
    }
    shares
}

fn overloaded(strategy: Strategy, overloads: &[&Overload]) -> Vec<Share> {
    if overloads.is_empty() {
        return Vec::new();
    }
    let id = Measurement::Overload { strategy }.id();
    let of = |name: &str, field: &str, read: fn(&Overload) -> Option<f64>, target, by_worst| {
        let rounds: Vec<f64> = overloads.iter().filter_map(|overload| read(overload)).collect();
        Share {
            name: format!("{strategy}, overload: {name}"),
            above: format!("{id}/{field}"),
            below: None,
            never: overloads.len() - rounds.len(),
            rounds,
            target,
            by_worst,
        }
    };
    vec![
        of(
            "goodput / peak",
            "goodput_share",
            |it| it.goodput_share,
            Some(Bound::AtLeast(GOODPUT_FLOOR)),
            false,
        ),
        of(
            "p99 of the orders, from due / that at half load",
            "p99_ratio",
            |it| it.p99_ratio,
            None,
            false,
        ),
        of(
            "recovery (ms, the worst round)",
            "recovery_ms",
            |it| it.recovery_ms,
            Some(Bound::Below(RECOVERY_BELOW_MS)),
            true,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ceiling::figures::Figure;

    fn share_of(rounds: &[f64], target: Bound, by_worst: bool, never: usize) -> Option<bool> {
        let (name, above, below) = (String::new(), String::new(), None);
        let (rounds, target) = (rounds.to_vec(), Some(target));
        Share { name, above, below, rounds, target, by_worst, never }.is_met()
    }

    #[test]
    fn of_batches_the_best_counts_and_of_the_orders_those_beside_it() {
        let orders = Measurement::Orders { strategy: Strategy::GroupCommit, connections: 256 };
        let batches = |clients| Measurement::Batches { clients };
        let mut results = Results::default();
        results.begin_round();
        for (measurement, value) in [
            (orders, 8.0),
            (batches(1), 98.0),
            (batches(2), 100.0),
            (batches(4), 97.0),
            (orders, 10.0),
        ] {
            results.record(measurement, Figure::of(value));
        }
        // The one before it and the one after it are as close.
        assert_eq!(of_batches(&results, orders), [0.08]);
        results.begin_round();
        for (measurement, value) in
            [(orders, 8.0), (batches(1), 98.0), (batches(4), 100.0), (orders, 10.0)]
        {
            results.record(measurement, Figure::of(value));
        }
        assert_eq!(of_batches(&results, orders), [0.08, 0.1]);
    }

    #[test]
    fn a_target_is_met_by_the_median_or_by_every_round() {
        let rounds = [0.5, 1.0, 2.0];
        assert_eq!(share_of(&rounds, Bound::AtLeast(1.0), false, 0), Some(true));
        assert_eq!(share_of(&rounds, Bound::AtLeast(1.0), true, 0), Some(false));
        assert_eq!(share_of(&rounds, Bound::AtMost(1.0), false, 0), Some(true));
        assert_eq!(share_of(&rounds, Bound::Below(2.0), true, 0), Some(false));
        // What never came was not soon enough, and nothing proves nothing.
        assert_eq!(share_of(&rounds, Bound::Below(9.0), true, 1), Some(false));
        assert_eq!(share_of(&[], Bound::Below(9.0), true, 0), Some(false));
    }
}
