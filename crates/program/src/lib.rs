//! What the programs of this workspace have in common at their edge: how arguments are refused, what the
//! exit statuses mean, where results and logs go, how a program is asked to stop, and how one program
//! starts another one of them.

use std::process::ExitCode;

use clap::Parser;
mod environment;
mod logs;
mod output;
mod revision;
pub mod sibling;
pub mod stop;

pub use environment::{LogFormat, check_environment, log_filter, log_format};
pub use logs::continue_trace;
pub use output::{check_writable, say, write_json, write_text};
pub use revision::revision;

/// Exit status of a command that ran and found something wrong.
pub const FAILED: u8 = 1;
/// Exit status of a command that could not begin: its arguments, its environment.
pub const UNUSABLE: u8 = 2;

/// A configuration that cannot be used: the sentence to print before exit status 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// Arguments whose values no message may repeat.
const SECRET_ARGUMENTS: [&str; 5] =
    ["--database-url", "--redis-url", "--secret", "--sms-url", "--sms-secret"];

/// How a program differs from the others.
pub struct Program<C> {
    /// Commands whose variables are not this program's but are known: its siblings'.
    pub also_known: Vec<clap::Command>,
    /// The filter of log lines where `RUST_LOG` is not set.
    pub log_filter: fn(&C) -> &'static str,
    /// Whether an error means that the command could not begin.
    pub is_unusable: fn(&anyhow::Error) -> bool,
}

impl<C: Parser> Program<C> {
    /// Parses the arguments, refuses what is unusable, and does the work on a runtime of many threads.
    pub fn main(self, run: impl AsyncFnOnce(C) -> anyhow::Result<ExitCode>) -> ExitCode {
        let command = match environment::with_secret_files(C::command()) {
            Ok(command) => command,
            Err(error) => return unusable(&error.to_string()),
        };
        let parsed = command.clone().try_get_matches();
        let parsed = parsed.and_then(|matches| C::from_arg_matches(&matches));
        let cli = match parsed.map_err(|error| error.format(&mut command.clone())) {
            Ok(cli) => cli,
            Err(error) if error.use_stderr() => return unusable(&first_sentence(&error)),
            Err(help) => {
                // Help and version; nobody to tell when standard output is closed.
                let _ = help.print();
                return ExitCode::SUCCESS;
            }
        };
        let mut known = self.also_known;
        known.push(C::command());
        let started = check_environment(&known)
            .and_then(|warnings| Ok((warnings, logs::start((self.log_filter)(&cli))?)));
        let (warnings, _traces) = match started {
            Ok(started) => started,
            Err(error) => return unusable(&error.to_string()),
        };
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return report(&error.into(), self.is_unusable),
        };
        let done = runtime.block_on(run(cli));
        // Reading standard input blocks a thread that nothing can interrupt.
        runtime.shutdown_background();
        done.unwrap_or_else(|error| report(&error, self.is_unusable))
    }
}

/// An error as one line, and the exit status that says whose turn it is.
fn report(error: &anyhow::Error, is_unusable: fn(&anyhow::Error) -> bool) -> ExitCode {
    if error.is::<ConfigError>() || is_unusable(error) {
        return unusable(&error.to_string());
    }
    eprintln!("seckill: {error:#}");
    ExitCode::from(FAILED)
}

/// Tells the person at the terminal what is neither a result nor a failure.
pub fn note(sentence: impl std::fmt::Display) {
    eprintln!("seckill: {sentence}");
}

/// Says why a command cannot begin.
#[must_use]
pub fn unusable(sentence: &str) -> ExitCode {
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
