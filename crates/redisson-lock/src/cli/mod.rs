//! The lock for shells and cron jobs, and for their operators: the commands of the program `redisson-lock`,
//! which another program may have among its own.

use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::Context;
use clap::{Args, Subcommand};

mod child;
mod consent;
mod force_release;
mod inspect;
mod list;
mod redis;
mod run;
mod tokens;

pub use redis::{KeyPrefix, RedisSettings};

use crate::{LockClient, LockOptions};
use redis_link::Redis;

/// Exit status of a command that ran and found something wrong.
const FAILED: u8 = 1;

/// Arguments that cannot be used: the sentence to print before exit status 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(pub String);

/// The Redis of the locks.
#[derive(Debug, Clone, Args)]
struct RedisArgs {
    /// Redis to use, the one that all who need the lock use
    #[arg(long, env = "REDIS_URL", hide_env_values = true, value_name = "URL",
        value_parser = redis_url, help_heading = "Stores")]
    redis_url: String,
    #[command(flatten)]
    settings: RedisSettings,
}

impl RedisArgs {
    fn locks(&self, options: LockOptions) -> Result<LockClient, Unusable> {
        let url = self.settings.url(&self.redis_url)?;
        let redis = Redis::new(&url).map_err(|error| Unusable(error.to_string()))?;
        Ok(LockClient::new(redis, options).prefixed(self.settings.key_prefix.as_str()))
    }
}

fn redis_url(text: &str) -> Result<String, String> {
    let parsed = text.parse::<redis_link::RedisUrl>();
    parsed.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// The name of the program whose commands these are, for what it says.
static PROGRAM: OnceLock<&str> = OnceLock::new();

fn program() -> &'static str {
    PROGRAM.get().copied().unwrap_or("redisson-lock")
}

/// Says something to the person at the terminal.
fn tell(text: impl std::fmt::Display) {
    eprintln!("{}: {text}", program());
}

/// Writes a result to standard output.
fn say(text: impl std::fmt::Display) -> anyhow::Result<()> {
    use std::io::Write;
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.context("cannot write to standard output")
}

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

/// Runs the command, as one of the program of this name.
///
/// # Errors
/// [`Unusable`] when the arguments make no sense; others when Redis cannot be reached.
pub async fn run(command: LockCommand, program: &'static str) -> anyhow::Result<ExitCode> {
    PROGRAM.get_or_init(|| program);
    match command {
        LockCommand::Run(args) => run::run(args).await,
        LockCommand::Inspect(args) => inspect::run(args).await,
        LockCommand::List(args) => list::run(args).await,
        LockCommand::ForceRelease(args) => force_release::run(args).await,
        LockCommand::Tokens(args) => tokens::run(args).await,
    }
}
