//! `seckill lab isolation`.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::replay::timeline;
use crate::isolation::{
    CASES, DatabaseKind, IsolationCase, IsolationCell, IsolationClaim, IsolationLevel,
    IsolationServer, isolation_matrix, play_cell, skipped_cell,
};
use crate::report::counted;
use crate::report::terminal::{Look, filled, signs};
use crate::world::in_world;
use crate::{Outcome, World};
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

/// A server to play on, or why there is none.
enum Reached {
    Server(IsolationServer),
    Missing(String),
    /// It does not answer: what is left to play there is unknown, without waiting again for each.
    Gone(String),
}

async fn reach(world: &World, kind: DatabaseKind) -> anyhow::Result<Reached> {
    Ok(match kind {
        DatabaseKind::Postgres => {
            Reached::Server(IsolationServer::postgres(world.database_url(Tables::Bare)?))
        }
        DatabaseKind::MariaDb => match world.mariadb().await {
            Ok(node) => Reached::Server(IsolationServer::mariadb(node.socket())),
            Err(error) if error.is_missing() => Reached::Missing(error.to_string()),
            Err(error) => Reached::Gone(error.to_string()),
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
                Reached::Server(server) => play_cell(server, case, level, claim).await,
                Reached::Missing(how) => skipped_cell(case, kind, level, claim, how.clone()),
                Reached::Gone(why) => IsolationCell {
                    observed: Outcome::Unknown,
                    ..skipped_cell(case, kind, level, claim, why.clone())
                },
            };
            if let (Reached::Server(_), Outcome::Unknown, Some(why)) =
                (&reached, cell.observed, &cell.witness)
            {
                reached = Reached::Gone(why.clone());
            }
            match with_timelines {
                true => say(told(&cell, Look::stdout()))?,
                false => eprintln!("{}: {} ({} ms)", cell.name(), cell.outcome(), cell.elapsed_ms),
            }
            cells.push(cell);
        }
    }
    Ok(cells)
}

/// A cell with its timeline.
fn told(cell: &IsolationCell, look: Look) -> String {
    let mut lines = vec![String::new(), format!("{}: {}", look.heading(&cell.name()), cell.story)];
    lines.extend(timeline(&cell.timeline, look, Language::English));
    let outcome = look.judged(cell.observed, cell.is_wrong(), &cell.outcome());
    lines.push(format!("  {} {outcome} ({} ms)", cell.promise, cell.elapsed_ms));
    lines.extend(cell.witness.as_deref().map(|witness| filled(witness, "    ", look)));
    lines.join("\n")
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
    let wrong = objections(cells, look);
    if !wrong.is_empty() {
        let heading = look.judged(Outcome::Breaks, true, "Not as claimed");
        parts.push(format!("{heading}\n{}", wrong.join("\n")));
    }
    let skipped: Vec<&IsolationCell> = cells.iter().filter(|cell| cell.is_skipped()).collect();
    if let Some(first) = skipped.first() {
        let how = first.witness.as_deref().unwrap_or_default();
        let names = format!("{} of {}", counted(skipped.len(), "cell"), first.server.title());
        let heading = look.heading("Skipped");
        parts.push(format!("{heading}\n{}", filled(&format!("{names}: {how}"), "  ", look)));
    }
    parts.push(summary(cells));
    format!("\n{}", parts.join("\n\n"))
}

/// What is not as claimed, a line a cell. Of a server that is gone the reason is told once.
fn objections(cells: &[IsolationCell], look: Look) -> Vec<String> {
    let (mut lines, mut told) = (Vec::new(), Vec::new());
    let mut more = 0;
    for cell in cells.iter().filter(|cell| cell.is_wrong()) {
        let why = cell.witness.as_deref().unwrap_or_default();
        if cell.observed == Outcome::Unknown && told.contains(&why) {
            more += 1;
            continue;
        }
        told.push(why);
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        lines.push(filled(&format!("{}: {}{why}", cell.name(), cell.outcome()), "  ", look));
    }
    if more > 0 {
        lines.push(format!("  unknown for the same reason: {}", counted(more, "more cell")));
    }
    lines
}

/// "168 cells: 160 as claimed, 8 skipped".
fn summary(cells: &[IsolationCell]) -> String {
    let count = |which: fn(&IsolationCell) -> bool| cells.iter().filter(|it| which(it)).count();
    let mut counts = vec![format!("{} as claimed", count(IsolationCell::is_as_claimed))];
    for (word, number) in [
        ("NOT as claimed", count(IsolationCell::is_wrong)),
        ("skipped", count(IsolationCell::is_skipped)),
    ] {
        if number > 0 {
            counts.push(format!("{number} {word}"));
        }
    }
    format!("{}: {}", counted(cells.len(), "cell"), counts.join(", "))
}
