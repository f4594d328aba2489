//! `seckill lab replay`.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use crate::cli::FAILED;
use crate::config::{ConfigError, StoreArgs};
use crate::lab::{Observed, World, cells, replay, scenarios};
use crate::ladder::{self, Rung, Scenario};

/// Play one cell, a rung's cells, or all, each with its timeline
///
/// Exit status 0 only when every cell came out as claimed.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The rung, by its name or the beginning of it (r04)
    rung: Option<String>,
    /// The scenario
    scenario: Option<Scenario>,
    #[command(flatten)]
    stores: StoreArgs,
}

/// Runs the command.
///
/// # Errors
/// When it could not be carried out; a cell that came out otherwise is an exit status.
pub(super) async fn run(args: ReplayArgs) -> anyhow::Result<ExitCode> {
    let chosen = chosen(&args).map_err(|why| ConfigError(why.to_string()))?;
    let exe = std::env::current_exe().context("cannot find the program's own file")?;
    let world = World::open(exe, args.stores.database_url, args.stores.redis_url).await?;
    let mut wrong = 0;
    for (rung, scenario) in &chosen {
        let cell = replay(&world, rung, *scenario).await;
        crate::cli::say(format_args!("\n{}  {}: {}", rung.id, scenario, scenario.story()))?;
        for line in &cell.timeline {
            crate::cli::say(format_args!("    {line}"))?;
        }
        let verdict = match cell.observed {
            Observed::Holds => format!("{} HOLDS", cell.invariant),
            Observed::Breaks => format!("{} BREAKS", cell.invariant),
            Observed::Unknown => format!("{}: unknown", cell.invariant),
        };
        let claimed = if cell.is_as_claimed() { "as claimed" } else { "NOT as claimed" };
        let witness = cell.witness.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        crate::cli::say(format_args!("  {verdict}, {claimed}{witness} ({} ms)", cell.elapsed_ms))?;
        wrong += u32::from(!cell.is_as_claimed());
    }
    world.close().await?;
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn chosen(args: &ReplayArgs) -> anyhow::Result<Vec<(&'static Rung, Scenario)>> {
    let Some(name) = &args.rung else { return Ok(cells().collect()) };
    let rung = ladder::find(name)?;
    if let Some(scenario) = args.scenario {
        if let Some(reason) = scenarios::absent(scenario, rung) {
            anyhow::bail!("{scenario} makes no sense on {}: it {reason}", rung.id);
        }
        return Ok(vec![(rung, scenario)]);
    }
    Ok(cells().filter(|(known, _)| known.id == rung.id).collect())
}
