//! `seckill lab`: the ladder and the proof.

pub mod list;
pub mod replay;
pub mod serve;

use std::process::ExitCode;

use clap::Subcommand;

/// The ladder of designs: how each breaks, and what mends it, on real servers
#[derive(Debug, Subcommand)]
#[allow(missing_docs)] // each struct says what it is
pub enum LabCommand {
    List(list::ListArgs),
    Replay(replay::ReplayArgs),
    Serve(serve::ServeArgs),
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
        LabCommand::Serve(args) => serve::run(args).await.map(|()| ExitCode::SUCCESS),
        LabCommand::Node => crate::lab::run_node().await.map(|()| ExitCode::SUCCESS),
    }
}
