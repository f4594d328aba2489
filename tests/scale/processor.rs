//! The processor time of processes by what they are, from /proc.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use nix::unistd::{SysconfVar, sysconf};

use testkit::processes::descendants_of;

/// What a process is, by its role in the sale.
pub type Part = &'static str;

/// Seconds of processor time, by part.
pub type PartTimes = BTreeMap<Part, f64>;

/// The processor time that each process was last seen to have.
#[derive(Default)]
pub struct Processor {
    seen: HashMap<u32, (Part, f64)>,
}

impl Processor {
    /// Looks at these processes and all below them. `part` names one by its words: the name of the program,
    /// then its first argument.
    pub fn look(&mut self, roots: &[u32], part: impl Fn(&str) -> Option<Part>) {
        for pid in roots.iter().flat_map(|root| [vec![*root], descendants_of(*root)].concat()) {
            if let (Some(part), Some(seconds)) = (words(pid).and_then(|it| part(&it)), seconds(pid))
            {
                self.seen.insert(pid, (part, seconds));
            }
        }
    }

    /// Of all processes that were seen, those that have ended included.
    pub fn times(&self) -> PartTimes {
        let mut times = PartTimes::new();
        for (part, seconds) in self.seen.values() {
            *times.entry(part).or_default() += seconds;
        }
        times
    }
}

fn words(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    Some(format!("{} {}", name.trim(), command.split('\0').nth(1).unwrap_or_default()))
}

fn seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The fields after the name begin with the third.
    let ticks = stat.rsplit_once(") ")?.1.split(' ').skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|field| field.parse::<f64>().ok()).sum();
    Some(ticks / sysconf(SysconfVar::CLK_TCK).ok()?? as f64)
}
