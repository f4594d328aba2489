//! Figures, and how they are summed up and written.

use std::collections::BTreeMap;

use serde::Serialize;

use load::latency::LatencyMs;

/// What one measurement found.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Figure {
    /// In which round, and as which of its measurements.
    pub(super) round: usize,
    pub(super) place: usize,
    /// A second; of memory, megabytes (10^6 bytes).
    pub(super) value: f64,
    /// Latency of the answers that `value` counts, where it counts answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) latency_ms: Option<LatencyMs>,
    /// All other counts: the answers, the orders in the database.
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

/// `None` where there is nothing to divide by.
pub(super) fn quotient(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    let below = below.filter(|below| *below > 0.0)?;
    above.map(|above| above / below)
}

/// Whole, with a comma for the thousands; below a hundred with one decimal.
pub(super) fn rate(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
}
