//! What is told of a run: to people, to a document, to programs.

use serde_json::{Value, json};

use super::figures::{Spread, rate};
use super::hot_row::BATCH_ORDERS;
use super::lock_script;
use super::machine::Machine;
use super::options::Options;
use super::overload::{Overload, PHASES};
use super::results::Results;
use super::rounds::{
    BATCH_CLIENTS, CONNECTIONS, HOT_ROW_CLIENTS, Measurement, REFERENCE_CLIENTS, counted,
};
use super::shares::{Share, of_batches, of_hot_row, share, shares};
use super::text_table::TextTable;
use load::outcome::{NOT_SENT, ORDERED};
use seckill::purchase::Strategy;

/// A whole run.
#[derive(Debug)]
pub struct CeilingReport {
    pub(super) machine: Machine,
    pub(super) options: Options,
    pub(super) results: Results,
    /// Why its figures are not to be believed.
    pub(super) void: Vec<String>,
    /// What else there is to know.
    pub(super) notes: Vec<String>,
    /// Vouchers that the audit looked at.
    pub(super) audited: usize,
}

impl CeilingReport {
    /// Whether its figures are not to be believed.
    #[must_use]
    pub fn is_void(&self) -> bool {
        !self.void.is_empty()
    }

    /// Whether a share is below its target.
    #[must_use]
    pub fn misses_a_target(&self) -> bool {
        shares(&self.results, &self.options).iter().any(|share| share.is_met() == Some(false))
    }

    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let tables: Vec<String> = self.sheets().iter().map(TextTable::plain).collect();
        format!("\n{}\n\n{}", tables.join("\n\n"), self.verdict().join("\n"))
    }

    /// For a document.
    #[must_use]
    pub fn markdown(&self) -> String {
        let tables: Vec<String> = self.sheets().iter().map(TextTable::markdown).collect();
        format!("{}\n{}", tables.join("\n"), self.verdict().join("\n\n"))
    }

    /// Every figure of every round.
    #[must_use]
    pub fn json(&self) -> Value {
        let measurements: Vec<Value> = self
            .results
            .measurements()
            .into_iter()
            .map(|measurement| {
                json!({
                    "name": measurement,
                    "unit": measurement.unit(),
                    "figures": self.results.figures(measurement),
                    "spread": self.results.spread(measurement),
                })
            })
            .collect();
        let overloads: Vec<Value> = self
            .options
            .overloaded
            .iter()
            .map(|strategy| (strategy, self.results.overloads(*strategy)))
            .filter(|(_, rounds)| !rounds.is_empty())
            .map(|(strategy, rounds)| json!({ "strategy": strategy.as_str(), "rounds": rounds }))
            .collect();
        let strategies: Vec<&str> =
            self.options.strategies.iter().map(|strategy| strategy.as_str()).collect();
        json!({
            "machine": self.machine,
            "options": {
                "repeats": self.options.repeats,
                "duration_ms": self.options.lasting.as_millis() as u64,
                "lead_in_ms": self.options.lead_in().as_millis() as u64,
                "strategies": strategies,
                "parts": self.options.parts,
                "users": self.options.users,
            },
            "stolen_percent": self.results.stolen(),
            "measurements": measurements,
            "shares": shares(&self.results, &self.options),
            "overloads": overloads,
            "audited": self.audited,
            "void": self.void,
            "notes": self.notes,
            "holds": !self.is_void(),
            "targets_met": !self.misses_a_target(),
        })
    }

    fn verdict(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.notes.iter().map(|note| format!("Note: {note}.")).collect();
        let missed = shares(&self.results, &self.options)
            .iter()
            .filter(|it| it.is_met() == Some(false))
            .count();
        let what = match missed {
            0 => "all targets met".to_owned(),
            missed => format!("{missed} of the targets missed"),
        };
        if self.is_void() {
            lines.extend(self.void.iter().map(|why| format!("VOID: {why}.")));
            lines.push("VOID: these figures mean nothing.".to_owned());
        } else {
            lines.push(format!(
                "HOLDS: every confirmed order is in the database, and the audit of {} vouchers \
                 holds; {what}.",
                self.audited
            ));
        }
        lines
    }

    fn sheets(&self) -> Vec<TextTable> {
        let mut sheets = vec![self.conditions(), self.ceilings(), self.orders(), self.refusals()];
        sheets.extend([self.further(), self.overloads(), self.targets()]);
        sheets.retain(|text_table| !text_table.rows.is_empty());
        sheets
    }

    fn conditions(&self) -> TextTable {
        let mut text_table = TextTable::new("Conditions", &["what", "here"]).with_text(&["here"]);
        for row in self.machine.rows() {
            text_table.row(row);
        }
        let method = format!(
            "{}, {} a measurement, of our loads after a lead-in of {}, order reversed every other round, \
             what is compared measured again beside it; pgbench and redis-benchmark are counted from \
             their first call on; medians, in brackets the extremes; load, nodes, PostgreSQL and Redis \
             on the same processors",
            counted(self.options.repeats, "round"),
            humantime::format_duration(self.options.lasting),
            humantime::format_duration(self.options.lead_in())
        );
        text_table.row(["method".to_owned(), method]);
        if let Some(Spread { median, max, .. }) = self.results.stolen() {
            let value = format!("{median:.1} % in the median measurement, {max:.0} % in the worst");
            text_table.row(["steal time".to_owned(), value]);
        }
        text_table
    }

    fn ceilings(&self) -> TextTable {
        let mut text_table =
            TextTable::new("Ceilings of this machine", &["ceiling", "a second", "", " "])
                .with_text(&["", " "]);
        let of = |all: &[Measurement]| -> Option<f64> {
            let medians = all.iter().filter_map(|it| self.results.spread(*it));
            medians.map(|spread| spread.median).reduce(f64::max)
        };
        let hot_rows = HOT_ROW_CLIENTS.map(|clients| Measurement::HotRow { clients });
        let batches = BATCH_CLIENTS.map(|clients| Measurement::Batches { clients });
        let (best_row, best_batch) = (of(&hot_rows), of(&batches));
        for measurement in self.results.measurements() {
            let Some(spread) = self.results.spread(measurement) else { continue };
            let best =
                if [best_row, best_batch].contains(&Some(spread.median)) { "best" } else { "" };
            let (label, remark) = match measurement {
                Measurement::Bare { .. } => (measurement.label(), String::new()),
                Measurement::LockScript { .. } => {
                    let connections = lock_script::CONNECTIONS;
                    (format!("{}, {connections} connections", measurement.label()), String::new())
                }
                Measurement::HotRow { clients: REFERENCE_CLIENTS } => {
                    (measurement.label(), joined([best, "what strategies are compared with"]))
                }
                Measurement::HotRow { .. } => (measurement.label(), best.to_owned()),
                Measurement::Batches { .. } => (
                    format!("{}, {BATCH_ORDERS} orders each", measurement.label()),
                    best.to_owned(),
                ),
                _ => continue,
            };
            text_table.row([label, rate(spread.median), range(&spread, rate), remark]);
        }
        text_table
    }

    fn orders(&self) -> TextTable {
        let columns = [
            "confirmed orders",
            "a second",
            "",
            "of the hot row",
            "of batches",
            "p50 ms",
            "p99 ms",
        ];
        let mut text_table = TextTable::new("What the strategies sell", &columns).with_text(&[""]);
        for measurement in self.results.measurements() {
            let Measurement::Orders { strategy, connections } = measurement else { continue };
            let Some(spread) = self.results.spread(measurement) else { continue };
            let of_row = share(&self.results, of_hot_row(strategy, connections));
            let of_batches = match strategy {
                Strategy::Locked => Vec::new(),
                _ => of_batches(&self.results, measurement),
            };
            text_table.row([
                measurement.label(),
                rate(spread.median),
                range(&spread, rate),
                median(&of_row),
                median(&of_batches),
                milliseconds(self.results.latency(measurement, |latency| latency.p50)),
                milliseconds(self.results.latency(measurement, |latency| latency.p99)),
            ]);
        }
        text_table
    }

    fn refusals(&self) -> TextTable {
        let columns = ["refusals", "a second", "", "of the bare handler", "p50 ms", "p99 ms"];
        let mut text_table = TextTable::new("How fast they refuse", &columns).with_text(&[""]);
        for measurement in self.results.measurements() {
            let Measurement::Refusals { connections, .. } = measurement else { continue };
            let Some(spread) = self.results.spread(measurement) else { continue };
            let of_bare = share(&self.results, [measurement, Measurement::Bare { connections }]);
            text_table.row([
                measurement.label(),
                rate(spread.median),
                range(&spread, rate),
                median(&of_bare),
                milliseconds(self.results.latency(measurement, |latency| latency.p50)),
                milliseconds(self.results.latency(measurement, |latency| latency.p99)),
            ]);
        }
        text_table
    }

    fn further(&self) -> TextTable {
        let mut text_table =
            TextTable::new("Many vouchers, several nodes, memory", &["what", "median", "", "unit"])
                .with_text(&["", "unit"]);
        for measurement in self.results.measurements() {
            let is_further = matches!(
                measurement,
                Measurement::ManyVouchers { .. }
                    | Measurement::Nodes { .. }
                    | Measurement::Memory { .. }
            );
            let Some(spread) = self.results.spread(measurement).filter(|_| is_further) else {
                continue;
            };
            let unit = measurement.unit().to_owned();
            text_table.row([measurement.label(), rate(spread.median), range(&spread, rate), unit]);
        }
        text_table
    }

    fn overloads(&self) -> TextTable {
        let columns = [
            "overload (medians)",
            "arrivals/s",
            "not sent/s",
            "orders/s",
            "p99 ms from due",
            "p99 ms from sending",
            "MB",
            "refused/s",
        ];
        let mut text_table =
            TextTable::new(format!("{} times the peak", self.options.overload_by), &columns)
                .with_text(&["refused/s"]);
        for strategy in &self.options.overloaded {
            let overloads = self.results.overloads(*strategy);
            let peaks: Vec<f64> = overloads.iter().map(|overload| overload.peak_per_s).collect();
            if let Some(peak) = Spread::of(&peaks) {
                let name = format!("{strategy}, the peak, closed load, {CONNECTIONS} connections");
                let mut cells = vec!["-".to_owned(); columns.len()];
                (cells[0], cells[3]) = (name, rate(peak.median));
                text_table.row(cells);
            }
            for (place, phase) in PHASES.into_iter().enumerate() {
                if let Some(row) = phase_row(&overloads, place) {
                    text_table.row([format!("{strategy}, {phase}")].into_iter().chain(row));
                }
            }
        }
        text_table
    }

    fn targets(&self) -> TextTable {
        let mut text_table = TextTable::new("Targets", &["target", "median", "", "wanted", " "])
            .with_text(&["", "wanted", " "]);
        for share in shares(&self.results, &self.options) {
            let (Some(target), Some(met)) = (share.target, share.is_met()) else { continue };
            let verdict = if met { "met" } else { "MISSED" };
            text_table
                .row(target_row(&share).into_iter().chain([target.in_words(), verdict.to_owned()]));
        }
        text_table
    }
}

