//! `seckill lock run` and `seckill lock inspect`: the lock for shells and cron jobs.

use std::process::ExitCode;

use clap::Subcommand;

pub mod child;
pub mod inspect;
pub mod run;

/// Take a distributed lock from a shell, or see who holds it
#[derive(Debug, Subcommand)]
#[allow(missing_docs)] // each struct says what it is
pub enum LockCommand {
    Run(run::RunArgs),
    Inspect(inspect::InspectArgs),
}

/// Runs the command.
///
/// # Errors
/// When the arguments make no sense, or Redis cannot be reached.
pub async fn run(command: LockCommand) -> anyhow::Result<ExitCode> {
    match command {
        LockCommand::Run(args) => run::run(args).await,
        LockCommand::Inspect(args) => inspect::run(args).await,
    }
}
