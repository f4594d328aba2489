//! The arguments, and the options that follow from them.

use std::fmt;
use std::time::Duration;

use clap::Args;

use super::rounds::{self, Measurement, OptionalPart};
use seckill::purchase::Strategy;

/// The time that one measurement takes beside its own: vouchers to put on sale, a process to start, a
/// checkpoint.
const ASIDE: Duration = Duration::from_millis(350);
/// The longest lead-in.
const MAX_LEAD_IN: Duration = Duration::from_millis(500);
/// The time that starting, minting and the audit take.
const AROUND: Duration = Duration::from_secs(12);

/// What is measured, and how long.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// Rounds: how often everything is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) repeats: u16,
    /// How long each measurement takes (pgbench rounds it up to whole seconds), after half as long
    /// a lead-in of its load, half a second at most, that is not counted
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = lasting)]
    pub(super) duration: Duration,
    /// Only these strategies: locked, group-commit, group-commit-unlocked
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(super) strategy: Vec<Strategy>,
    /// Further parts
    #[arg(long, value_name = "PART", value_delimiter = ',', conflicts_with = "full")]
    pub(super) also: Vec<OptionalPart>,
    /// All further parts
    #[arg(long)]
    pub(super) full: bool,
    /// Buyers; each buys a voucher once, so that a long measurement needs several vouchers
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(1_000..=2_000_000))]
    pub(super) users: u32,
    /// Half load, before and after the overload
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = lasting)]
    pub(super) half_load: Duration,
    /// The overload
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = lasting)]
    pub(super) overload: Duration,
    /// How many times the peak the overload is
    #[arg(long, value_name = "TIMES", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=20))]
    pub(super) overload_by: u8,
}

/// How it is measured.
#[derive(Debug, Clone)]
pub struct Options {
    pub(super) repeats: usize,
    pub(super) lasting: Duration,
    pub(super) strategies: Vec<Strategy>,
    pub(super) overloaded: Vec<Strategy>,
    pub(super) parts: Vec<OptionalPart>,
    /// Buyers with a token.
    pub users: u32,
    pub(super) half_load: Duration,
    pub(super) overload: Duration,
    pub(super) overload_by: u8,
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = humantime::format_duration(self.lasting);
        let lead_in = humantime::format_duration(self.lead_in());
        write!(
            f,
            "{} of {} measurements, {each} each, loads after a lead-in of {lead_in}",
            rounds::counted(self.repeats, "round"),
            self.round(1).len()
        )
    }
}

impl Options {
    /// The options that follow from the arguments.
    #[must_use]
    pub fn of(args: &MeasureArgs) -> Self {
        let named = |strategy: &Strategy| args.strategy.contains(strategy);
        let all = Strategy::ALL.into_iter();
        let strategies: Vec<_> = match args.strategy.is_empty() {
            true => all.collect(),
            false => all.filter(named).collect(),
        };
        let overloaded = match args.strategy.is_empty() {
            true => vec![Strategy::default()],
            false => strategies.clone(),
        };
        let asked = |part: &OptionalPart| args.full || args.also.contains(part);
        Self {
            repeats: args.repeats.into(),
            lasting: args.duration,
            strategies,
            overloaded,
            parts: OptionalPart::ALL.into_iter().filter(asked).collect(),
            users: args.users,
            half_load: args.half_load,
            overload: args.overload,
            overload_by: args.overload_by,
        }
    }

    pub(super) fn round(&self, number: usize) -> Vec<Measurement> {
        rounds::round(number, &self.strategies, &self.overloaded, &self.parts)
    }

    pub(super) fn measures_nodes(&self) -> bool {
        self.parts.contains(&OptionalPart::Nodes)
    }

    /// How long a load is made before it is measured. At first all buyers come at once, to processes
    /// of which each has yet to find memory and plans for them: what a sale of a second does in its
    /// first tenths says nothing of one of a minute, and the more processes there are, the less.
    pub(super) fn lead_in(&self) -> Duration {
        (self.lasting / 2).min(MAX_LEAD_IN)
    }

    /// How long a load is made altogether.
    pub(super) fn load_lasts(&self) -> Duration {
        self.lead_in() + self.lasting
    }

    /// How long all of it will take, more or less.
    #[must_use]
    pub fn estimate(&self) -> Duration {
        let one = |measurement: Measurement| match measurement {
            // The peak before it takes as long as the overload.
            Measurement::Overload { .. } => (self.half_load + self.overload) * 2 + ASIDE * 8,
            Measurement::HotRow { .. } | Measurement::Batches { .. } => {
                self.lasting.max(Duration::from_secs(1)) + ASIDE
            }
            Measurement::LockScript { .. } => self.lasting + ASIDE,
            _ => self.load_lasts() + ASIDE,
        };
        let round: Duration = self.round(1).into_iter().map(one).sum();
        AROUND + round * self.repeats as u32
    }
}

fn lasting(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(600);
    if !allowed.contains(&time) {
        return Err("it is not between 100ms and 10m".to_owned());
    }
    Ok(time)
}
