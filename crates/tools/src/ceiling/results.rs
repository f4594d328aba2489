//! The results of a run, round by round, and what is read from them.

use super::figures::{Figure, Spread, quotient};
use super::overload::Overload;
use super::rounds::Measurement;
use load::latency::LatencyMs;
use seckill::purchase::Strategy;

/// All figures of a run.
#[derive(Debug, Default)]
pub(super) struct Results {
    rounds: Vec<Vec<(Measurement, Figure)>>,
    overloads: Vec<(Strategy, Overload)>,
    stolen: Vec<f64>,
}

impl Results {
    /// Figures recorded from now on are of another round.
    pub(super) fn begin_round(&mut self) {
        self.rounds.push(Vec::new());
    }

    pub(super) fn record(&mut self, measurement: Measurement, figure: Figure) {
        let round = self.rounds.len();
        if let Some(figures) = self.rounds.last_mut() {
            let place = figures.len() + 1;
            figures.push((measurement, Figure { round, place, ..figure }));
        }
    }

    pub(super) fn record_overload(&mut self, strategy: Strategy, overload: Overload) {
        self.overloads.push((strategy, overload));
    }

    /// How much of the processors' time others had during a measurement, in percent.
    pub(super) fn record_stolen(&mut self, percent: f64) {
        self.stolen.push(percent);
    }

    /// Of all measurements; `None` where this system does not tell.
    pub(super) fn stolen(&self) -> Option<Spread> {
        Spread::of(&self.stolen)
    }

    /// Of every time that it was measured.
    pub(super) fn figures(&self, measurement: Measurement) -> Vec<&Figure> {
        self.rounds.iter().flat_map(|round| RoundFigures(round).figures(measurement)).collect()
    }

    pub(super) fn spread(&self, measurement: Measurement) -> Option<Spread> {
        Spread::of(&values(&self.figures(measurement)))
    }

    /// The median of one percentile, of every time that it was measured.
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
    pub(super) fn each_round(&self, read: impl Fn(RoundFigures<'_>) -> Option<f64>) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| read(RoundFigures(round))).collect()
    }

    pub(super) fn overloads(&self, strategy: Strategy) -> Vec<&Overload> {
        let of_strategy = self.overloads.iter().filter(|(other, _)| *other == strategy);
        of_strategy.map(|(_, overload)| overload).collect()
    }

    /// What was measured, in the order in which the first round did.
    pub(super) fn measurements(&self) -> Vec<Measurement> {
        let mut measurements = Vec::new();
        for (measurement, _) in self.rounds.first().into_iter().flatten() {
            if !measurements.contains(measurement) {
                measurements.push(*measurement);
            }
        }
        measurements
    }
}

/// One round's figures.
#[derive(Clone, Copy)]
pub(super) struct RoundFigures<'a>(&'a [(Measurement, Figure)]);

impl<'a> RoundFigures<'a> {
    fn figures(self, of: Measurement) -> impl Iterator<Item = &'a Figure> {
        self.0.iter().filter(move |(other, _)| *other == of).map(|(_, figure)| figure)
    }

    pub(super) fn value(&self, measurement: Measurement) -> Option<f64> {
        self.figures(measurement).next().map(|figure| figure.value)
    }

    /// The best of several.
    pub(super) fn best<const N: usize>(&self, of: [Measurement; N]) -> Option<Measurement> {
        let measured = of.into_iter().filter_map(|one| Some((one, self.value(one)?)));
        measured.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(best, _)| best)
    }

    /// One as a share of the other. Of what was measured more than once the two that have fewest
    /// measurements between them, of equals the first: they met the same machine most nearly.
    pub(super) fn share(&self, [above, below]: [Measurement; 2]) -> Option<f64> {
        self.share_of([above, below], |figure| Some(figure.value))
    }

    /// The same of what `read` makes of them.
    pub(super) fn share_of(
        &self,
        [above, below]: [Measurement; 2],
        read: impl Fn(&Figure) -> Option<f64>,
    ) -> Option<f64> {
        let pairs =
            self.figures(above).flat_map(|one| self.figures(below).map(move |two| (one, two)));
        let (above, below) = pairs.min_by_key(|(one, two)| one.place.abs_diff(two.place))?;
        quotient(read(above), read(below))
    }
}

fn values(figures: &[&Figure]) -> Vec<f64> {
    figures.iter().map(|figure| figure.value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_taken_within_each_round() {
        let (above, below) =
            (Measurement::Bare { connections: 1 }, Measurement::Bare { connections: 2 });
        let mut results = Results::default();
        // A machine that was twice as fast in the second round: the share is the same.
        for (high, low) in [(10.0, 20.0), (20.0, 40.0), (1.0, 0.0)] {
            results.begin_round();
            results.record(above, Figure::of(high));
            results.record(below, Figure::of(low));
        }
        assert_eq!(results.each_round(|round| round.share([above, below])), [0.5, 0.5]);
        assert_eq!(results.spread(above).map(|spread| spread.median), Some(10.0));
        assert_eq!(results.measurements(), [above, below]);
    }

    #[test]
    fn of_what_was_measured_twice_the_share_is_that_of_the_closest() {
        let [above, below, other] = [1, 2, 3].map(|connections| Measurement::Bare { connections });
        let mut results = Results::default();
        results.begin_round();
        for (measurement, value) in
            [(below, 1.0), (other, 7.0), (above, 10.0), (below, 20.0), (other, 7.0), (above, 1.0)]
        {
            results.record(measurement, Figure::of(value));
        }
        assert_eq!(results.each_round(|round| round.share([above, below])), [0.5]);
        assert_eq!(results.figures(below).len(), 2);
        assert_eq!(results.measurements(), [below, other, above]);
    }
}
