//! `seckill demo --against r01`: the same crowd meets a design of the ladder. The lab puts it on sale and
//! judges it, as in `seckill lab rush`.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use child_process::{ChildProcess, last_line};
use nix::sys::signal::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;

use load::rungs::{ListedRung, RushReport, Rushes};
use program::sibling::Sibling;
use seckill::config::ConfigError;

/// Longer than a rush may take, with all that comes before and after it.
const LAB_WITHIN: Duration = Duration::from_secs(1_200);
/// How long a lab that is told to end may take to drop its scratch databases.
const LAB_ENDS_WITHIN: Duration = Duration::from_secs(30);
/// More than the lab ever writes, in bytes.
const MAX_OUTPUT: u64 = 64 * 1024 * 1024;

/// What came of it. A design that could not be judged says nothing about the sale beside it.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Against {
    /// The lab's verdict.
    Judged(Box<RushReport>),
    /// There is none.
    Failed {
        /// Its full name.
        rung: String,
        /// Why.
        error: String,
    },
}

/// A crowd as the lab is asked for it.
#[derive(Debug, Clone, Copy)]
pub struct CrowdSize {
    /// Buyers.
    pub users: u32,
    /// How often each of them comes.
    pub attempts: u32,
    /// Vouchers.
    pub stock: i32,
    /// Decides the order of the attempts.
    pub seed: u64,
}

/// The full name of the rung that `name` means.
///
/// # Errors
/// [`ConfigError`] when it means none, or several: the lab says so.
pub async fn rung(name: &str) -> anyhow::Result<String> {
    let listed: Vec<ListedRung> = match output(lab(&["list", "--json", "-", "--", name])?).await {
        Ok(listed) => listed,
        Err(why) => return Err(ConfigError(format!("--against: {why}")).into()),
    };
    listed.into_iter().next().map(|it| it.rung).context("the lab lists no rung")
}

impl Against {
    /// Has `rung` sell to such a crowd, in scratch databases beside these servers.
    pub async fn meet(rung: String, crowd: CrowdSize, stores: (&str, &str)) -> Self {
        match rush(&rung, crowd, stores).await {
            Ok(report) => Self::Judged(Box::new(report)),
            Err(error) => Self::Failed { rung, error },
        }
    }

    /// The verdict, where there is one.
    #[must_use]
    pub fn verdict(&self) -> Option<&RushReport> {
        match self {
            Self::Judged(report) => Some(report),
            Self::Failed { .. } => None,
        }
    }

    /// The verdict in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Failed { rung, error } => format!("{rung}: could not be tried: {error}"),
            Self::Judged(report) => {
                let RushReport { rung, crowd, witnesses, .. } = &**report;
                match crowd.holds {
                    true => format!("{rung}: HOLDS this time: {} orders.", crowd.figures.orders),
                    false => format!("{rung}: BROKEN: {}.", witnesses.join("; ")),
                }
            }
        }
    }
}

async fn rush(
    rung: &str,
    crowd: CrowdSize,
    (database_url, redis_url): (&str, &str),
) -> Result<RushReport, String> {
    let CrowdSize { users, attempts, stock, seed } = crowd;
    let mut command = lab(&["rush", rung, "--json", "-"]).map_err(|error| error.to_string())?;
    command
        .arg(format!("--users={users}"))
        .arg(format!("--attempts={attempts}"))
        .arg(format!("--stock={stock}"))
        .arg(format!("--seed={seed}"))
        .env_remove("DATABASE_URL_FILE")
        .env_remove("REDIS_URL_FILE")
        .env("DATABASE_URL", database_url)
        .env("REDIS_URL", redis_url);
    let Rushes { rushes } = output(command).await?;
    rushes.into_iter().next().ok_or_else(|| "the lab says nothing".to_owned())
}

fn lab(arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(Sibling::Lab.path()?);
    command.arg("lab").args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// What a command of the lab writes as JSON. Its exit status says what the JSON says, too. Where the demo is
/// broken off the lab is told to end, and awaited: on servers that were named, its scratch databases would stay.
async fn output<T: DeserializeOwned>(command: Command) -> Result<T, String> {
    let lab = ChildProcess::start(command, Signal::SIGTERM)
        .map_err(|error| format!("the lab cannot be started: {error}"))?
        .ending_in_order(LAB_ENDS_WITHIN);
    let done = lab.output(LAB_WITHIN, MAX_OUTPUT).await;
    let done = done.map_err(|error| format!("the lab {error}"))?;
    serde_json::from_slice(&done.stdout).map_err(|_| {
        let line = last_line(&done.stderr);
        let why = line.map(|line| line.trim_start_matches("seckill: ").to_owned());
        why.unwrap_or_else(|| format!("the lab ended with {}", done.status))
    })
}
