//! `seckill lab`: the ladder and the proof.

mod all;
mod explore;
mod isolation;
mod list;
mod replay;
pub mod rush;
pub mod serve;

use std::process::ExitCode;

use clap::Subcommand;

use ladder::{self, RUNGS, Rung};
use seckill::config::ConfigError;

/// The ladder of designs: how each breaks, and what mends it, on real servers
#[derive(Debug, Subcommand)]
#[allow(missing_docs)] // each struct says what it is
pub enum LabCommand {
    List(list::LabListArgs),
    Replay(replay::ReplayArgs),
    Explore(explore::ExploreArgs),
    Isolation(isolation::IsolationArgs),
    Rush(rush::RushArgs),
    Serve(serve::LabServeArgs),
    All(all::AllArgs),
    /// A process that sells by one rung (started by the lab itself)
    #[command(hide = true)]
    Node,
}

/// Runs the command.
///
/// # Errors
/// When it could not be carried out.
pub async fn run(command: LabCommand) -> anyhow::Result<ExitCode> {
    match command {
        LabCommand::List(args) => list::run(&args).map(|()| ExitCode::SUCCESS),
        LabCommand::Replay(args) => replay::run(args).await,
        LabCommand::Explore(args) => explore::run(args).await,
        LabCommand::Isolation(args) => isolation::run(args).await,
        LabCommand::Rush(args) => rush::run(args).await,
        LabCommand::Serve(args) => serve::run(args).await.map(|()| ExitCode::SUCCESS),
        LabCommand::All(args) => all::run(args).await,
        LabCommand::Node => crate::run_node().await.map(|()| ExitCode::SUCCESS),
    }
}

/// The rung that a user means.
fn rung(name: &str) -> Result<&'static Rung, ConfigError> {
    ladder::find(name).map_err(|error| ConfigError(error.to_string()))
}

/// The rungs that a user means; all of them where none is named.
fn rungs(names: &[String]) -> Result<Vec<&'static Rung>, ConfigError> {
    if names.is_empty() {
        return Ok(RUNGS.iter().collect());
    }
    names.iter().map(|name| rung(name)).collect()
}
