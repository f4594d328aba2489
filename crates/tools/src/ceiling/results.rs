//! What was found, as shares of the ceilings, and how it is told.

use std::collections::BTreeMap;

use Wanted::{AtLeast, Below, Nothing};
use indicatif::HumanCount;
use report::Table;
use serde::Serialize;

/// The figures of one row in one round: `per_s`, `cpu_us_server`, `p50_ms`, `memory_mb`, …
pub(super) type Readings = BTreeMap<&'static str, f64>;

/// A row, and what it brought in each round.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    name: String,
    /// The program that measured.
    by: &'static str,
    rounds: Vec<Readings>,
}

/// All rows, in the order in which they were measured.
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
    Nothing,
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

/// Rates: of which row, of which ceiling, how many of the ceiling's calls make one, and the floor.
const SHARES: [(&str, &str, f64, Wanted); 15] = [
    ("locked", "hot row, 8 clients", 1.0, AtLeast(0.65)),
    ("group-commit", "hot row, 8 clients", 1.0, AtLeast(5.2)),
    ("group-commit-unlocked", "hot row, 8 clients", 1.0, AtLeast(7.0)),
    ("locked", "hot row, best", 1.0, Nothing),
    ("group-commit", "hot row, best", 1.0, Nothing),
    ("group-commit-unlocked", "hot row, best", 1.0, Nothing),
    ("group-commit", "batches, best", 1.0, Nothing),
    ("group-commit-unlocked", "batches, best", 1.0, Nothing),
    ("group-commit, 64 vouchers", "group-commit", 1.0, AtLeast(0.45)),
    ("group-commit, 64 vouchers", "64 rows, 32 clients", 1.0, AtLeast(0.9)),
    ("group-commit, 1000 vouchers", "1000 rows, 32 clients", 1.0, AtLeast(0.65)),
    ("group-commit, a lone buyer", "hot row, 1 client", 1.0, AtLeast(0.4)),
    ("group-commit, overload", "group-commit", 1.0, AtLeast(0.7)),
    ("group-commit, sold out", DO_NOTHING, 1.0, AtLeast(0.5)),
    // Redis spends as long on a release.
    ("lock, pairs", "lock, the script", 2.0, AtLeast(0.75)),
];

/// The row whose answer costs what every answer costs, and does nothing.
pub(super) const DO_NOTHING: &str = "do-nothing handler";

/// What an order or an answer of one row costs, as a multiple of another row's: processor time of the server, and waiting.
const COSTS: [(&str, &str, (&str, &str), Wanted); 5] = [
    ("group-commit", DO_NOTHING, CPU, Below(2.9)),
    ("group-commit, sold out", DO_NOTHING, CPU, Below(1.6)),
    ("group-commit, 64 vouchers beside a hot one", "group-commit, 64 vouchers", P99, Below(2.0)),
    (BESIDE_VOUCHER, BESIDE_HEALTHZ, P50, Below(1.5)),
    (BESIDE_LIST, BESIDE_HEALTHZ, P50, Below(1.5)),
];
const CPU: (&str, &str) = ("cpu_us_server", "CPU of the server");
const P50: (&str, &str) = ("p50_ms", "median");
const P99: (&str, &str) = ("p99_ms", "p99");

/// A purchase beside readers of each of these.
pub(super) const BESIDE_HEALTHZ: &str = "a purchase beside readers of /healthz";
pub(super) const BESIDE_VOUCHER: &str = "a purchase beside readers of its voucher";
pub(super) const BESIDE_LIST: &str = "a purchase beside readers of the list";

