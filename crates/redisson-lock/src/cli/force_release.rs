//! The command `force-release`.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::consent::Consent;
use super::inspect::{in_words, named};
use super::{FAILED, RedisArgs, say, tell};
use crate::LockOptions;

/// Free a lock, plain or fair, whoever holds it
///
/// The last resort, for a lock whose holder is known to be gone. A holder that lives is told only when
/// it next renews its lease (every third of it) and works on beside the next one until then. Waiters are
/// woken. Asks first, or does it at once with --yes.
///
/// Exit status 0 when the lock is free, 1 when the answer was no, when another one has taken the lock
/// meanwhile, or when there is something else by this name (which is not touched).
#[derive(Debug, Args)]
pub struct ForceReleaseArgs {
    /// The lock
    #[arg(value_name = "NAME")]
    name: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    redis: RedisArgs,
}

pub(super) async fn run(args: ForceReleaseArgs) -> anyhow::Result<ExitCode> {
    let consent = Consent::new(args.yes)?;
    let locks = args.redis.locks(LockOptions::default())?;
    let lock = locks.lock(&args.name);
    let code = match named(lock.state().await, &args.name)? {
        None => {
            say(in_words(&args.name, None))?;
            ExitCode::SUCCESS
        }
        Some(state) => {
            let question = format!("{}. Free it?", in_words(&args.name, Some(&state)));
            if consent.to(&question)? {
                // Only the holder that was asked about.
                let freed = lock.force_release_of(&state.owner).await;
                let freed =
                    freed.with_context(|| format!("cannot free the lock {:?}", args.name))?;
                let now = if freed { None } else { named(lock.state().await, &args.name)? };
                if now.is_some() {
                    say(in_words(&args.name, now.as_ref()))?;
                    tell(format_args!(
                        "the holder has left by itself, this one was not asked about"
                    ));
                    ExitCode::from(FAILED)
                } else {
                    let was = if freed { "is free now" } else { "was free already" };
                    say(format!("{} {was}", args.name))?;
                    ExitCode::SUCCESS
                }
            } else {
                tell(format_args!("the lock {:?} stays held", args.name));
                ExitCode::from(FAILED)
            }
        }
    };
    locks.shutdown().await;
    Ok(code)
}
