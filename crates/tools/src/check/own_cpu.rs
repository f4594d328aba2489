//! How much of the machine this program used: whether it was the limit itself.

use std::time::Duration;

use crate::process::{Process, TICK_US};

/// A share of all cores from which on a program can do no more.
const ALL: f64 = 0.9;
/// A rush that is shorter than this is too short to say.
const SHORTEST: Duration = Duration::from_millis(200);

/// Processor time of this program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnCpu {
    /// Cores in use on average, by this program.
    pub own: f64,
    /// Cores in use on average, by everything on this machine.
    pub machine: f64,
    /// Cores that there are.
    pub cores: f64,
}

/// A reading at a beginning.
#[derive(Debug)]
pub struct CpuReading {
    own_us: f64,
    machine_us: f64,
}

impl OwnCpu {
    /// Reads the clocks. `None` where the system does not tell.
    #[must_use]
    pub fn begin() -> Option<CpuReading> {
        let own_us = Process::of(std::process::id())?.own_us;
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let all = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
        let all: Vec<f64> = all.filter_map(|field| field.parse().ok()).collect();
        // user, nice, system, then idle and waiting, then interrupts.
        let busy: f64 = all.iter().take(3).chain(all.iter().skip(5).take(3)).sum();
        Some(CpuReading { own_us, machine_us: busy * TICK_US })
    }

    /// A sentence where this program, or the machine that it shares, was the limit.
    #[must_use]
    pub fn limit(&self) -> Option<String> {
        let Self { own, machine, cores } = *self;
        if own >= ALL * cores {
            return Some(format!(
                "This program used {own:.1} of {cores} cores: it was the limit itself, and the target \
                 can do more."
            ));
        }
        (machine >= ALL * cores && own >= 0.25 * cores).then(|| {
            format!(
                "All {cores} cores of this machine were in use, {own:.1} of them by this program: send from \
                 another machine to see what the target can do."
            )
        })
    }
}

impl CpuReading {
    /// What was spent since. `None`: it was too short to say.
    #[must_use]
    pub fn spent(&self, elapsed: Duration) -> Option<OwnCpu> {
        let now = OwnCpu::begin()?;
        let cores = std::thread::available_parallelism().ok()?.get() as f64;
        let elapsed_us = elapsed.as_secs_f64() * 1e6;
        let share = |before: f64, after: f64| ((after - before) / elapsed_us).max(0.0);
        (elapsed >= SHORTEST).then(|| OwnCpu {
            own: share(self.own_us, now.own_us),
            machine: share(self.machine_us, now.machine_us),
            cores,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_uses_the_machine_up_says_so() {
        let limit = |own, machine| OwnCpu { own, machine, cores: 2.0 }.limit();
        assert!(limit(1.9, 2.0).is_some_and(|said| said.contains("the limit itself")));
        assert!(limit(1.0, 2.0).is_some_and(|said| said.contains("another machine")));
        assert_eq!(limit(0.2, 2.0), None);
        assert_eq!(limit(1.0, 1.2), None);
    }
}
