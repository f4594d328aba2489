//! The command `run`.

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal};
use std::process::{Command, ExitCode};
use std::time::Duration;

use child_process::ChildProcess;
use clap::Args;
use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::child::{Signals, exit_code};
use super::inspect::in_words;
use super::{RedisArgs, Unusable, tell};
use crate::{Guard, Lease, Lock, LockError, LockOptions};

/// sysexits.h: Redis cannot be reached, or is no place for locks.
const EX_UNAVAILABLE: u8 = 69;
/// sysexits.h: it went wrong half-way; the lock was lost while the command ran.
const EX_SOFTWARE: u8 = 70;
/// sysexits.h: somebody else holds the lock; try again later.
const EX_TEMPFAIL: u8 = 75;
/// What the command finds the lock's name in.
const HELD: &str = "SECKILL_LOCK_NAME";
/// As shells say it.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Run a command while holding a lock, as flock(1) does on one machine
///
/// The exit status is the command's own (128 + n when signal n ended it), or 75 when
/// somebody else holds the lock, 70 when the lock was lost while the command ran, 69 when
/// Redis cannot be used, 126 or 127 when the command cannot be started.
///
/// The command finds the lock's name in SECKILL_LOCK_NAME, and with --fence the fencing
/// token in SECKILL_LOCK_FENCE.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The lock
    #[arg(value_name = "NAME")]
    name: String,
    /// The command and its arguments; options for this program stand before it, and -- may
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// How long the lock stays held when this program dies; renewed while it runs
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    lease: Duration,
    /// Do not renew the lease: the command is ended when it is over
    #[arg(long)]
    no_renew: bool,
    /// How long to wait for the lock, such as 10s or 5min, also for a Redis that is away; 0s tries once
    /// [default: without limit, but only for a Redis that answers the first try]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    wait: Option<Duration>,
    /// Let nobody in before so long, however early the command ends; at most the lease. For a job that ends in
    /// a moment, and must not run again on a machine whose clock is behind
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    at_least: Option<Duration>,
    /// Between SIGTERM and SIGKILL, when the lock is lost
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    grace: Duration,
    /// First come, first served, among all who take the lock so, also with Redisson's RFairLock
    #[arg(long)]
    fair: bool,
    /// Take a fencing token with the lock
    #[arg(long)]
    fence: bool,
    /// The lock that this program runs under already
    #[arg(long, env = HELD, hide = true)]
    held: Option<String>,
    #[command(flatten)]
    redis: RedisArgs,
}

pub(super) async fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    check_at_least(&args)?;
    check_held(&args)?;
    let mut signals = Signals::listen()?;
    let locks = args.redis.locks(options(args.wait))?;
    let lease = if args.no_renew { Lease::Fixed(args.lease) } else { Lease::Renewed(args.lease) };
    let mut lock = locks.lock(&args.name).lease(lease);
    if args.fair {
        lock = lock.fair();
    }
    if args.fence {
        lock = lock.fenced();
    }
    let entered = tokio::select! {
        entered = enter(&lock, &args) => entered,
        signal = signals.next() => {
            locks.shutdown().await;
            return Ok(ExitCode::from(exit_status_of(signal)));
        }
    };
    let code = match entered {
        Ok(Some(guard)) => work(guard, &args, &mut signals).await,
        Ok(None) => {
            tell(format_args!("somebody else holds the lock {:?}", args.name));
            Ok(EX_TEMPFAIL)
        }
        Err(error @ (LockError::InvalidName(_) | LockError::InvalidLease)) => {
            return Err(Unusable(error.to_string()).into());
        }
        Err(error) => {
            let within = match args.wait {
                Some(wait) if error.retry_may_help() && !wait.is_zero() => {
                    format!(" within {}", humantime::format_duration(wait))
                }
                _ => String::new(),
            };
            tell(format_args!("the lock {:?} could not be taken{within}: {error}", args.name));
            Ok(EX_UNAVAILABLE)
        }
    };
    // Gives back what a signal or an error left half-way.
    locks.shutdown().await;
    Ok(ExitCode::from(code?))
}

fn check_at_least(args: &RunArgs) -> Result<(), Unusable> {
    let (at_least, lease) = (args.at_least.unwrap_or_default(), args.lease);
    if at_least <= lease {
        return Ok(());
    }
    let [at_least, lease] = [at_least, lease].map(humantime::format_duration);
    Err(Unusable(format!(
        "--at-least {at_least} is longer than the lease of {lease}, which is all that is left where this program \
         dies: give --lease {at_least} or more"
    )))
}