fn target_row(share: &Share) -> [String; 3] {
    let never = match share.never {
        0 => String::new(),
        never => format!("{never} times never"),
    };
    let spread = share.spread();
    let middle = spread.map_or_else(|| "-".to_owned(), |spread| ratio(spread.median));
    let ends = spread.map_or_else(String::new, |spread| range(&spread, ratio));
    [share.name.clone(), middle, joined([ends.as_str(), never.as_str()])]
}

/// The medians over the rounds of one phase; `None` of no round.
fn phase_row(overloads: &[&Overload], place: usize) -> Option<Vec<String>> {
    let phases: Vec<_> = overloads.iter().filter_map(|it| it.phases.get(place)).collect();
    let seconds = phases.first()?.duration_ms / 1e3;
    let middle = |values: Vec<f64>| Spread::of(&values).map(|spread| spread.median);
    let each = |read: &dyn Fn(&super::overload::PhaseFigures) -> Option<f64>| {
        middle(phases.iter().filter_map(|phase| read(phase)).collect())
    };
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), rate);
    let mut codes: Vec<&String> = phases.iter().flat_map(|phase| phase.outcomes.keys()).collect();
    codes.retain(|code| ![ORDERED, NOT_SENT].contains(&code.as_str()));
    codes.sort();
    codes.dedup();
    let refused: Vec<String> = codes
        .into_iter()
        .map(|code| {
            let count = each(&|phase| Some(phase.outcomes.get(code).copied().unwrap_or(0) as f64));
            format!("{code} {}", number(count.map(|count| count / seconds)))
        })
        .collect();
    Some(vec![
        number(each(&|phase| Some(phase.offered_per_s))),
        number(each(&|phase| Some(phase.not_sent as f64)).map(|count| count / seconds)),
        number(each(&|phase| Some(phase.accepted_per_s))),
        milliseconds(each(&|phase| phase.accepted_p99_from_due_ms)),
        milliseconds(each(&|phase| phase.accepted_p99_from_sending_ms)),
        number(each(&|phase| phase.resident_mb)),
        if refused.is_empty() { "none".to_owned() } else { refused.join(", ") },
    ])
}

/// Those that say something.
fn joined(parts: [&str; 2]) -> String {
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

fn ratio(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { rate(value) }
}

fn median(rounds: &[f64]) -> String {
    Spread::of(rounds).map_or_else(|| "-".to_owned(), |spread| ratio(spread.median))
}

fn range(spread: &Spread, text: fn(f64) -> String) -> String {
    format!("({}–{})", text(spread.min), text(spread.max))
}

fn milliseconds(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        let written = [0.0, 48.94, 100.0, 999.6, 4011.4, 104_812.0, 1_234_567.0].map(rate);
        assert_eq!(written, ["0.0", "48.9", "100", "1,000", "4,011", "104,812", "1,234,567"]);
    }
}
