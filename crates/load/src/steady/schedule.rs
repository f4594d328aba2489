//! When the requests of an open load are due; pure.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::plan::Phase;

/// The arrivals of a Poisson process whose rate is that of one phase after the other, as
/// times since the start. The same arguments give the same times.
///
/// The process has no memory, so at the beginning of a phase the next gap is simply drawn
/// anew, from the new rate.
pub(super) struct ArrivalSchedule {
    phases: std::vec::IntoIter<Phase>,
    /// Arrivals a second now.
    per_s: f64,
    at: Duration,
    /// When the phase ends.
    end: Duration,
    random: StdRng,
}

impl ArrivalSchedule {
    /// Of `phases`, each at its rate times `share`: processes that share a rate are, all
    /// together, a Poisson process of that rate.
    pub(super) fn new(phases: &[Phase], share: f64, seed: u64) -> Self {
        let scaled = |phase: &Phase| Phase { per_s: phase.per_s * share, ..*phase };
        Self {
            phases: phases.iter().map(scaled).collect::<Vec<_>>().into_iter(),
            per_s: 0.0,
            at: Duration::ZERO,
            end: Duration::ZERO,
            random: StdRng::seed_from_u64(seed),
        }
    }
}

impl Iterator for ArrivalSchedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        loop {
            if self.at < self.end {
                // From (0, 1], so that the logarithm is finite.
                let uniform = 1.0 - self.random.random::<f64>();
                let gap_s = -uniform.ln() / self.per_s;
                // A gap that no `Duration` can hold ends behind every phase.
                let gap = Duration::try_from_secs_f64(gap_s).unwrap_or(Duration::MAX);
                self.at = self.at.saturating_add(gap);
                if self.at < self.end {
                    return Some(self.at);
                }
            }
            let phase = self.phases.next()?;
            self.at = self.end;
            self.end += Duration::from_millis(phase.duration_ms);
            self.per_s = phase.per_s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(per_s: f64, duration_ms: u64) -> Phase {
        Phase { per_s, duration_ms }
    }

    fn times(phases: &[Phase], share: f64, seed: u64) -> Vec<Duration> {
        ArrivalSchedule::new(phases, share, seed).collect()
    }

    #[test]
    fn a_seed_gives_the_same_times_again_and_another_seed_others() {
        let phases = [phase(500.0, 2_000), phase(2_000.0, 1_000)];
        assert_eq!(times(&phases, 1.0, 7), times(&phases, 1.0, 7));
        assert_ne!(times(&phases, 1.0, 7), times(&phases, 1.0, 8));
    }

    #[test]
    fn times_rise_and_keep_within_their_phases_at_the_phases_rates() {
        let all = times(&[phase(1_000.0, 10_000), phase(10.0, 100_000), phase(4e3, 5_000)], 1.0, 3);
        assert!(all.is_sorted());
        let within = |from: u64, to: u64| {
            let of_phase = Duration::from_secs(from)..Duration::from_secs(to);
            all.iter().filter(|at| of_phase.contains(at)).count() as f64
        };
        // A Poisson count has its mean as its variance: within five standard deviations.
        for (count, mean) in
            [(within(0, 10), 10_000.0), (within(10, 110), 1_000.0), (within(110, 115), 20_000.0)]
        {
            let mean: f64 = mean;
            assert!((count - mean).abs() < 5.0 * mean.sqrt(), "{count} of {mean}");
        }
        assert_eq!(within(115, 10_000), 0.0);
    }

    #[test]
    fn the_gaps_spread_as_those_of_a_poisson_process() {
        let times = times(&[phase(1_000.0, 60_000)], 1.0, 11);
        let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64());
        // P(gap > mean) is 1/e; of a clock that ticks evenly it would be 0 or 1.
        let longer = gaps.filter(|&gap| gap > 0.001).count() as f64 / times.len() as f64;
        assert!((longer - (-1.0_f64).exp()).abs() < 0.02, "{longer}");
    }

    #[test]
    fn shares_add_up_to_the_rate() {
        let whole = times(&[phase(2_000.0, 30_000)], 1.0, 1).len() as f64;
        let parts: usize =
            (0..4).map(|part| times(&[phase(2_000.0, 30_000)], 0.25, part).len()).sum();
        assert!((parts as f64 - whole).abs() < 10.0 * whole.sqrt(), "{parts} and {whole}");
    }

    #[test]
    fn a_rate_that_brings_nobody_in_time_ends() {
        assert_eq!(times(&[phase(1e-300, 1_000), phase(1e-9, 1)], 1.0, 1), []);
    }
}
