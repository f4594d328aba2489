//! `seckill lab all`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rand::RngExt;

use super::progress::LabProgress;
use super::session::{in_world, stderr_look, stdout_look};
use crate::report::{Environment, LabReport, NoRush, html, terminal};
use crate::{RushOptions, World, cells, missing, replay, rush_seeded};
use ladder::{RUNGS, Rung};
use program::{FAILED, say};
use program::{check_writable, write_json, write_text};
use seckill::config::{ConfigError, StoreArgs};

/// Every replay and every rush: the matrix, and whether all came out as claimed
///
/// Exit status 0 only when every cell came out as claimed and no rush lost a promise that its
/// rung claims. What this machine lacks something for is skipped, and named.
#[derive(Debug, Args)]
pub struct AllArgs {
    /// Only these rungs, by their names or the beginnings of them (r04)
    #[arg(value_name = "RUNG")]
    rungs: Vec<String>,
    /// Write the result as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the result as a page, one file that needs no network (- for standard output)
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Buyers in each rush
    #[arg(long, default_value_t = RushOptions::default().users,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(RushOptions::MAX_USERS)))]
    users: u32,
    /// Vouchers in each rush
    #[arg(long, default_value_t = RushOptions::default().stock,
        value_parser = clap::value_parser!(i32).range(0..=1_000_000))]
    stock: i32,
    /// Decides the order of the attempts in a rush, the same on every rung [default: drawn]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    stores: StoreArgs,
}

/// Runs the command.
///
/// # Errors
/// When it could not be carried out; what came out otherwise is an exit status.
pub(super) async fn run(args: AllArgs) -> anyhow::Result<ExitCode> {
    let rungs = chosen(&args.rungs)?;
    check_files(&args)?;
    let crowd = RushOptions { users: args.users, stock: args.stock };
    let seed = args.seed.unwrap_or_else(|| rand::rng().random());
    let stores = args.stores.clone();
    let report = in_world(stores, async |world| play(world, rungs, crowd, seed).await).await?;
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    if let Some(path) = &args.html {
        write_text(path, &html::page(&report))?;
    }
    print(&report, &args)?;
    Ok(if report.is_as_claimed() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn chosen(names: &[String]) -> Result<Vec<&'static Rung>, ConfigError> {
    if names.is_empty() {
        return Ok(RUNGS.iter().collect());
    }
    let named = names.iter().map(|name| super::rung(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(RUNGS.iter().filter(|rung| named.iter().any(|named| named.id == rung.id)).collect())
}

/// Before the work of minutes, not after it.
fn check_files(args: &AllArgs) -> Result<(), ConfigError> {
    let files: Vec<&Path> =
        [&args.json, &args.html].into_iter().flatten().map(PathBuf::as_path).collect();
    if let [json, html] = files[..]
        && json == html
    {
        return Err(ConfigError(format!("--json and --html both name {}", json.display())));
    }
    for file in files {
        check_writable(file)?;
    }
    Ok(())
}

async fn play(
    world: &World,
    rungs: Vec<&'static Rung>,
    crowd: RushOptions,
    seed: u64,
) -> anyhow::Result<LabReport> {
    let cells: Vec<_> =
        cells().filter(|(rung, _)| rungs.iter().any(|asked| asked.id == rung.id)).collect();
    let environment = Environment::of(world).await;
    let progress = LabProgress::begin(&environment, cells.len() + rungs.len());
    let mut report = LabReport {
        environment,
        rungs,
        cells: Vec::new(),
        crowd,
        rushes: Vec::new(),
        no_rushes: Vec::new(),
    };
    for (rung, scenario) in cells {
        progress.plays(rung.id, scenario.as_str());
        let cell = replay(world, rung, scenario).await;
        progress.played(&cell);
        report.cells.push(cell);
    }
    for rung in report.rungs.clone() {
        progress.plays(rung.id, "rush");
        match rush_seeded(world, rung, crowd, seed, |_| {}).await {
            Ok(rush) => {
                progress.rushed(&rush);
                report.rushes.push(rush);
            }
            Err(error) => {
                let no_rush = no_rush(rung, &error);
                progress.not_rushed(&no_rush);
                report.no_rushes.push(no_rush);
            }
        }
    }
    // Only now: it is started for the first who needs it.
    report.environment.zookeeper = world.zookeeper_version().await;
    progress.end();
    Ok(report)
}

fn no_rush(rung: &Rung, error: &anyhow::Error) -> NoRush {
    match missing(error) {
        Some(how) => NoRush { rung: rung.id, reason: how, skipped: true },
        None => NoRush { rung: rung.id, reason: format!("{error:#}"), skipped: false },
    }
}

/// Standard output is the file's alone when it goes there.
fn print(report: &LabReport, args: &AllArgs) -> anyhow::Result<()> {
    let files = [&args.json, &args.html].into_iter().flatten();
    let (stdout, named): (Vec<_>, Vec<_>) =
        files.partition(|path| path.as_path() == Path::new("-"));
    let names: Vec<String> = named.iter().map(|path| path.display().to_string()).collect();
    let files = names.join(", ");
    let names = if names.is_empty() { String::new() } else { format!(" Report: {files}") };
    let text = |look| {
        format!("{}\n\n{}{names}", terminal::render(report, look), terminal::verdict(report, look))
    };
    if stdout.is_empty() {
        return say(text(stdout_look()));
    }
    eprintln!("{}", text(stderr_look()));
    Ok(())
}
