//! The command line: one file a subcommand, thin.

use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};

use crate::config::{self, ConfigError};
use crate::embedded::EmbeddedError;

pub mod audit;
#[cfg(feature = "tools")]
pub mod bare;
#[cfg(feature = "tools")]
pub mod ceiling;
#[cfg(feature = "tools")]
pub mod crowd;
#[cfg(feature = "tools")]
pub mod crowd_verdict;
#[cfg(feature = "tools")]
pub mod demo;
#[cfg(feature = "tools")]
pub mod demo_board;
#[cfg(feature = "tools")]
pub mod demo_report;
#[cfg(feature = "tools")]
pub mod demo_sales;
pub mod keep_servers;
#[cfg(feature = "lab")]
pub mod lab;
#[cfg(feature = "tools")]
pub mod local_crowds;
pub mod lock;
pub mod migrate;
#[cfg(feature = "tools")]
pub mod progress;
pub mod serve;
#[cfg(feature = "tools")]
pub mod steady;
pub mod stop;
pub mod stores;
#[cfg(feature = "tools")]
pub mod tokens;
#[cfg(feature = "tools")]
pub mod verdict;
pub mod voucher;

/// Exit status of a command that ran and found something wrong.
pub const FAILED: u8 = 1;
/// Exit status of a command that could not begin: its arguments, its environment.
pub const UNUSABLE: u8 = 2;

/// Arguments whose values no message may repeat.
const SECRET_ARGUMENTS: [&str; 5] =
    ["--database-url", "--redis-url", "--secret", "--sms-url", "--sms-secret"];

/// A flash-sale voucher backend that never oversells.
///
/// Without DATABASE_URL and REDIS_URL it starts a private PostgreSQL and Redis of its own
/// and stops them with itself: nothing to set up, for development and demonstration.
#[derive(Debug, Parser)]
#[command(name = "seckill", version, about, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
#[allow(missing_docs)] // each struct says what it is
pub enum Command {
    Serve(Box<serve::ServeArgs>),
    #[cfg(feature = "tools")]
    Demo(demo::DemoArgs),
    Migrate(migrate::MigrateArgs),
    #[command(subcommand)]
    Voucher(voucher::VoucherCommand),
    #[cfg(feature = "tools")]
    Tokens(tokens::TokensArgs),
    Audit(audit::AuditArgs),
    #[cfg(feature = "tools")]
    Ceiling(Box<ceiling::CeilingArgs>),
    #[command(subcommand)]
    Lock(lock::LockCommand),
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Own the private servers of another process (started by the program itself)
    #[command(hide = true)]
    KeepServers,
    #[cfg(feature = "tools")]
    /// Send a crowd (started by the program itself)
    #[command(hide = true)]
    Crowd,
    #[cfg(feature = "tools")]
    /// Refuse everybody (started by the program itself)
    #[command(hide = true)]
    Bare,
    #[cfg(feature = "tools")]
    /// Make a steady load (started by the program itself)
    #[command(hide = true)]
    Steady,
}

/// Runs the program: parses, refuses what is unusable, does the work.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return unusable(&first_sentence(&error)),
        Err(help) => {
            // Help and version; nobody to tell when standard output is closed.
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    // Without a runtime: the supervisor is a single thread, its servers' parent.
    if matches!(cli.command, Command::KeepServers) {
        return keep_servers::run();
    }
    let warnings = match config::check_environment(&Cli::command()) {
        Ok(warnings) => warnings,
        Err(error) => return unusable(&error.to_string()),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&error.into()),
    };
    let done = runtime.block_on(run(cli.command, &warnings));
    // Reading standard input blocks a thread that nothing can interrupt.
    runtime.shutdown_background();
    done.unwrap_or_else(|error| report(&error))
}

async fn run(command: Command, warnings: &[String]) -> anyhow::Result<ExitCode> {
    let default = match command {
        // Migrations that are there already are no news.
        Command::Serve(_) => "info,sqlx::postgres::notice=warn",
        // It says itself what happens to the lock, among the lines of what it runs.
        Command::Lock(_) => "error",
        // Each says itself, in a sentence, what became of a store.
        _ => "warn,seckill::store=error",
    };
    crate::telemetry::start_logs(config::log_filter(default)?);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    match command {
        Command::Serve(args) => serve::run(*args).await.map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "tools")]
        Command::Demo(args) => demo::run(args).await,
        Command::Migrate(args) => migrate::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Voucher(command) => voucher::run(command).await.map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "tools")]
        Command::Tokens(args) => tokens::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Audit(args) => audit::run(args).await,
        #[cfg(feature = "tools")]
        Command::Ceiling(args) => ceiling::run(*args).await,
        Command::Lock(command) => lock::run(command).await,
        #[cfg(feature = "lab")]
        Command::Lab(command) => lab::run(command).await,
        Command::KeepServers => Ok(keep_servers::run()),
        #[cfg(feature = "tools")]
        Command::Crowd => crowd::run().await.map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "tools")]
        Command::Bare => bare::run().await.map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "tools")]
        Command::Steady => steady::run().await.map(|()| ExitCode::SUCCESS),
    }
}

/// Writes a result to standard output.
///
/// # Errors
/// When it cannot be written, for example because nobody reads it any more.
pub fn say(text: impl std::fmt::Display) -> anyhow::Result<()> {
    use std::io::Write;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{text}")
        .and_then(|()| stdout.flush())
        .context("cannot write to standard output")
}

/// An error as one line, and the exit status that says whose turn it is.
fn report(error: &anyhow::Error) -> ExitCode {
    let unusable_server = matches!(
        error.downcast_ref::<EmbeddedError>(),
        Some(EmbeddedError::MissingBinaries(_) | EmbeddedError::Directory(_))
    );
    if unusable_server || error.is::<ConfigError>() {
        return unusable(&error.to_string());
    }
    eprintln!("seckill: {error:#}");
    ExitCode::from(FAILED)
}

fn unusable(sentence: &str) -> ExitCode {
    eprintln!("seckill: {sentence}");
    ExitCode::from(UNUSABLE)
}

/// What clap has to say, without the usage that follows it; all of it where there is more
/// than a sentence to say (no subcommand at all).
fn first_sentence(error: &clap::Error) -> String {
    use clap::error::{ContextKind, ErrorKind};
    use std::error::Error;
    if let (Some(argument), Some(reason)) = (error.get(ContextKind::InvalidArg), error.source()) {
        let argument = argument.to_string();
        if SECRET_ARGUMENTS.iter().any(|secret| argument.starts_with(secret)) {
            return format!("invalid value for '{argument}': {reason} (see --help)");
        }
    }
    let text = error.to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return text;
    }
    let sentence: Vec<&str> = text
        .trim_start_matches("error: ")
        .lines()
        .take_while(|line| {
            !line.trim_start().starts_with("Usage:") && !line.starts_with("For more")
        })
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    sentence.join(" ") + " (see --help)"
}
