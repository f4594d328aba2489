//! The environment, looked at before anything starts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::EnvFilter;

use crate::ConfigError;

/// Variables that no argument is read from: how logs look, and those for what `seckill lock run` runs, which
/// may be this program.
const OF_NO_ARGUMENT: [&str; 2] = ["SECKILL_LOCK_FENCE", "SECKILL_LOG"];

/// Those that may be empty, mostly lists: compose files set them whether there is a value or not.
const LISTS: [&str; 6] = [
    "SECKILL_ADMIN_PHONES",
    "SECKILL_ALLOWED_ORIGINS",
    "SECKILL_BASE_PATH",
    "SECKILL_KEY_PREFIX",
    "SECKILL_LOGIN_LIMITS",
    "SECKILL_TRUSTED_PROXIES",
];

/// At the end of a variable's name: the value stands in the file that is named here.
const FILE: &str = "_FILE";

/// Checks the environment before anything starts. Returns a warning for each `SECKILL_` variable that
/// none of `commands` has: it may be misspelt, or somebody else's (Kubernetes sets `SECKILL_PORT` for
/// a service named seckill).
///
/// # Errors
/// Names the first of our variables that is empty or no text.
#[allow(clippy::disallowed_methods)] // this module reads the environment
pub fn check_environment(commands: &[clap::Command]) -> Result<Vec<String>, ConfigError> {
    let mut variables = BTreeSet::from(OF_NO_ARGUMENT.map(str::to_owned));
    for command in commands {
        collect_variables(command, &mut variables);
    }
    let mut warnings = Vec::new();
    for (name, value) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name == "RUST_LOG" && value.to_str().is_none() {
            return Err(ConfigError("RUST_LOG is not valid UTF-8".to_owned()));
        }
        if variables.contains(name.as_str()) {
            if value.is_empty() && !LISTS.contains(&name.as_str()) {
                return Err(ConfigError(format!(
                    "{name} is set but empty: give it a value or unset it"
                )));
            }
            if value.to_str().is_none() {
                return Err(ConfigError(format!("{name} is not valid UTF-8")));
            }
        } else if name.starts_with("SECKILL_") {
            let nearest = variables.iter().min_by_key(|known| strsim::levenshtein(known, &name));
            warnings.push(format!(
                "{name} is not a variable of seckill and is ignored (the nearest one is {})",
                nearest.map_or("", String::as_str)
            ));
        }
    }
    Ok(warnings)
}

/// `command`, whose secrets also come from files: that of `DATABASE_URL` from the one that `DATABASE_URL_FILE` names.
/// Flags win.
///
/// # Errors
/// Names the variable whose file is of no use, or that is set as well as that of the file.
#[allow(clippy::disallowed_methods)] // this module reads the environment
pub(crate) fn with_secret_files(mut command: clap::Command) -> Result<clap::Command, ConfigError> {
    let mut wrong = None;
    command = command.mut_args(|argument| {
        let Some(name) = argument.get_env().filter(|_| argument.is_hide_env_values_set()) else {
            return argument;
        };
        let name = name.to_string_lossy().into_owned();
        let Some(path) = std::env::var_os(name.clone() + FILE) else { return argument };
        match secret_in(&name, Path::new(&path), std::env::var_os(&name).is_some()) {
            Ok(secret) => {
                let argument = argument.default_value(secret).hide_default_value(true);
                // Else a default does not count.
                argument.required(false)
            }
            Err(error) => {
                wrong = Some(error);
                argument
            }
        }
    });
    if let Some(error) = wrong {
        return Err(error);
    }
    let names: Vec<_> =
        command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    for name in names {
        let mut below = Ok(());
        command = command.mut_subcommand(name, |command| {
            with_secret_files(command.clone()).unwrap_or_else(|error| {
                below = Err(error);
                command
            })
        });
        below?;
    }
    Ok(command)
}

fn secret_in(name: &str, path: &Path, is_set_too: bool) -> Result<&'static str, ConfigError> {
    let refused = |why: &str| ConfigError(format!("{name}{FILE} {why}"));
    if is_set_too {
        return Err(refused(&format!("and {name} are both set: unset one of them")));
    }
    if path.as_os_str().is_empty() {
        return Err(refused("is set but empty: give it a value or unset it"));
    }
    match read_once(path) {
        Err(error) => Err(refused(&format!("names {}: {error}", path.display()))),
        Ok("") => Err(refused(&format!("names {}, which is empty", path.display()))),
        Ok(secret) => Ok(secret),
    }
}

/// What the files of secrets said. It lives as long as the program, as the environment does.
static SECRETS: Mutex<BTreeMap<PathBuf, &'static str>> = Mutex::new(BTreeMap::new());

/// Reads a file once, for all commands that have its argument: it may change meanwhile, and a pipe says it once.
fn read_once(path: &Path) -> io::Result<&'static str> {
    if let Some(secret) = secret_read_from(path) {
        return Ok(secret);
    }
    let text = std::fs::read_to_string(path)?;
    let secret: &'static str = text.trim_end_matches(['\r', '\n']).to_owned().leak();
    SECRETS.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), secret);
    Ok(secret)
}

/// What the file of a secret said when the program started; `None`: it was not read.
pub fn secret_read_from(path: &Path) -> Option<&'static str> {
    SECRETS.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied()
}

/// The variables that arguments of `command`, and of all that is below it, are read from.
fn collect_variables(command: &clap::Command, variables: &mut BTreeSet<String>) {
    for argument in command.get_arguments() {
        let Some(name) = argument.get_env().and_then(OsStr::to_str) else { continue };
        variables.insert(name.to_owned());
        if argument.is_hide_env_values_set() {
            variables.insert(name.to_owned() + FILE);
        }
    }
    for below in command.get_subcommands() {
        collect_variables(below, variables);
    }
}

/// The filter of log lines: `RUST_LOG`, or `default`.
///
/// # Errors
/// When `RUST_LOG` is malformed.
pub fn log_filter(default: &str) -> Result<EnvFilter, ConfigError> {
    let text = variable("RUST_LOG");
    EnvFilter::from_str(text.as_deref().unwrap_or(default))
        .map_err(|error| ConfigError(format!("RUST_LOG is malformed: {error}")))
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// An object a line.
    Json,
}

/// How log lines look: `SECKILL_LOG`, `text` (the default) or `json`.
///
/// # Errors
/// When it is neither.
pub fn log_format() -> Result<LogFormat, ConfigError> {
    match variable("SECKILL_LOG").as_deref() {
        None | Some("text") => Ok(LogFormat::Text),
        Some("json") => Ok(LogFormat::Json),
        Some(other) => Err(ConfigError(format!("SECKILL_LOG is text or json, not {other:?}"))),
    }
}

/// Whether the environment names a collector of traces, as the specification of OpenTelemetry has it.
pub(crate) fn wants_traces() -> bool {
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
        .into_iter()
        .any(|name| variable(name).is_some())
}

#[allow(clippy::disallowed_methods)] // this module reads the environment
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
