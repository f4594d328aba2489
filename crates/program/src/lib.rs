//! What the programs of this workspace have in common at their edge: how arguments are refused, what the
//! exit statuses mean, where results and logs go, how far a command is, how a program is asked to stop, and how one
//! program starts another one of them.

use std::process::ExitCode;

use clap::Parser;

pub mod browser;
mod environment;
mod logs;
#[cfg(feature = "node")]
pub mod node;
mod output;
#[cfg(feature = "progress")]
pub mod progress;
mod revision;
pub mod sibling;
pub mod stop;

pub use environment::{LogFormat, check_environment, log_filter, log_format, secret_read_from};
pub use logs::continue_trace;
pub use output::{OutputFile, ReportFiles, say, say_beside, write};
pub use revision::revision;

/// Exit status of a command that ran and found something wrong.
pub const FAILED: u8 = 1;
/// Exit status of a command that could not begin: its arguments, its environment.
pub const UNUSABLE: u8 = 2;

/// Exit status of a command that was interrupted, or told to end.
pub const INTERRUPTED: u8 = 130;
/// Exit status of a command whose output nobody reads any more: that of a program which SIGPIPE ended.
pub const UNREAD: u8 = 141;

/// The command was interrupted, or told to end: what it says then, before exit status 130.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted: {0}")]
pub struct Interrupted(pub &'static str);

/// Nobody reads standard output any more, which is no reason for a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads standard output any more")]
pub struct Unread;

/// A configuration that cannot be used: the sentence to print before exit status 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// Arguments whose values no message may repeat.
const SECRET_ARGUMENTS: [&str; 7] = [
    "--database-url",
    "--redis-url",
    "--secret",
    "--sms-url",
    "--sms-secret",
    "--payments-url",
    "--payments-secret",
];

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
        end_where_nobody_reads();
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
    if error.is::<Unread>() {
        return ExitCode::from(UNREAD);
    }
    eprintln!("seckill: {}", in_one_line(error));
    ExitCode::from(if error.is::<Interrupted>() { INTERRUPTED } else { FAILED })
}

/// The error and what caused it. Many a text has that of its cause in it already.
fn in_one_line(error: &anyhow::Error) -> String {
    let texts = error.chain().map(ToString::to_string);
    let line = |told: String, cause: String| {
        if told.contains(&cause) { told } else { format!("{told}: {cause}") }
    };
    texts.reduce(line).unwrap_or_default()
}

/// The standard library panics where nobody reads what `eprintln!` says (`seckill demo 2>&1 | head -1`): then the program ends
/// as SIGPIPE would end it. It ignores that signal, which would also come from a connection.
fn end_where_nobody_reads() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let words = panic.payload_as_str().unwrap_or_default();
        if words.starts_with("failed printing to std") && words.contains("Broken pipe") {
            std::process::exit(UNREAD.into());
        }
        usual(panic);
    }));
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
