//! Figures of several rounds, and what to say of them.

use std::collections::BTreeMap;

use serde::Serialize;

/// One figure over all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one; of an even number the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// `None` without a value.
    pub fn of(values: &[f64]) -> Option<Self> {
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

/// All figures, by name; each has one value a round.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Figures {
    by_name: BTreeMap<String, Vec<f64>>,
}

impl Figures {
    /// One value of one round.
    pub fn note(&mut self, name: impl Into<String>, value: f64) {
        self.by_name.entry(name.into()).or_default().push(value);
    }

    /// What was noted under this name, by round.
    pub fn values(&self, name: &str) -> &[f64] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Round by round: both sides of a quotient met the same machine. The median of these is
    /// another number than the quotient of the medians.
    pub fn quotients(&self, above: &str, below: &str) -> Vec<f64> {
        let pairs = self.values(above).iter().zip(self.values(below));
        pairs.map(|(above, below)| above / below).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Spread::of(&[]), None);
        let spread = Spread { median: 2.0, min: 1.0, max: 9.0 };
        assert_eq!(Spread::of(&[9.0, 1.0, 2.0]), Some(spread));
        let spread = Spread { median: 2.5, min: 1.0, max: 9.0 };
        assert_eq!(Spread::of(&[9.0, 1.0, 2.0, 3.0]), Some(spread));
    }

    #[test]
    fn quotients_are_taken_within_a_round() {
        let mut figures = Figures::default();
        for (above, below) in [(10.0, 5.0), (30.0, 10.0)] {
            figures.note("above", above);
            figures.note("below", below);
        }
        assert_eq!(figures.quotients("above", "below"), [2.0, 3.0]);
    }
}
