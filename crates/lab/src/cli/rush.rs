//! `seckill lab rush`.

use std::process::ExitCode;

use clap::Args;
use rand::RngExt;

use crate::report::terminal::Look;
use crate::report::{NoRush, terminal};
use crate::world::in_world;
use crate::{RushOptions, RushReport, World, rush};
use ladder::Rung;
use load::rungs::Rushes;
use load::rush::MAX_REQUESTS;
use program::{ConfigError, FAILED, OutputFile, progress, say_beside};
use seckill::config::StoreArgs;

/// Put the same real crowd on every rung: what it keeps, what it breaks, how fast it is
///
/// Two processes sell by the rung; every fourth buyer comes twice, to both, and every eighth a
/// third time. Exit status 0 only when every promise was kept that a rung claims. A rung for
/// which something is not installed is skipped, and named.
#[derive(Debug, Args)]
pub struct RushArgs {
    /// The rungs, by their names or the beginnings of them (r04); all when none is named
    #[arg(value_name = "RUNG")]
    rungs: Vec<String>,
    #[command(flatten)]
    crowd: CrowdArgs,
    /// Write the results as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
    #[command(flatten)]
    stores: StoreArgs,
}

/// The longest time for which buyers come.
const MAX_SECONDS: i64 = 120;

/// The crowd of each rush.
#[derive(Debug, Args)]
pub(super) struct CrowdArgs {
    /// Buyers in each rush [default: 2000; with --seconds as many as there can be, 500000]
    #[arg(long,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(RushOptions::MAX_USERS)))]
    users: Option<u32>,
    /// How often each buyer comes, to both processes in turn [default: once; every fourth twice, every
    /// eighth three times]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: Option<u32>,
    /// Vouchers in each rush
    #[arg(long, default_value_t = RushOptions::default().stock,
        value_parser = clap::value_parser!(i32).range(0..=1_000_000))]
    stock: i32,
    /// Let buyers come for so long, over 256 connections, instead of all at once: for figures that last
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=MAX_SECONDS))]
    seconds: Option<u32>,
    /// Decides the order of the attempts in a rush, the same on every rung [default: drawn]
    #[arg(long)]
    seed: Option<u64>,
}

impl CrowdArgs {
    pub(super) fn options(&self) -> RushOptions {
        let enough = match self.seconds {
            Some(_) => RushOptions::MAX_USERS,
            None => RushOptions::default().users,
        };
        let users = self.users.unwrap_or(enough);
        RushOptions { users, attempts: self.attempts, stock: self.stock, seconds: self.seconds }
    }

    /// The seed that was asked for, or one that is drawn.
    pub(super) fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| rand::rng().random())
    }
}

/// Runs the command.
///
/// # Errors
/// When it could not be carried out; a promise not kept is an exit status.
pub async fn run(args: RushArgs) -> anyhow::Result<ExitCode> {
    let rungs = super::rungs(&args.rungs)?;
    let (crowd, seed) = (args.crowd.options(), args.crowd.seed());
    let attempts = crowd.attempts_of_all();
    if attempts > MAX_REQUESTS as u64 {
        return Err(ConfigError(format!(
            "these are {attempts} attempts; at most {MAX_REQUESTS} are sent"
        ))
        .into());
    }
    let rushed = async |world: &World| Ok(all(world, &rungs, crowd, seed).await);
    let (rushes, no_rushes) = in_world(args.stores, rushed).await?;
    let table = terminal::rushes(&rushes, Look::beside(&args.json));
    say_beside(&args.json, format!("{table}{}", behind(&rushes)))?;
    for rush in rushes.iter().filter(|rush| !rush.witnesses.is_empty()) {
        eprintln!("{}: {}", rush.rung, rush.witnesses.join("; "));
    }
    // Where all was skipped nothing was shown.
    let none_failed = no_rushes.iter().all(|rush| rush.skipped);
    let good = none_failed && !rushes.is_empty() && rushes.iter().all(|rush| rush.as_claimed);
    if let Some(file) = &args.json {
        file.write_json(&Rushes { rushes })?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// One rush after the other: what came of them, and why others came to no end.
pub(super) async fn all(
    world: &World,
    rungs: &[&'static Rung],
    crowd: RushOptions,
    seed: u64,
) -> (Vec<RushReport>, Vec<NoRush>) {
    let (RushOptions { stock, users, .. }, attempts) = (crowd, crowd.attempts_of_all());
    eprintln!(
        "On sale: {stock} vouchers. Buyers: {users}, attempts: {attempts}. Nodes: 2. Seed: {seed}."
    );
    let (mut rushes, mut no_rushes) = (Vec::new(), Vec::new());
    for rung in rungs {
        let bar = progress::of_attempts(rung.id, attempts);
        let rushed = rush(world, rung, crowd, seed, |done| bar.set_position(done)).await;
        bar.finish_and_clear();
        match rushed.map_err(|error| NoRush::new(rung, &error)) {
            Ok(rush) => {
                eprintln!("{}: {}", rung.id, rush.outcome());
                rushes.push(rush);
            }
            Err(no_rush) => {
                let word = if no_rush.skipped { "skipped" } else { "could not be tried" };
                eprintln!("{}: {word}: {}", rung.id, no_rush.reason);
                no_rushes.push(no_rush);
            }
        }
    }
    (rushes, no_rushes)
}

/// A line for each rung that answers first.
fn behind(rushes: &[RushReport]) -> String {
    let lines = rushes.iter().filter_map(|rush| {
        let later = rush.written_later?;
        Some(format!(
            "\n{}: {:.0} promises/s, {:.0} durable orders/s; {} behind at the last answer, \
             written {:.1} s later; {} never",
            rush.rung,
            later.answered_per_s,
            later.durable_per_s,
            later.behind,
            later.behind_s,
            later.missing
        ))
    });
    lines.collect()
}
