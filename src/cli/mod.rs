//! The command line: one file a subcommand, thin.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use private_stores::StoresError;
use program::Program;
use program::sibling::{self, COMMANDS};
use redisson_lock::cli::{self as lock, LockCommand};

mod arguments;
pub mod audit;
pub mod doctor;
pub mod draw;
pub mod gateways;
pub mod migrate;
pub mod orders;
pub mod prune;
pub mod serve;
pub mod stores;
pub mod user;
pub mod voucher;

/// A flash-sale voucher backend that never oversells.
///
/// Without DATABASE_URL and REDIS_URL it starts a private PostgreSQL and Redis of its own
/// and stops them with itself: nothing to set up, for development and demonstration.
#[derive(Debug, Parser)]
#[command(name = "seckill", version, about, max_term_width = 100, after_help = siblings_help())]
#[allow(missing_docs)] // each struct says what it is
pub enum Cli {
    Serve(Box<serve::ServeArgs>),
    Migrate(migrate::MigrateArgs),
    #[command(subcommand)]
    Voucher(voucher::VoucherCommand),
    #[command(subcommand)]
    Orders(orders::OrdersCommand),
    #[command(subcommand)]
    Draw(draw::DrawCommand),
    #[command(subcommand)]
    User(user::UserCommand),
    Prune(prune::PruneArgs),
    Audit(audit::AuditArgs),
    Doctor(Box<doctor::DoctorArgs>),
    #[command(subcommand)]
    Lock(LockCommand),
}

fn siblings_help() -> String {
    let mut text = "Commands of the programs beside this one:\n".to_owned();
    for (word, sibling, what) in COMMANDS {
        text += &format!("  {word:<8} {what} ({})\n", sibling.name());
    }
    text.trim_end().to_owned()
}

/// Runs the program: hands over to a sibling, or parses, refuses what is unusable and does the work.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = sibling::hand_over() {
        return code;
    }
    let program = Program { also_known: Vec::new(), log_filter, is_unusable };
    program.main(run)
}

/// The arguments, for siblings that have to know which variables there are.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Whether an error means that the command could not begin.
#[must_use]
pub fn is_unusable(error: &anyhow::Error) -> bool {
    let no_server = matches!(
        error.downcast_ref::<StoresError>(),
        Some(StoresError::MissingBinaries(_) | StoresError::Account(_) | StoresError::Directory(_),)
    );
    no_server || error.is::<lock::Unusable>()
}

fn log_filter(cli: &Cli) -> &'static str {
    match cli {
        Cli::Serve(_) => SERVING,
        // It says itself what happens to the lock, among the lines of what it runs.
        Cli::Lock(_) => "error",
        _ => QUIET,
    }
}

/// The filter of log lines of a server. Migrations that are there already are no news.
pub const SERVING: &str = "info,sqlx::postgres::notice=warn";

/// The filter of log lines of a command that says itself, in a sentence, what became of a store.
pub const QUIET: &str = "warn,seckill::store=error,redis_link=error";

async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli {
        Cli::Serve(args) => serve::run(*args).await.map(|()| ExitCode::SUCCESS),
        Cli::Migrate(args) => migrate::run(args).await.map(|()| ExitCode::SUCCESS),
        Cli::Voucher(command) => voucher::run(command).await.map(|()| ExitCode::SUCCESS),
        Cli::Orders(command) => orders::run(command).await.map(|()| ExitCode::SUCCESS),
        Cli::Draw(command) => draw::run(command).await.map(|()| ExitCode::SUCCESS),
        Cli::User(command) => user::run(command).await.map(|()| ExitCode::SUCCESS),
        Cli::Prune(args) => prune::run(args).await.map(|()| ExitCode::SUCCESS),
        Cli::Audit(args) => audit::run(args).await,
        Cli::Doctor(args) => doctor::run(*args).await,
        Cli::Lock(command) => lock::run(command, "seckill").await,
    }
}
