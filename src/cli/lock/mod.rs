//! `seckill lock`: the lock for shells and cron jobs, and for who looks after them.

use std::process::ExitCode;

use clap::Subcommand;

pub mod child;
pub mod consent;
pub mod force_release;
pub mod inspect;
pub mod list;
pub mod run;
pub mod tokens;

/// Take a distributed lock from a shell, or see who holds it
#[derive(Debug, Subcommand)]
#[allow(missing_docs)] // each struct says what it is
pub enum LockCommand {
    Run(run::RunArgs),
    Inspect(inspect::InspectArgs),
    List(list::LockListArgs),
    ForceRelease(force_release::ForceReleaseArgs),
    Tokens(tokens::FencingTokensArgs),
}

/// Runs the command.
///
/// # Errors
/// When the arguments make no sense, or Redis cannot be reached.
pub async fn run(command: LockCommand) -> anyhow::Result<ExitCode> {
    match command {
        LockCommand::Run(args) => run::run(args).await,
        LockCommand::Inspect(args) => inspect::run(args).await,
        LockCommand::List(args) => list::run(args).await,
        LockCommand::ForceRelease(args) => force_release::run(args).await,
        LockCommand::Tokens(args) => tokens::run(args).await,
    }
}
