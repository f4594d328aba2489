//! The figures of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::plan::{Fault, Round};
use super::rare::Reached;
use super::round::Figures;

/// One round in one line.
pub fn line(round: &Round, figures: &Figures) -> String {
    format!(
        "{round} | {} orders, {} named on asking again, {} x 503 | sold again after {} ms, to every \
         buyer after {} ms | {}",
        figures.orders,
        figures.named,
        figures.unavailable,
        figures.first.as_millis(),
        figures.all.as_millis(),
        figures.money,
    )
}

/// All rounds.
#[derive(Debug, Default)]
pub struct Summary {
    rounds: Vec<(Round, Figures)>,
    /// By kind, with why.
    skipped: BTreeMap<String, (usize, String)>,
    reached: Reached,
}

impl Summary {
    pub fn count(&mut self, round: &Round, figures: Figures) {
        self.reached.count(&figures.reached, figures.named);
        self.rounds.push((round.clone(), figures));
    }

    pub fn judge(&self) {
        self.reached.judge(self.rounds.len());
    }

    pub fn skip(&mut self, fault: Fault, why: &str) {
        let (count, _) = self.skipped.entry(fault.kind()).or_insert((0, why.to_owned()));
        *count += 1;
    }

    /// By kind of fault: rounds, and the times until every buyer bought again, sorted.
    fn kinds(&self) -> BTreeMap<String, Vec<Duration>> {
        let mut kinds: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
        for (round, figures) in &self.rounds {
            for step in &round.steps {
                kinds.entry(step.fault.kind()).or_default().push(figures.all);
            }
        }
        kinds.values_mut().for_each(|times| times.sort_unstable());
        kinds
    }

    fn sum(&self, of: fn(&Figures) -> usize) -> usize {
        self.rounds.iter().map(|(_, figures)| of(figures)).sum()
    }
}

/// The middle and the longest of times that are sorted.
fn spread(times: &[Duration]) -> String {
    let ms = |time: Option<&Duration>| time.map_or(0, Duration::as_millis);
    format!("median {} ms, worst {} ms", ms(times.get(times.len() / 2)), ms(times.last()))
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "faults, and until every buyer of such a round bought again:")?;
        for (kind, times) in self.kinds() {
            writeln!(f, "  {kind}: {}; {}", times.len(), spread(&times))?;
        }
        for (kind, (count, why)) in &self.skipped {
            writeln!(f, "  {kind}: {count} skipped: {why}")?;
        }
        writeln!(
            f,
            "orders: {} acknowledged, {} named on asking again, all in the books; {} x 503",
            self.sum(|figures| figures.orders),
            self.sum(|figures| figures.named),
            self.sum(|figures| figures.unavailable),
        )?;
        let times = |of: fn(&Figures) -> Duration| {
            let mut times: Vec<_> = self.rounds.iter().map(|(_, figures)| of(figures)).collect();
            times.sort_unstable();
            spread(&times)
        };
        writeln!(f, "sells again, first order: {}", times(|figures| figures.first))?;
        writeln!(f, "sells again, to every buyer: {}", times(|figures| figures.all))?;
        self.reached.fmt(f)
    }
}