/// What runs under the lock waits for itself, where it waits without limit.
fn check_held(args: &RunArgs) -> Result<(), Unusable> {
    if args.wait.is_some() || args.held.as_ref() != Some(&args.name) {
        return Ok(());
    }
    Err(Unusable(format!(
        "this runs under a lock {:?} already ({HELD}), and without --wait would wait for itself for ever; if that is the \
         lock of another Redis, give --wait TIME",
        args.name
    )))
}

/// A wait outlives every outage that is shorter than it.
fn options(wait: Option<Duration>) -> LockOptions {
    let usual = LockOptions::default();
    let outage_patience = usual.outage_patience.max(wait.unwrap_or_default());
    usual.outage_patience(outage_patience)
}

async fn enter(lock: &Lock, args: &RunArgs) -> Result<Option<Guard>, LockError> {
    let begun = Instant::now();
    let tried = lock.try_acquire().await;
    if let Ok(Some(guard)) = tried {
        return Ok(Some(guard));
    }
    // A limit is patience with Redis, too. What the failed try may have been granted is given back.
    let is_patient = args.wait.is_some_and(|wait| !wait.is_zero());
    match &tried {
        Err(error) if is_patient && error.retry_may_help() => {}
        Ok(_) if is_patient || args.wait.is_none() => {}
        _ => return tried,
    }
    if std::io::stderr().is_terminal() {
        // A person at a terminal who sees nothing happen asks why.
        let why = match tried {
            Err(error) => error.to_string(),
            Ok(_) => match lock.state().await {
                Ok(state) => in_words(&args.name, state.as_ref()),
                Err(error) => error.to_string(),
            },
        };
        let limit = if is_patient { "" } else { " without limit (--wait TIME sets one)" };
        tell(format_args!("waiting{limit}; {why}"));
    }
    match args.wait {
        // The first try was part of it.
        Some(wait) => lock.acquire_within(wait.saturating_sub(begun.elapsed())).await,
        None => lock.acquire().await.map(Some),
    }
}

/// Runs the command to its end, or to the lock's.
async fn work(guard: Guard, args: &RunArgs, signals: &mut Signals) -> anyhow::Result<u8> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Ok(NOT_FOUND); // clap requires one
    };
    let mut command = Command::new(program);
    command.args(arguments).env(HELD, &args.name);
    if let Some(token) = guard.fence() {
        command.env("SECKILL_LOCK_FENCE", token.to_string());
    }
    let is_at_a_terminal = std::io::stdin().is_terminal();
    let start = match is_at_a_terminal {
        true => ChildProcess::start_at_the_terminal,
        false => ChildProcess::start,
    };
    // Should this program be killed, nobody renews the lock: the command must end too. Where
    // the system cannot do that (only Linux can) the command goes on without the lock.
    let mut work = match start(command, Signal::SIGTERM) {
        Ok(work) => work,
        Err(error) => {
            tell(format_args!("cannot run {}: {error}", program.display()));
            let _ = guard.release().await;
            let missing = error.kind() == ErrorKind::NotFound;
            return Ok(if missing { NOT_FOUND } else { NOT_EXECUTABLE });
        }
    };
    if let Some(at_least) = args.at_least {
        guard.keep_at_least(at_least)?;
    }
    let code = loop {
        tokio::select! {
            biased;
            status = work.wait() => break exit_code(status?),
            () = guard.lost() => {
                tell(format_args!("the lock {:?} was lost, the command is ended", args.name));
                work.stop(args.grace).await?;
                return Ok(EX_SOFTWARE);
            }
            signal = signals.next() => {
                // The terminal has sent Ctrl-C to the command as well.
                let is_sent = is_at_a_terminal && signal == Signal::SIGINT;
                if !is_sent && let Err(error) = work.signal(signal) {
                    tracing::debug!(%error, "the command is gone already");
                }
            }
        }
    };
    match guard.release().await {
        Ok(()) => Ok(code),
        Err(LockError::NotHeld(_)) => {
            tell(format_args!("the lock {:?} was lost before the command ended", args.name));
            Ok(EX_SOFTWARE)
        }
        Err(error) => {
            tell(format_args!("the lock {:?} is left to its lease: {error}", args.name));
            Ok(code)
        }
    }
}

fn exit_status_of(signal: Signal) -> u8 {
    u8::try_from(128 + signal as i32).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patience_with_an_outage_is_the_wait_and_never_less_than_usual() {
        let usual = LockOptions::default().outage_patience;
        let second = Duration::from_secs(1);
        for (wait, patience) in [
            (None, usual),
            (Some(Duration::ZERO), usual),
            (Some(usual - second), usual),
            (Some(usual), usual),
            (Some(usual + second), usual + second),
        ] {
            assert_eq!(options(wait).outage_patience, patience, "{wait:?}");
        }
    }
}
