//! What was found, as shares of the ceilings, and how it is told.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};
use indicatif::HumanCount;
use seckill::purchase::Strategy;
use serde::Serialize;

/// The figures of one row in one round: `per_s`, `cpu_us_server`, `p50_ms`, `memory_mb`, …
pub(super) type Figures = BTreeMap<&'static str, f64>;

/// A row, and what it brought in each round.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    name: String,
    /// The program that measured.
    by: &'static str,
    rounds: Vec<Figures>,
}

/// All rows, in the order of the first round.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Results(Vec<Row>);

/// The middle and the ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

/// What a figure should be.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    AtLeast(f64),
    Below(f64),
}

/// A figure of one row as a share of another's, or alone.
#[derive(Debug, Serialize)]
pub(super) struct Share {
    what: String,
    rounds: Vec<f64>,
    spread: Option<Spread>,
    wanted: Option<String>,
    met: Option<bool>,
}

/// The value below which this share of `values` lies.
pub(super) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

impl Spread {
    /// `None` of nothing. Of an even number the median lies between the two in the middle.
    fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { median, min, max })
    }
}

impl Results {
    pub(super) fn record(&mut self, name: &str, by: &'static str, figures: Figures) {
        match self.0.iter_mut().find(|row| row.name == name) {
            Some(row) => row.rounds.push(figures),
            None => self.0.push(Row { name: name.to_owned(), by, rounds: vec![figures] }),
        }
    }

    /// A figure of a row, round by round; of `…, best` the best of all rows that begin so.
    fn each_round(&self, name: &str, figure: &str) -> Vec<f64> {
        let is_meant = |row: &&Row| match name.strip_suffix("best") {
            Some(stem) => row.name.starts_with(stem),
            None => row.name == name,
        };
        let mut best: Vec<f64> = Vec::new();
        for row in self.0.iter().filter(is_meant) {
            for (round, value) in
                row.rounds.iter().filter_map(|round| round.get(figure)).enumerate()
            {
                match best.get_mut(round) {
                    Some(best) => *best = best.max(*value),
                    None => best.push(*value),
                }
            }
        }
        best
    }

    /// The shares, and what else has a floor or tells of the overload.
    pub(super) fn shares(&self) -> Vec<Share> {
        use Wanted::{AtLeast, Below};
        let mut shares = Vec::new();
        let mut of = |above: &str, below: &str, calls, wanted| {
            shares.extend(self.share((above, "per_s"), Some((below, calls)), wanted));
        };
        for (strategy, floor) in Strategy::ALL.into_iter().zip([0.65, 5.2, 7.0]) {
            of(strategy.as_str(), "hot row, 8 clients", 1.0, Some(AtLeast(floor)));
            of(strategy.as_str(), "hot row, best", 1.0, None);
            if strategy != Strategy::Locked {
                of(strategy.as_str(), "batches, best", 1.0, None);
            }
        }
        let main = Strategy::default().as_str();
        let overload = format!("{main}, overload");
        of(&format!("{main}, 64 vouchers"), main, 1.0, Some(AtLeast(0.45)));
        of(&overload, main, 1.0, Some(AtLeast(0.7)));
        of(&format!("{main}, sold out"), "do-nothing handler", 1.0, Some(AtLeast(0.5)));
        // A pair is two calls of scripts that do about as much.
        of("lock, pairs", "lock, the script", 2.0, Some(AtLeast(0.75)));
        for (row, figure, wanted) in [
            ("lock, hand-off", "p50_ms", Some(Below(1.0))),
            (&format!("{main}, 1000 connections"), "memory_mb", Some(Below(64.0))),
            (&overload, "recovery_ms", Some(Below(5_000.0))),
            (&overload, "refused_per_s", None),
            (&overload, "arrivals_dropped", None),
            (&overload, "arrivals_refused_beside", None),
            (&overload, "arrivals_p99_ms_before", None),
            (&overload, "arrivals_p50_ms_beside", None),
            (&overload, "arrivals_p99_ms_beside", None),
            (&overload, "arrivals_p99_ms_after", None),
        ] {
            shares.extend(self.share((row, figure), None, wanted));
        }
        shares
    }

