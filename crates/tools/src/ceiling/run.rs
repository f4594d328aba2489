//! The whole run: before, round by round, and after.

use indicatif::{ProgressBar, ProgressStyle};

use super::figures::{Figure, rate};
use super::machine::{Machine, ProcessorTime};
use super::options::Options;
use super::report::CeilingReport;
use super::results::Results;
use super::rounds::{self, Measurement};
use super::testbed::{Setup, Testbed};
use private_stores::Benchmarks;
use redisson_lock::connection::Redis;

/// From so much on, in percent, other guests of the host may be what a figure tells of.
const WORTH_TELLING: f64 = 5.0;

/// Measures everything, audits what was sold, and reports. Tells on standard error how far it is.
///
/// # Errors
/// When it could not be carried out. What makes the figures void is in the report.
pub async fn measure(
    options: Options,
    benchmarks: Benchmarks,
    setup: Setup,
) -> anyhow::Result<CeilingReport> {
    let redis = Redis::new(&setup.redis_url)?;
    let machine = Machine::of(setup.servers, &setup.database, &redis).await;
    for [name, value] in machine.rows() {
        eprintln!("{name}: {value}");
    }
    let mut void = machine.objections();
    for objection in &void {
        eprintln!("VOID: {objection}");
    }
    let mut testbed = Testbed::set(options.clone(), benchmarks, setup).await?;
    let results = play(&mut testbed, &mut void).await?;
    let mut notes = Vec::new();
    if testbed.redis_benchmark.is_none() {
        notes.push(
            "Redis was not measured by itself: redis-benchmark takes one server, no TLS, and no \
             password that nobody else sees"
                .to_owned(),
        );
    }
    eprintln!("Auditing what was sold");
    let (audited, violations) = testbed.close().await?;
    void.extend(violations);
    Ok(CeilingReport { machine, options, results, void, notes, audited })
}

/// Measures everything, round by round.
async fn play(testbed: &mut Testbed, void: &mut Vec<String>) -> anyhow::Result<Results> {
    let (repeats, mut results) = (testbed.options.repeats, Results::default());
    let bar = progress_bar((testbed.options.round(1).len() * repeats) as u64);
    for number in 1..=repeats {
        results.begin_round();
        for measurement in testbed.options.round(number) {
            bar.set_message(measurement.label());
            let before = ProcessorTime::so_far();
            let Some((told, spoiled)) = testbed.measure(measurement, &mut results).await? else {
                bar.inc(1);
                continue;
            };
            let mut line = format!("round {number} of {repeats}: {}: {told}", measurement.label());
            let stolen = before.zip(ProcessorTime::so_far());
            if let Some(stolen) = stolen.and_then(|(before, after)| after.stolen_since(before)) {
                results.record_stolen(stolen);
                if stolen >= WORTH_TELLING {
                    line.push_str(&format!(" ({stolen:.0} % of the time stolen)"));
                }
            }
            tell(&bar, &line, false);
            for what in spoiled {
                tell(&bar, &format!("VOID: {what}"), true);
                void.push(format!("round {number}: {what}"));
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(results)
}

/// A bar of `total` steps, drawn on a terminal only; elsewhere [`tell`] writes a line for each.
fn progress_bar(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len}  {msg:44!}  {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style)
}

/// A line about a step. On a terminal, where the bar tells how far it is, only what matters.
fn tell(bar: &ProgressBar, line: &str, matters: bool) {
    if bar.is_hidden() {
        eprintln!("{line}");
    } else if matters {
        bar.println(line);
    }
}

impl Testbed {
    /// Measures one thing and writes it down. Returns it in words, and what spoils it; `None`
    /// where it cannot be measured here.
    async fn measure(
        &mut self,
        measurement: Measurement,
        results: &mut Results,
    ) -> anyhow::Result<Option<(String, Vec<String>)>> {
        let lasting = self.options.lasting;
        let alone = |figure: Figure| (figure, Vec::new());
        let (figure, spoiled) = match measurement {
            Measurement::Bare { connections } => self.bare(measurement, connections).await?,
            Measurement::LockScript { in_flight } => match &mut self.redis_benchmark {
                Some(redis) => alone(redis.calls(in_flight, lasting).await?),
                None => return Ok(None),
            },
            Measurement::HotRow { clients } => alone(self.pgbench.hot_row(clients, lasting).await?),
            Measurement::Batches { clients } => {
                alone(self.pgbench.batches(clients, lasting).await?)
            }
            Measurement::Orders { strategy, connections } => {
                self.orders(measurement, self.addresses(strategy, 1), connections).await?
            }
            Measurement::Refusals { strategy, refused, connections } => {
                self.refusals(measurement, strategy, refused, connections).await?
            }
            Measurement::ManyVouchers { strategy } => {
                self.many_vouchers(measurement, strategy).await?
            }
            Measurement::Nodes { strategy, nodes } => {
                let connections = nodes * rounds::CONNECTIONS;
                self.orders(measurement, self.addresses(strategy, nodes), connections).await?
            }
            Measurement::Memory { strategy } => self.memory(measurement, strategy).await?,
            Measurement::Overload { strategy } => {
                let (overload, spoiled) = self.overload(measurement, strategy).await?;
                let told = overload.in_words();
                results.record_overload(strategy, overload);
                return Ok(Some((told, spoiled)));
            }
        };
        let told = format!("{} {}", rate(figure.value), measurement.unit());
        results.record(measurement, figure);
        Ok(Some((told, spoiled)))
    }
}
