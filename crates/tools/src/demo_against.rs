//! `seckill demo --against r01`: the same crowd meets a design of the ladder. The lab puts it on sale and
//! judges it, as in `seckill lab rush`.

use std::process::{Command, Stdio};
use std::time::Duration;

use child_process::{ChildProcess, last_line};
use nix::sys::signal::Signal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use load::verdict::CrowdVerdict;
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
    Judged {
        /// As the lab gave it.
        #[serde(flatten)]
        json: Value,
        /// What the terminal shows of it.
        #[serde(skip)]
        verdict: Box<RungVerdict>,
    },
    /// There is none.
    Failed {
        /// Its full name.
        rung: String,
        /// Why.
        error: String,
    },
}

/// What the terminal shows of the lab's verdict on a rung.
#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs)] // fixed by the lab's report; the names say it
pub struct RungVerdict {
    pub rung: String,
    #[serde(flatten)]
    pub crowd: CrowdVerdict,
    pub witnesses: Vec<String>,
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
/// [`ConfigError`] when it means none, or several.
pub async fn rung(name: &str) -> anyhow::Result<String> {
    #[derive(Deserialize)]
    struct Listed {
        rung: String,
    }
    let list = lab(&["list", "--json", "-"])?;
    let listed: Vec<Listed> = output(list).await.map_err(anyhow::Error::msg)?;
    let mut meant = listed.into_iter().map(|listed| listed.rung).filter(|rung| {
        rung == name || rung.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'))
    });
    match (meant.next(), meant.next()) {
        (Some(rung), None) => Ok(rung),
        _ => {
            let name: String = name.chars().take(64).collect();
            Err(ConfigError(format!(
                "--against: there is no rung {name:?}; `seckill lab list` names them all"
            ))
            .into())
        }
    }
}

impl Against {
    /// Has `rung` sell to such a crowd, in scratch databases beside these servers.
    pub async fn meet(rung: String, crowd: CrowdSize, stores: (&str, &str)) -> Self {
        let judged = async {
            let json = rush(&rung, crowd, stores).await?;
            let verdict = RungVerdict::deserialize(&json).map_err(|error| error.to_string())?;
            Ok(Self::Judged { json, verdict: Box::new(verdict) })
        };
        judged.await.unwrap_or_else(|error| Self::Failed { rung, error })
    }

    /// The verdict, where there is one.
    #[must_use]
    pub fn verdict(&self) -> Option<&RungVerdict> {
        match self {
            Self::Judged { verdict, .. } => Some(verdict),
            Self::Failed { .. } => None,
        }
    }

    /// The verdict in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Failed { rung, error } => format!("{rung}: could not be tried: {error}"),
            Self::Judged { verdict, .. } => {
                let RungVerdict { rung, crowd, witnesses } = &**verdict;
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
) -> Result<Value, String> {
    #[derive(Deserialize)]
    struct Rushes {
        rushes: Vec<Value>,
    }
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
        last_line(&done.stderr).unwrap_or_else(|| format!("the lab ended with {}", done.status))
    })
}