    /// `None` where it was not measured.
    fn share(
        &self,
        (above, figure): (&str, &str),
        below: Option<(&str, f64)>,
        wanted: Option<Wanted>,
    ) -> Option<Share> {
        let measured = self.0.iter().find(|row| row.name == above)?.rounds.len();
        let mut rounds = self.each_round(above, figure);
        let mut what = format!("{above}: {}", figure.replace('_', " "));
        if let Some((below, calls)) = below {
            let ceilings = self.each_round(below, figure);
            ceilings.first()?;
            rounds = rounds
                .iter()
                .zip(&ceilings)
                .map(|(value, ceiling)| value * calls / ceiling)
                .collect();
            what = format!("{above} / {below}");
        }
        let spread = Spread::of(&rounds);
        let is_met = |wanted| match (spread, wanted) {
            // What was to come in each round and did not, a recovery, is missed.
            _ if rounds.len() < measured => false,
            (Some(spread), Wanted::AtLeast(least)) => spread.median >= least,
            (Some(spread), Wanted::Below(bound)) => spread.median < bound,
            (None, _) => false,
        };
        let met = wanted.map(is_met);
        let wanted = wanted.map(|wanted| match wanted {
            Wanted::AtLeast(least) => format!("at least {least}"),
            Wanted::Below(bound) => format!("below {bound}"),
        });
        Some(Share { what, rounds, spread, wanted, met })
    }

    /// The tables, for people.
    pub(super) fn text(&self, shares: &[Share]) -> String {
        let figures =
            ["cpu_us_server", "cpu_us_postgresql", "cpu_us_redis", "p50_ms", "p99_ms", "memory_mb"];
        let rows = self.0.iter().map(|row| {
            let spread = |figure| Spread::of(&self.each_round(&row.name, figure));
            let rate = spread("per_s");
            let mut cells = vec![row.name.clone(), row.by.to_owned(), median(rate), ends(rate)];
            cells.extend(figures.map(|figure| median(spread(figure))));
            cells
        });
        let header = [
            "",
            "BY",
            "A SECOND",
            "",
            "CPU µs: SERVER",
            "POSTGRESQL",
            "REDIS",
            "P50 MS",
            "P99 MS",
            "MB",
        ];
        let rates = table(&header, &[1], rows.collect());
        let rows = shares.iter().map(|share| {
            let met = share.met.map_or("", |met| if met { "met" } else { "MISSED" });
            let wanted = share.wanted.clone().unwrap_or_default();
            [share.what.clone(), median(share.spread), ends(share.spread), wanted, met.to_owned()]
                .to_vec()
        });
        let shares = table(&["", "MEDIAN", "", "FLOOR", ""], &[3, 4], rows.collect());
        format!("{rates}\n\n{shares}")
    }
}

/// The first column is text, and so are those of these numbers.
fn table(header: &[&str], text: &[usize], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec()).add_rows(rows);
    for number in (1..header.len()).filter(|number| !text.contains(number)) {
        if let Some(column) = table.column_mut(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn median(spread: Option<Spread>) -> String {
    spread.map_or_else(String::new, |spread| digits(spread.median))
}

fn ends(spread: Option<Spread>) -> String {
    spread.map_or_else(String::new, |it| format!("({}–{})", digits(it.min), digits(it.max)))
}

/// Three digits, or all that stand before the point.
pub(super) fn digits(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => HumanCount(value.round() as u64).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_taken_within_each_round_and_its_median_counts() {
        let mut results = Results::default();
        for (name, values) in [
            ("group-commit", [60.0, 40.0, 80.0]),
            ("hot row, 1 client", [20.0, 5.0, 10.0]),
            ("hot row, 8 clients", [10.0, 10.0, 10.0]),
        ] {
            for value in values {
                results.record(name, "wrk", Figures::from([("per_s", value)]));
            }
        }
        let shares = results.shares();
        let told: Vec<_> = shares.iter().map(|it| (&*it.what, &*it.rounds, it.met)).collect();
        let floor = ("group-commit / hot row, 8 clients", &[6.0, 4.0, 8.0][..], Some(true));
        assert_eq!(told, [floor, ("group-commit / hot row, best", &[3.0, 4.0, 8.0], None)]);
        assert_eq!(shares[0].spread, Some(Spread { median: 6.0, min: 4.0, max: 8.0 }));
    }

    #[test]
    fn what_was_not_found_in_every_round_is_missed() {
        let mut results = Results::default();
        for (figures, met) in [(Figures::from([("p50_ms", 0.9)]), true), (Figures::new(), false)] {
            results.record("lock, hand-off", "lock", figures);
            let shares = results.shares();
            assert_eq!((shares.len(), shares[0].met), (1, Some(met)));
        }
    }

    #[test]
    fn figures_have_three_digits_or_all_that_stand_before_the_point() {
        let told = [0.123, 45.67, 678.9, 12_345_678.0].map(digits);
        assert_eq!(told, ["0.12", "45.7", "679", "12,345,678"]);
        assert_eq!((quantile(&[3.0, 1.0, 2.0], 0.5), quantile(&[], 0.5)), (Some(2.0), None));
    }
}
