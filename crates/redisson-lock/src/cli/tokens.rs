//! The command `tokens`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use super::consent::Consent;
use super::{FAILED, RedisArgs, say, tell};
use crate::LockOptions;

/// List the fencing counters, or remove those of locks that went out of use
///
/// A counter is never removed by itself, so that the numbers of a name never go back. This program's next
/// number begins at Redis' clock, above every one before; so a counter may be removed that has not been
/// used for long, where no RFencedLock of Redisson will use the name again: its next number would be 1.
/// Those that only Redisson has counted, those ahead of the clock and those of held locks are kept.
#[derive(Debug, Args)]
pub struct FencingTokensArgs {
    /// Only names like this: * for any characters, ? for one, [ab] for one of these
    #[arg(value_name = "PATTERN", default_value = "*")]
    pattern: String,
    /// Remove those that nobody has used for so long, such as 30d; asks first
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    remove_idle: Option<Duration>,
    /// Do not ask: no RFencedLock uses these names
    #[arg(long, requires = "remove_idle")]
    yes: bool,
    /// How many, at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: u32,
    /// Print JSON: counters (name, idle_s, removed) and cut, whether there may be more
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    redis: RedisArgs,
}

#[derive(Serialize)]
struct FencingTokensReport {
    counters: Vec<Counter>,
    cut: bool,
}

#[derive(Serialize)]
struct Counter {
    name: String,
    idle_s: u64,
    removed: bool,
}

pub(super) async fn run(args: FencingTokensArgs) -> anyhow::Result<ExitCode> {
    let consent = args.remove_idle.map(|_| Consent::new(args.yes)).transpose()?;
    let locks = args.redis.locks(LockOptions::default())?;
    let counters = locks.fencing_counters(&args.pattern, args.limit as usize).await;
    let counters = counters.context("cannot list the fencing counters")?;
    let mut report = FencingTokensReport { counters: Vec::new(), cut: counters.cut };
    let longest = args.remove_idle.unwrap_or(Duration::MAX);
    let old = counters.found.values().filter(|idle| **idle >= longest).count();
    let question =
        format!("remove up to {old} fencing counters? No RFencedLock may use these names again.");
    if let Some(consent) = consent
        && old > 0
        && !consent.to(&question)?
    {
        tell(format_args!("nothing was removed"));
        return Ok(ExitCode::from(FAILED));
    }
    let mut code = ExitCode::SUCCESS;
    for (name, idle) in counters.found {
        let removed = idle >= longest && {
            // What was removed before is told, too.
            locks.forget_fencing_counter(&name, longest).await.unwrap_or_else(|error| {
                tell(format_args!("cannot remove the fencing counter of {name:?}: {error}"));
                code = ExitCode::from(FAILED);
                false
            })
        };
        report.counters.push(Counter { name, idle_s: idle.as_secs(), removed });
    }
    locks.shutdown().await;
    if args.json {
        say(serde_json::to_string_pretty(&report)?)?;
        return Ok(code);
    }
    for Counter { name, idle_s, removed } in &report.counters {
        let idle = humantime::format_duration(Duration::from_secs(*idle_s));
        say(format!("{name}: unused for {idle}{}", if *removed { ", removed" } else { "" }))?;
    }
    if report.cut {
        tell(format_args!("there may be more, name a pattern or a larger --limit"));
    }
    Ok(code)
}
