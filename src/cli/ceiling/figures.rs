//! What was measured, round by round, and what is read from it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::overload::Overload;
use super::rounds::Measurement;
use crate::load::latency::LatencyMs;
use crate::seckill::StrategyName;

/// What one measurement found.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Figure {
    /// A second; of memory, megabytes (10^6 bytes).
    pub(super) value: f64,
    /// Latency of the answers that `value` counts, where it counts answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) latency_ms: Option<LatencyMs>,
    /// Whatever else there is to know: what was counted, what stands in the database.
    #[serde(flatten)]
    pub(super) counts: BTreeMap<&'static str, u64>,
}

impl Figure {
    pub(super) fn of(value: f64) -> Self {
        Self { value, ..Self::default() }
    }

    pub(super) fn counting(mut self, name: &'static str, count: u64) -> Self {
        self.counts.insert(name, count);
        self
    }
}

/// The middle and the ends of some figures, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// `None` of nothing.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        Some(Self { median, min, max })
    }
}

/// All figures of a run.
#[derive(Debug, Default)]
pub(super) struct Book {
    rounds: Vec<Vec<(Measurement, Figure)>>,
    overloads: Vec<(StrategyName, Overload)>,
}

impl Book {
    /// Figures recorded from now on are of another round.
    pub(super) fn begin_round(&mut self) {
        self.rounds.push(Vec::new());
    }

    pub(super) fn record(&mut self, measurement: Measurement, figure: Figure) {
        if let Some(round) = self.rounds.last_mut() {
            round.push((measurement, figure));
        }
    }

    pub(super) fn record_overload(&mut self, strategy: StrategyName, overload: Overload) {
        self.overloads.push((strategy, overload));
    }

    /// Of every round in which it was measured.
    pub(super) fn figures(&self, measurement: Measurement) -> Vec<&Figure> {
        let of_round = |round: &'_ Vec<(Measurement, Figure)>| {
            round.iter().position(|(other, _)| *other == measurement)
        };
        self.rounds
            .iter()
            .filter_map(|round| of_round(round).map(|place| &round[place].1))
            .collect()
    }

    pub(super) fn spread(&self, measurement: Measurement) -> Option<Spread> {
        Spread::of(&values(&self.figures(measurement)))
    }

    /// The median over the rounds of one percentile.
    pub(super) fn latency(
        &self,
        measurement: Measurement,
        percentile: impl Fn(&LatencyMs) -> f64,
    ) -> Option<f64> {
        let figures = self.figures(measurement);
        let latencies = figures.iter().filter_map(|figure| figure.latency_ms.as_ref());
        Spread::of(&latencies.map(percentile).collect::<Vec<_>>()).map(|spread| spread.median)
    }

    /// Of each round, what `read` makes of it.
    ///
    /// Two figures are compared within a round, and the median is of these comparisons: both
    /// sides of a round met the same machine, which the medians of both sides may not have.
    pub(super) fn each_round(&self, read: impl Fn(Round<'_>) -> Option<f64>) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| read(Round(round))).collect()
    }

    pub(super) fn overloads(&self, strategy: StrategyName) -> Vec<&Overload> {
        let of_strategy = self.overloads.iter().filter(|(other, _)| *other == strategy);
        of_strategy.map(|(_, overload)| overload).collect()
    }

    /// What was measured, in the order in which the first round did.
    pub(super) fn measurements(&self) -> Vec<Measurement> {
        let first = self.rounds.first();
        first.into_iter().flatten().map(|(measurement, _)| *measurement).collect()
    }
}

/// One round's figures.
#[derive(Clone, Copy)]
pub(super) struct Round<'a>(&'a [(Measurement, Figure)]);

impl Round<'_> {
    fn figure(&self, measurement: Measurement) -> Option<&Figure> {
        self.0.iter().find(|(other, _)| *other == measurement).map(|(_, figure)| figure)
    }

    pub(super) fn value(&self, measurement: Measurement) -> Option<f64> {
        self.figure(measurement).map(|figure| figure.value)
    }

    pub(super) fn p50(&self, measurement: Measurement) -> Option<f64> {
        self.figure(measurement)?.latency_ms.map(|latency| latency.p50)
    }

    /// The best of several.
    pub(super) fn best(&self, of: impl Iterator<Item = Measurement>) -> Option<f64> {
        of.filter_map(|measurement| self.value(measurement)).reduce(f64::max)
    }
}

/// `None` where there is nothing to divide by.
pub(super) fn quotient(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    let below = below.filter(|below| *below > 0.0)?;
    above.map(|above| above / below)
}

fn values(figures: &[&Figure]) -> Vec<f64> {
    figures.iter().map(|figure| figure.value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        let spread = |values: &[f64]| Spread::of(values).map(|it| (it.median, it.min, it.max));
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0]), Some((3.0, 3.0, 3.0)));
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), Some((2.5, 1.0, 4.0)));
    }

    #[test]
    fn a_share_is_taken_within_each_round() {
        let (above, below) =
            (Measurement::Bare { connections: 1 }, Measurement::Bare { connections: 2 });
        let mut book = Book::default();
        // A machine that was twice as fast in the second round: the share is the same.
        for (high, low) in [(10.0, 20.0), (20.0, 40.0), (1.0, 0.0)] {
            book.begin_round();
            book.record(above, Figure::of(high));
            book.record(below, Figure::of(low));
        }
        let shares = book.each_round(|round| quotient(round.value(above), round.value(below)));
        assert_eq!(shares, [0.5, 0.5]);
        assert_eq!(book.spread(above).map(|spread| spread.median), Some(10.0));
        assert_eq!(book.measurements(), [above, below]);
    }
}
