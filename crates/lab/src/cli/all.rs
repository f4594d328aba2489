//! `seckill lab all`.

use std::process::ExitCode;

use clap::Args;

use super::rush::{self, CrowdArgs};
use crate::report::terminal::Look;
use crate::report::{Environment, LabReport, html, terminal};
use crate::world::in_world;
use crate::{MatrixPlace, RushOptions, World, cells, replay};
use ladder::{RUNGS, Rung};
use program::{FAILED, ReportFiles, progress, say_beside};
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
    let mut environment = Environment::of(world).await;
    eprintln!("{}", environment.parts().join(", "));
    let bar = progress::of("replays", cells.len() as u64, "cells");
    let mut played = Vec::new();
    for (rung, scenario) in cells {
        bar.set_message(format!("{:<40}", format!("{} {scenario}", rung.id)));
        let cell = replay(world, rung, scenario).await;
        let outcome = Look::stderr().judged(cell.observed, cell.is_wrong(), &cell.outcome());
        let line = format!("{}: {outcome} ({} ms)", cell.of.name(), cell.elapsed_ms);
        if bar.is_hidden() {
            eprintln!("{line}");
        } else if cell.is_wrong() {
            // The matrix shows the rest.
            bar.println(line);
        }
        bar.inc(1);
        played.push(cell);
    }
    bar.finish_and_clear();
    let (rushes, no_rushes) = rush::all(world, &rungs, crowd, seed).await;
    // Only now: the first cell that needs it has started it.
    environment.zookeeper = world.zookeeper_version().await;
    Ok(LabReport { environment, rungs, cells: played, crowd, rushes, no_rushes })
}
