//! `redisson-lock`: the lock for shells and cron jobs.

use std::process::ExitCode;

use clap::Parser;
use redisson_lock::cli::{self, LockCommand, Unusable};

/// A distributed lock on Redis, shared with Redisson, for shells and cron jobs.
#[derive(Debug, Parser)]
#[command(name = "redisson-lock", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: LockCommand,
}

#[tokio::main]
async fn main() -> ExitCode {
    let command = Cli::parse().command;
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::ERROR)
        .with_writer(std::io::stderr)
        .init();
    cli::run(command, "redisson-lock").await.unwrap_or_else(|error| {
        // Many a text has that of its cause in it already.
        let line = error.chain().map(ToString::to_string).reduce(|told, cause| {
            if told.contains(&cause) { told } else { format!("{told}: {cause}") }
        });
        eprintln!("redisson-lock: {}", line.unwrap_or_default());
        ExitCode::from(if error.is::<Unusable>() { 2 } else { 1 })
    })
}
