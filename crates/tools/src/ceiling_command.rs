//! `seckill ceiling`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use clap::Args;

use super::tokens;
use crate::ceiling::{CeilingReport, MeasureArgs, Options, Setup, counted, measure};
use private_stores::Benchmarks;
use program::{FAILED, say};
use program::{check_writable, write_json, write_text};
use seckill::cli::stores::{Stores, fresh_secret};
use seckill::config::{ConfigError, StoreArgs};
use seckill::http::tokens::Tokens;
use seckill::model::SystemClock;

/// Is my number normal? The limits of this machine, and how close the strategies come
///
/// Everything takes its turn on the same machine, in each of several rounds, every other round in
/// the reverse order; what counts are medians, and shares taken within a round.
///
/// Ceilings: answers a second of the same HTTP server with a handler that does nothing else;
/// calls a second of the lock's script (redis-benchmark); commits a second on one hot row, and
/// orders a second in batches (pgbench).
///
/// Against them, for each strategy over HTTP, from server processes and a load of a process of
/// its own: confirmed orders a second at 1, 64 and 256 connections; and refusals a second of a
/// voucher that is sold out, bought already, not yet or no longer on sale.
///
/// A run is void, and the exit status 1, when the database does not hold what was confirmed, a
/// buyer was refused, commits do not wait for a disk, or the audit at the end does not hold. A
/// missed target is no failure, unless --strict.
///
/// With DATABASE_URL and REDIS_URL it measures those servers, and leaves its sales there.
#[derive(Debug, Args)]
pub struct CeilingArgs {
    #[command(flatten)]
    measure: MeasureArgs,
    /// Write every figure of every round as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables as Markdown (- for standard output)
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Exit status 1 when a target is missed, too
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    stores: StoreArgs,
}

/// Runs the command.
///
/// # Errors
/// When it could not be carried out; figures that are void are an exit status.
pub async fn run(args: CeilingArgs) -> anyhow::Result<ExitCode> {
    check_files(&args)?;
    let options = Options::of(&args.measure);
    let benchmarks = Benchmarks::find()?;
    let measured = tokio::select! {
        measured = measure_all(options, benchmarks, &args.stores) => measured,
        // All that runs is stopped by being dropped, and the servers by their supervisor.
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            bail!("interrupted: everything that was started is being stopped");
        }
    };
    let report = measured?;
    if let Some(path) = &args.json {
        write_json(path, &report.json())?;
    }
    if let Some(path) = &args.markdown {
        write_text(path, &report.markdown())?;
    }
    let text = report.text();
    // Standard output is the file's alone when it goes there.
    let to_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    if to_stdout(&args.json) || to_stdout(&args.markdown) {
        eprintln!("{text}");
    } else {
        say(text)?;
    }
    let failed = report.is_void() || (args.strict && report.misses_a_target());
    Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// Before the work of minutes, not after it.
fn check_files(args: &CeilingArgs) -> Result<(), ConfigError> {
    if args.json.is_some() && args.json == args.markdown {
        return Err(ConfigError("--json and --markdown name the same file".to_owned()));
    }
    for file in [&args.json, &args.markdown].into_iter().flatten() {
        check_writable(file)?;
    }
    Ok(())
}

async fn measure_all(
    options: Options,
    benchmarks: Benchmarks,
    stores: &StoreArgs,
) -> anyhow::Result<CeilingReport> {
    let minutes = options.estimate().as_secs_f64() / 60.0;
    eprintln!("{}: this takes about {}.", options, counted(minutes.ceil() as usize, "minute"));
    let stores = Stores::open(stores, None).await?;
    let database = stores.migrated_database().await?;
    let secret = fresh_secret();
    let minter = Tokens::new(secret.as_bytes(), Arc::new(SystemClock));
    eprintln!("Minting {} buyers, starting the nodes", options.users);
    let minted = tokens::mint(&database, &minter, None, options.users).await?;
    let setup = Setup {
        database_url: stores.database_url.clone(),
        redis_url: stores.redis_url.clone(),
        servers: match stores.private() {
            Some("PostgreSQL and Redis") => "private",
            Some(_) => "one private, one named",
            None => "named",
        },
        database: database.clone(),
        secret,
        tokens: minted.into_iter().map(|(_, token)| token.into()).collect(),
    };
    let report = measure(options, benchmarks, setup).await;
    // In any case: no node may use the servers any more when they stop.
    database.close().await;
    let report = report?;
    stores.close().await?;
    Ok(report)
}
