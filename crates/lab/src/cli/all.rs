//! `seckill lab all`.

use std::process::ExitCode;

use clap::Args;

use super::progress::LabProgress;
use super::rush::CrowdArgs;
use crate::report::terminal::Look;
use crate::report::{Environment, LabReport, NoRush, html, terminal};
use crate::world::in_world;
use crate::{RushOptions, World, cells, missing, replay, rush_seeded};
use ladder::{RUNGS, Rung};
use program::{FAILED, ReportFiles, say_beside};
use seckill::config::StoreArgs;

/// Every replay and every rush: the matrix, and whether all came out as claimed
///
/// Exit status 0 only when every cell came out as claimed and no rush lost a promise that its
/// rung claims. What this machine lacks something for is skipped, and named.
#[derive(Debug, Args)]
pub struct AllArgs {
    /// Only these rungs, by their names or the beginnings of them (r04)
    #[arg(value_name = "RUNG")]
    rungs: Vec<String>,
    #[command(flatten)]
    files: ReportFiles,
    #[command(flatten)]
    crowd: CrowdArgs,
    #[command(flatten)]
    stores: StoreArgs,
}

/// Runs the command.
pub(super) async fn run(args: AllArgs) -> anyhow::Result<ExitCode> {
    let mut rungs = super::rungs(&args.rungs)?;
    // In the order of the ladder, each once.
    rungs.sort_by_key(|rung| RUNGS.iter().position(|known| known.id == rung.id));
    rungs.dedup_by_key(|rung| rung.id);
    args.files.check()?;
    let crowd = args.crowd.options();
    let seed = args.crowd.seed();
    let stores = args.stores.clone();
    let report = in_world(stores, async |world| play(world, rungs, crowd, seed).await).await?;
    args.files.write(&report, || html::page(&report))?;
    let named = args.files.iter().filter(|file| !file.is_stdout());
    let names = named.map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let files = if names.is_empty() { String::new() } else { format!(" Report: {names}") };
    let look = Look::beside(args.files.iter());
    let (matrix, verdict) = (terminal::render(&report, look), terminal::verdict(&report, look));
    say_beside(args.files.iter(), format!("{matrix}\n\n{verdict}{files}"))?;
    Ok(if report.is_as_claimed() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
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
    // Only now: the first cell that needs it has started it.
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
