//! All of it: before, round by round, and after.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;

use super::figures::{Figure, rate};
use super::machine::{Machine, ProcessorTime};
use super::options::{CeilingArgs, Options};
use super::report::Report;
use super::results::Results;
use super::rounds::{self, Measurement, counted};
use super::stage::Stage;
use crate::cli::audit::{check_writable, write_json, write_text};
use crate::cli::stores::Stores;
use crate::cli::{FAILED, progress, say};
use crate::config::{ConfigError, StoreArgs};
use crate::embedded::Benchmarks;
use crate::store::{Database, Redis};

/// From so much on, in percent, other guests of the host may be what a figure tells of.
const WORTH_TELLING: f64 = 5.0;

/// Runs the command.
///
/// # Errors
/// When it could not be carried out; what is void is an exit status.
pub async fn run(args: CeilingArgs) -> anyhow::Result<ExitCode> {
    check_files(&args)?;
    let options = Options::of(&args);
    let benchmarks = Benchmarks::find()?;
    let measured = tokio::select! {
        measured = measure_all(options, benchmarks, &args.stores) => measured,
        // All that runs is stopped by being dropped, and the servers by their keeper.
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            bail!("interrupted: everything that was started is being stopped");
        }
    };
    let report = measured?;
    if let Some(path) = &args.json {
        write_json(path, &report.json())?;
    }
    if let Some(path) = &args.markdown {
        write_text(path, &report.markdown())?;
    }
    let text = report.text();
    // Standard output is the file's alone when it goes there.
    let to_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    if to_stdout(&args.json) || to_stdout(&args.markdown) {
        eprintln!("{text}");
    } else {
        say(text)?;
    }
    let failed = report.is_void() || (args.strict && report.misses_a_target());
    Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// Before the work of minutes, not after it.
fn check_files(args: &CeilingArgs) -> Result<(), ConfigError> {
    if args.json.is_some() && args.json == args.markdown {
        return Err(ConfigError("--json and --markdown name the same file".to_owned()));
    }
    for file in [&args.json, &args.markdown].into_iter().flatten() {
        check_writable(file)?;
    }
    Ok(())
}

async fn measure_all(
    options: Options,
    benchmarks: Benchmarks,
    stores: &StoreArgs,
) -> anyhow::Result<Report> {
    let each = humantime::format_duration(options.lasting);
    let lead_in = humantime::format_duration(options.lead_in());
    let minutes = options.estimate().as_secs_f64() / 60.0;
    eprintln!(
        "{} of {} measurements, {each} each, loads after a lead-in of {lead_in}: this takes about {}.",
        counted(options.repeats, "round"),
        options.round(1).len(),
        counted(minutes.ceil() as usize, "minute")
    );
    let stores = Stores::open(stores, None).await?;
    let database = stores.migrated_database().await?;
    let report = measure_on(&stores, &database, options, benchmarks).await;
    // In any case: no node may use the servers any more when they stop.
    database.close().await;
    let report = report?;
    stores.close().await?;
    Ok(report)
}

async fn measure_on(
    stores: &Stores,
    database: &Database,
    options: Options,
    benchmarks: Benchmarks,
) -> anyhow::Result<Report> {
    let machine = Machine::of(stores, database, &Redis::new(&stores.redis_url)?).await;
    for [name, value] in machine.rows() {
        eprintln!("{name}: {value}");
    }
    let mut void = machine.objections();
    for objection in &void {
        eprintln!("VOID: {objection}");
    }
    eprintln!("Minting {} buyers, starting the nodes", options.users);
    let mut stage = Stage::set(options.clone(), benchmarks, stores, database.clone()).await?;
    let results = play(&mut stage, &mut void).await?;
    let mut notes = Vec::new();
    if stage.redis_benchmark.is_none() {
        notes.push(
            "Redis was not measured by itself: redis-benchmark takes one server, no TLS, and no \
             password that nobody else sees"
                .to_owned(),
        );
    }
    eprintln!("Auditing what was sold");
    let (audited, violations) = stage.close().await?;
    void.extend(violations);
    Ok(Report { machine, options, results, void, notes, audited })
}

/// Measures everything, round by round.
async fn play(stage: &mut Stage, void: &mut Vec<String>) -> anyhow::Result<Results> {
    let (repeats, mut results) = (stage.options.repeats, Results::default());
    let bar = progress::of_steps((stage.options.round(1).len() * repeats) as u64);
    for number in 1..=repeats {
        results.begin_round();
        for measurement in stage.options.round(number) {
            bar.set_message(measurement.label());
            let before = ProcessorTime::so_far();
            let Some((told, spoiled)) = stage.measure(measurement, &mut results).await? else {
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
            progress::tell(&bar, &line, false);
            for what in spoiled {
                progress::tell(&bar, &format!("VOID: {what}"), true);
                void.push(format!("round {number}: {what}"));
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(results)
}

impl Stage {
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
