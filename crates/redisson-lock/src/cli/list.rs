//! The command `list`.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use super::RedisArgs;
use super::inspect::{InspectReport, in_words};
use super::{say, tell};
use crate::LockOptions;

/// List the locks that are held, plain and fair ones, also Redisson's
///
/// Looks at the keys of all masters with SCAN, a thousand at a time and a million at most, so that it can
/// be used beside a Redis at work; on one with very many keys name a pattern.
#[derive(Debug, Args)]
pub struct LockListArgs {
    /// Only names like this: * for any characters, ? for one, [ab] for one of these
    #[arg(value_name = "PATTERN", default_value = "*")]
    pattern: String,
    /// How many, at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: u32,
    /// Print JSON: locks (each as `lock inspect --json`) and cut, whether there may be more
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    redis: RedisArgs,
}

#[derive(Serialize)]
struct ListReport<'a> {
    locks: Vec<InspectReport<'a>>,
    cut: bool,
}

pub(super) async fn run(args: LockListArgs) -> anyhow::Result<ExitCode> {
    let locks = args.redis.locks(LockOptions::default())?;
    let held = locks.held_locks(&args.pattern, args.limit as usize).await;
    let held = held.context("cannot list the locks")?;
    locks.shutdown().await;
    if args.json {
        let report = held.found.iter().map(|(name, state)| InspectReport::new(name, Some(state)));
        let report = ListReport { locks: report.collect(), cut: held.cut };
        say(serde_json::to_string_pretty(&report)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (name, state) in &held.found {
        say(in_words(name, Some(state)))?;
    }
    if held.cut {
        tell(format_args!("there may be more, name a pattern or a larger --limit"));
    }
    Ok(ExitCode::SUCCESS)
}
