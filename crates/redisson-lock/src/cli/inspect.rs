//! The command `inspect`.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use super::{RedisArgs, Unusable, say};
use crate::{LockError, LockOptions, LockState};

/// Say who holds a lock, how often, and for how long yet
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The lock
    #[arg(value_name = "NAME")]
    name: String,
    /// Print JSON: name, locked, owner, holds, remaining_ms, queued (of a fair lock)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    redis: RedisArgs,
}

#[derive(Serialize)]
pub(super) struct InspectReport<'a> {
    name: &'a str,
    locked: bool,
    owner: Option<&'a str>,
    holds: u64,
    remaining_ms: Option<u128>,
    queued: u64,
}

impl<'a> InspectReport<'a> {
    pub(super) fn new(name: &'a str, holder: Option<&'a LockState>) -> Self {
        Self {
            name,
            locked: holder.is_some(),
            owner: holder.map(|state| state.owner.as_str()),
            holds: holder.map_or(0, |state| state.holds),
            remaining_ms: holder.and_then(|state| state.remaining).map(|left| left.as_millis()),
            queued: holder.map_or(0, |state| state.queued),
        }
    }
}

/// The answer about the lock of this name, with an error in the words for the user.
pub(super) fn named<T>(answer: Result<T, LockError>, name: &str) -> anyhow::Result<T> {
    match answer {
        Err(error @ LockError::InvalidName(_)) => Err(Unusable(error.to_string()).into()),
        answer => answer.with_context(|| format!("cannot inspect the lock {name:?}")),
    }
}

pub(super) async fn run(args: InspectArgs) -> anyhow::Result<ExitCode> {
    let locks = args.redis.locks(LockOptions::default())?;
    let state = named(locks.lock(&args.name).state().await, &args.name)?;
    locks.shutdown().await;
    let holder = state.as_ref();
    if args.json {
        say(serde_json::to_string_pretty(&InspectReport::new(&args.name, holder))?)?;
    } else {
        say(in_words(&args.name, holder))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// For a person.
pub(super) fn in_words(name: &str, state: Option<&LockState>) -> String {
    let Some(state) = state else { return format!("{name}: free") };
    if state.is_kept() {
        let left = state.remaining.unwrap_or_default().as_secs_f64();
        return format!("{name}: held by nobody, and kept for {left:.1} s yet by {}", state.owner);
    }
    let left = match state.remaining {
        Some(left) => format!("{:.1} s left unless it is renewed", left.as_secs_f64()),
        None => "without an end".to_owned(),
    };
    let times = if state.holds == 1 { "once" } else { &format!("{} times", state.holds) };
    let queue = match state.queued {
        0 => String::new(),
        waiters => format!(", {waiters} in its queue"),
    };
    format!("{name}: held {times} by {}, {left}{queue}", state.owner)
}