/// Other figures that tell something.
const OTHERS: [(&str, &str, Wanted); 8] = [
    ("lock, hand-off", "p50_ms", Below(1.0)),
    ("group-commit, 1000 connections", "memory_mb", Below(64.0)),
    ("group-commit, overload", "recovery_ms", Below(5_000.0)),
    ("group-commit, overload", "refused_per_s", Nothing),
    ("group-commit, overload", "arrivals_refused_beside", Nothing),
    ("group-commit, overload", "arrivals_p99_ms_before", Nothing),
    ("group-commit, overload", "arrivals_p50_ms_beside", Nothing),
    ("group-commit, overload", "arrivals_p99_ms_beside", Nothing),
];

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
    pub(super) fn record(&mut self, name: &str, by: &'static str, figures: Readings) {
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
            let values = row.rounds.iter().filter_map(|round| round.get(figure));
            for (round, value) in values.enumerate() {
                match best.get_mut(round) {
                    Some(best) => *best = best.max(*value),
                    None => best.push(*value),
                }
            }
        }
        best
    }

    /// Every share, taken within each round, and every other figure of those rows that were measured.
    pub(super) fn shares(&self) -> Vec<Share> {
        let costs = COSTS.iter().filter_map(|(row, below, (figure, words), wanted)| {
            let rounds = self.quotients((row, below), figure)?;
            self.share(row, format!("{row} / {below}, {words}"), rounds, *wanted)
        });
        let rates = SHARES.iter().filter_map(|(above, below, calls, wanted)| {
            let rounds = self.quotients((above, below), "per_s")?;
            let rounds = rounds.into_iter().map(|share| share * calls).collect();
            self.share(above, format!("{above} / {below}"), rounds, *wanted)
        });
        let others = OTHERS.iter().filter_map(|(row, figure, wanted)| {
            let what = format!("{row}: {}", figure.replace('_', " "));
            self.share(row, what, self.each_round(row, figure), *wanted)
        });
        costs.chain(rates).chain(others).collect()
    }

    /// A figure of one row by that of another, round by round; `None` where the other was not measured.
    fn quotients(&self, (above, below): (&str, &str), figure: &str) -> Option<Vec<f64>> {
        let [above, below] = [above, below].map(|name| self.each_round(name, figure));
        let quotients = above.iter().zip(&below).map(|(above, below)| above / below);
        (!below.is_empty()).then(|| quotients.collect())
    }

    /// `None` where the row was not measured. What was to come in each of its rounds and did not (a
    /// recovery) is missed.
    fn share(&self, row: &str, what: String, rounds: Vec<f64>, wanted: Wanted) -> Option<Share> {
        let measured = self.0.iter().find(|it| it.name == row)?.rounds.len();
        let spread = Spread::of(&rounds);
        let median = spread.filter(|_| rounds.len() == measured).map(|spread| spread.median);
        let (wanted, met) = match wanted {
            AtLeast(least) => (Some(format!("at least {least}")), median.map(|it| it >= least)),
            Below(bound) => (Some(format!("below {bound}")), median.map(|it| it < bound)),
            Nothing => (None, None),
        };
        let met = wanted.is_some().then(|| met.unwrap_or_default());
        Some(Share { what, rounds, spread, wanted, met })
    }

    /// The tables, for people. What an answer costs comes first: it depends least on the machine's mood.
    pub(super) fn text(&self, shares: &[Share]) -> String {
        let spread = |row: &Row, figure| Spread::of(&self.each_round(&row.name, figure));
        let costs = self.0.iter().filter_map(|row| {
            let server = spread(row, "cpu_us_server")?;
            let multiple = self.quotients((&row.name, DO_NOTHING), "cpu_us_server");
            let mut cells = vec![row.name.clone(), median(Some(server)), ends(Some(server))];
            cells.push(median(multiple.and_then(|rounds| Spread::of(&rounds))));
            let stores = ["cpu_us_postgresql", "cpu_us_redis"];
            cells.extend(stores.map(|figure| median(spread(row, figure))));
            Some(cells)
        });
        let header = "CPU µs OF ONE ORDER OR ANSWER|SERVER||x DO-NOTHING|POSTGRESQL|REDIS";
        let costs = table(header, &[], costs.collect());
        let rows = self.0.iter().map(|row| {
            let rate = spread(row, "per_s");
            let mut cells = vec![row.name.clone(), row.by.to_owned(), median(rate), ends(rate)];
            cells.extend(
                ["p50_ms", "p99_ms", "memory_mb"].map(|figure| median(spread(row, figure))),
            );
            cells
        });
        let rates = table("|BY|A SECOND||P50 MS|P99 MS|MB", &[1], rows.collect());
        let rows = shares.iter().map(|share| {
            let met = share.met.map_or("", |met| if met { "met" } else { "MISSED" }).to_owned();
            let wanted = share.wanted.clone().unwrap_or_default();
            vec![share.what.clone(), median(share.spread), ends(share.spread), wanted, met]
        });
        let shares = table("|MEDIAN||FLOOR|", &[3, 4], rows.collect());
        format!("{costs}\n\n{rates}\n\n{shares}")
    }
}

fn table(header: &str, text: &[usize], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new(&header.split('|').collect::<Vec<_>>(), text);
    rows.into_iter().for_each(|row| table.add(row));
    table.text()
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
            ("hot row, 1 clients", [20.0, 5.0, 10.0]),
            ("hot row, 8 clients", [10.0, 10.0, 10.0]),
        ] {
            for value in values {
                results.record(name, "wrk", Readings::from([("per_s", value)]));
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
        results.record("lock, hand-off", "lock", Readings::from([("p50_ms", 0.9)]));
        assert_eq!(results.shares()[0].met, Some(true));
        results.record("lock, hand-off", "lock", Readings::new());
        assert_eq!(results.shares()[0].met, Some(false));
    }
}
