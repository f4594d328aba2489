//! `seckill lab rush`.

use std::process::ExitCode;

use clap::Args;
use rand::RngExt;

use crate::world::in_world;
use crate::{RushOptions, RushReport, World, missing, rush_seeded};
use ladder::Rung;
use load::rungs::Rushes;
use load::rush::MAX_REQUESTS;
use load::verdict::Figures;
use program::{ConfigError, FAILED, OutputFile, progress, say_beside};
use report::Table;
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
    let attempts = args.crowd.options().attempts_of_all();
    if attempts > MAX_REQUESTS as u64 {
        return Err(ConfigError(format!(
            "these are {attempts} attempts; at most {MAX_REQUESTS} are sent"
        ))
        .into());
    }
    let stores = args.stores.clone();
    let (rushes, failed) =
        in_world(stores, async |world| Ok(all(world, &rungs, &args).await)).await?;
    say_beside(&args.json, table(&rushes))?;
    for rush in rushes.iter().filter(|rush| !rush.witnesses.is_empty()) {
        eprintln!("{}: {}", rush.rung, rush.witnesses.join("; "));
    }
    // Where all was skipped nothing was shown.
    let good = !failed && !rushes.is_empty() && rushes.iter().all(|rush| rush.as_claimed);
    if let Some(file) = &args.json {
        file.write_json(&Rushes { rushes })?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// One rush after the other, and whether any that could be tried came to no end.
async fn all(world: &World, rungs: &[&'static Rung], args: &RushArgs) -> (Vec<RushReport>, bool) {
    let terms = args.crowd.options();
    let seed = args.crowd.seed();
    eprintln!(
        "On sale: {} vouchers. Buyers: {}, attempts: {}. Nodes: 2. Seed: {seed}.",
        terms.stock,
        terms.users,
        terms.attempts_of_all()
    );
    let (mut rushes, mut failed) = (Vec::new(), false);
    for rung in rungs {
        let bar = progress::of_attempts(rung.id, terms.attempts_of_all());
        let rushed = rush_seeded(world, rung, terms, seed, |done| bar.set_position(done)).await;
        bar.finish_and_clear();
        match rushed {
            Ok(rush) => rushes.push(rush),
            Err(error) => match missing(&error) {
                Some(how) => eprintln!("{}: skipped: {how}", rung.id),
                None => {
                    failed = true;
                    eprintln!("{}: could not be tried: {error:#}", rung.id);
                }
            },
        }
    }
    (rushes, failed)
}

fn table(rushes: &[RushReport]) -> String {
    let heads = [
        "RUNG",
        "ORDERS",
        "LEFT",
        "OVERSOLD",
        "TWICE",
        "UNSOLD",
        "LOST",
        "NO ANSWER",
        "ORDERS/S",
        "P50 MS",
        "P99 MS",
        "VERDICT",
    ];
    let mut table = Table::new(&heads, &[11]);
    for rush in rushes {
        let crowd = &rush.crowd;
        let Figures { orders, remaining, found, .. } = crowd.figures;
        let latency = |of: fn(&load::latency::LatencyMs) -> f64| {
            crowd.latency_ms.as_ref().map_or_else(|| "-".to_owned(), |ms| format!("{:.0}", of(ms)))
        };
        let kept = if crowd.holds { "holds" } else { "BREAKS" };
        let claim = if rush.as_claimed { "as claimed" } else { "NOT as claimed" };
        table.add([
            rush.rung.clone(),
            orders.to_string(),
            remaining.to_string(),
            found.oversold.to_string(),
            found.duplicates.to_string(),
            found.undersold.to_string(),
            found.lost.to_string(),
            found.unexpected.to_string(),
            format!("{:.0}", crowd.orders_per_s),
            latency(|ms| ms.p50),
            latency(|ms| ms.p99),
            format!("{kept}, {claim}"),
        ]);
    }
    format!("{}{}", table.text(), behind(rushes))
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
