//! `seckill lab explore`.

use std::process::ExitCode;

use clap::Args;

use super::session::in_world;
use crate::cli::say;
use crate::config::StoreArgs;
use crate::lab::explore::{
    Exploration, ExploreLimits, FaultKind, InitialState, Setting, SettingOptions, explore,
};

/// Every interleaving of a rung's pause points
#[derive(Debug, Args)]
pub struct ExploreArgs {
    /// The rungs
    #[arg(value_name = "RUNG", required = true)]
    rungs: Vec<String>,
    #[arg(long)]
    from: Option<InitialState>,
    #[arg(long)]
    nodes: Option<usize>,
    #[arg(long, default_value_t = 2)]
    actors: usize,
    #[arg(long)]
    bound: Option<usize>,
    #[arg(long, value_delimiter = ',')]
    faults: Option<Vec<FaultKind>>,
    #[command(flatten)]
    stores: StoreArgs,
}

pub(super) async fn run(args: ExploreArgs) -> anyhow::Result<ExitCode> {
    let options = SettingOptions {
        actors: args.actors,
        nodes: args.nodes,
        from: args.from,
        faults: args.faults,
    };
    let limits = ExploreLimits { bound: args.bound, max_schedules: 20_000 };
    let mut settings = Vec::new();
    for name in &args.rungs {
        settings.extend(Setting::of(super::rung(name)?, &options));
    }
    let mut found: Vec<Exploration> = Vec::new();
    in_world(args.stores, async |world| {
        for setting in settings {
            let mut exploration = Exploration::new(setting, limits);
            explore(world, &mut exploration, |_, _| {}).await?;
            let s = &exploration.setting;
            say(format!(
                "{} {} nodes {} faults {:?}: {} schedules, {:?}, {} unknown, {:.0}/s",
                s.rung.id,
                s.from,
                s.nodes,
                s.faults,
                exploration.leaves.len(),
                exploration.broken(),
                exploration.unknown(),
                exploration.rate()
            ))?;
            for invariant in exploration.broken().keys() {
                say(format!("   {invariant}: {}", exploration.shortest(*invariant).unwrap().schedule))?;
            }
            for leaf in exploration.leaves.iter().filter(|l| l.unknown.is_some()).take(5) {
                say(format!("   unknown: {}: {:?}", leaf.schedule, leaf.unknown))?;
                for l in &leaf.timeline { say(format!("      {l}"))?; }
            }
            found.push(exploration);
        }
        Ok(())
    })
    .await?;
    Ok(ExitCode::SUCCESS)
}
