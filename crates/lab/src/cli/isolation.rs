//! `seckill lab isolation`.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::replay::{summary, told};
use crate::isolation::{
    CASES, DatabaseKind, IsolationCase, IsolationCell, IsolationClaim, IsolationLevel,
    IsolationServer, isolation_matrix, play_cell, unplayed_cell,
};
use crate::report::counted;
use crate::report::terminal::{Look, list, not_as_claimed, signs};
use crate::told::Witness;
use crate::world::in_world;
use crate::{Cell, MatrixPlace, Outcome, World};
use faults::FaultError;
use ladder::{Tables, UnknownName};
use program::{FAILED, OutputFile, say, say_beside};
use seckill::config::{ConfigError, StoreArgs};
use seckill::http::Language;

/// What the database's isolation levels keep, and what they break, on PostgreSQL and MariaDB
///
/// Every design that needs the database alone (r01 to r05, an advisory lock, r18), and lessons on snapshots,
/// write skew, gap locks, deadlocks and retries, at read committed, repeatable read and serializable. Named
/// cases are shown with their timelines; without a name all are played, and the matrix is shown. Exit status 0
/// only when every cell came out as claimed. Where MariaDB is not installed its cells are skipped, and named.
#[derive(Debug, Args)]
pub struct IsolationArgs {
    /// Only these cases, by their names or the beginnings of them (r01, write_skew)
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// Only on this server; may be given again
    #[arg(long, value_name = "SERVER")]
    server: Vec<DatabaseKind>,
    /// Only at this level; may be given again
    #[arg(long, value_name = "LEVEL")]
    level: Vec<IsolationLevel>,
    /// Write the cells as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
    #[command(flatten)]
    stores: StoreArgs,
}

/// What is to be played.
type Chosen = (&'static IsolationCase, DatabaseKind, IsolationLevel, IsolationClaim);

/// Runs the command.
pub(super) async fn run(args: IsolationArgs) -> anyhow::Result<ExitCode> {
    let chosen = chosen(&args)?;
    let by_itself = args.json.as_ref().is_some_and(OutputFile::is_stdout);
    let with_timelines = !args.cases.is_empty() && !by_itself;
    let cells =
        in_world(args.stores, async |world| play(world, &chosen, with_timelines).await).await?;
    if let Some(file) = &args.json {
        file.write_json(&json!({ "cells": cells }))?;
    }
    let report = report(&cells, !with_timelines, Look::beside(&args.json));
    say_beside(&args.json, report)?;
    let wrong = cells.iter().any(IsolationCell::is_wrong);
    Ok(if wrong { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// The cells asked for: of one server after the other, so that each is started only when it is needed.
fn chosen(args: &IsolationArgs) -> Result<Vec<Chosen>, ConfigError> {
    for name in &args.cases {
        if !CASES.iter().any(|case| case.name.starts_with(name.as_str())) {
            let names = CASES.iter().map(|case| case.name.as_str());
            return Err(ConfigError(UnknownName::new(name, names).to_string()));
        }
    }
    let is_asked = |case: &&IsolationCase| {
        let begins = |name: &String| case.name.starts_with(name.as_str());
        args.cases.is_empty() || args.cases.iter().any(begins)
    };
    let mut chosen = Vec::new();
    for server in DatabaseKind::ALL {
        for case in CASES.iter().filter(is_asked) {
            for level in IsolationLevel::ALL {
                let server_asked = args.server.is_empty() || args.server.contains(&server);
                let level_asked = args.level.is_empty() || args.level.contains(&level);
                if let Some(claim) = case.claim(server, level)
                    && server_asked
                    && level_asked
                {
                    chosen.push((case, server, level, claim));
                }
            }
        }
    }
    match chosen.is_empty() {
        true => Err(ConfigError("no case that was named makes sense on that server".to_owned())),
        false => Ok(chosen),
    }
}

/// A server to play on; or what its cells come to, and why: nobody waits again for each where it does not answer.
type Reached = Result<IsolationServer, (Outcome, Option<Witness>)>;

async fn reach(world: &World, kind: DatabaseKind) -> anyhow::Result<Reached> {
    let unplayed = |outcome, error: FaultError| (outcome, Some(error.to_string().into()));
    Ok(match kind {
        DatabaseKind::Postgres => Ok(IsolationServer::postgres(world.database_url(Tables::Bare)?)),
        DatabaseKind::MariaDb => match world.mariadb().await {
            Ok(node) => Ok(IsolationServer::mariadb(node.socket())),
            Err(error) if error.is_missing() => Err(unplayed(Outcome::Skipped, error)),
            Err(error) => Err(unplayed(Outcome::Unknown, error)),
        },
    })
}

async fn play(
    world: &World,
    chosen: &[Chosen],
    with_timelines: bool,
) -> anyhow::Result<Vec<IsolationCell>> {
    let mut cells = Vec::new();
    for kind in DatabaseKind::ALL {
        let here: Vec<&Chosen> = chosen.iter().filter(|(_, server, ..)| *server == kind).collect();
        if here.is_empty() {
            continue;
        }
        let mut reached = reach(world, kind).await?;
        for (case, _, level, claim) in here {
            let (level, claim) = (*level, *claim);
            let cell = match &reached {
                Ok(server) => play_cell(server, case, level, claim).await,
                Err(why) => unplayed_cell(case, kind, level, claim, why.clone()),
            };
            if cell.observed == Outcome::Unknown {
                reached = Err((Outcome::Unknown, cell.witness.clone()));
            }
            match with_timelines {
                true => say(told(&cell, Look::stdout(), Language::English))?,
                false => {
                    eprintln!("{}: {} ({} ms)", cell.of.name(), cell.outcome(), cell.elapsed_ms);
                }
            }
            cells.push(cell);
        }
    }
    Ok(cells)
}

/// The matrix where it is wanted, what is not as claimed and what was skipped, and a line that sums it up.
fn report(cells: &[IsolationCell], with_matrix: bool, look: Look) -> String {
    let mut parts = Vec::new();
    if with_matrix {
        parts.push(isolation_matrix(cells));
        let levels = "RC read committed   RR repeatable read   SER serializable";
        let errors = "Beside a sign: the errors heard, PostgreSQL's SQLSTATE, MariaDB's number.";
        parts.push(format!("{}\n{levels}\n{errors}", signs(look)));
    }
    parts.extend(not_as_claimed(&objections(cells), look));
    let skipped: Vec<_> = cells.iter().filter(|cell| cell.is_skipped()).collect();
    let how = skipped.first().map(|first| {
        let how = first.witness_in(Language::English).unwrap_or_default();
        format!("{} of {}: {how}", counted(skipped.len(), "cell"), first.of.server.title())
    });
    parts.extend(list(&look.heading("Skipped"), how.as_slice(), look));
    parts.push(summary(cells, false, Language::English));
    format!("\n{}", parts.join("\n\n"))
}

/// What is not as claimed. Why a server is gone is said of its first cell.
fn objections(cells: &[IsolationCell]) -> Vec<String> {
    let mut gone = Vec::new();
    let wrong = cells.iter().filter(|cell| cell.is_wrong());
    let (same, told): (Vec<_>, Vec<_>) = wrong.partition(|cell| {
        let is_known = gone.contains(&cell.of.server);
        gone.extend((cell.observed == Outcome::Unknown).then_some(cell.of.server));
        is_known
    });
    let mut lines: Vec<String> = told.into_iter().map(Cell::in_full).collect();
    if !same.is_empty() {
        lines.push(format!("unknown for the same reason: {}", counted(same.len(), "more cell")));
    }
    lines
}
