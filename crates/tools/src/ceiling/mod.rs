//! `seckill ceiling`: is my number normal?
//!
//! Each figure comes from the program that the field uses for it (`programs`): PostgreSQL's ceiling from
//! pgbench (`postgresql`), the lock's script from redis-benchmark (`lock`), the server over HTTP from wrk
//! (`sales`), open arrivals from k6 (`overload`). `cpu` reads what an order costs, `machine` tells on what
//! it ran, `results` what is how much of what, and what it should be.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use program::{FAILED, OutputFile, say_beside};
use redis_link::Redis;
use seckill::cli::stores::{Stores, fresh_secret};
use seckill::config::{ConfigError, StoreArgs};
use seckill::http::tokens::Tokens;
use seckill::model::{SystemClock, UserId, VoucherId};
use seckill::purchase::{Strategy, audit};
use seckill::store::Database;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tokens::mint;
use cpu::Meter;
use programs::Programs;
use report::machine::cores;
use results::{DO_NOTHING, Readings, Results, digits};

mod cpu;
mod lock;
mod machine;
mod overload;
mod postgresql;
mod programs;
mod results;
mod sales;

/// More than any strategy sells in a second with one processor.
const BUYERS_PER_CORE_S: u64 = 40_000;

/// Is my number normal? The limits of this machine, and how close the strategies come
///
/// Everything takes its turn on the same machine, in each of several rounds: the lock's own script
/// (redis-benchmark), PostgreSQL's single hot row and batched orders (pgbench), each strategy's confirmed orders,
/// a handler that does nothing behind the same router, refusals of a voucher that is sold out, a lone buyer beside
/// 4,000 connections that read (wrk), an overload (wrk, beside the open arrivals of k6).
///
/// The first table is the processor time of one order, and of one refusal, beside that of an answer that does
/// nothing (in microseconds, for the server, PostgreSQL and Redis apart). It depends least on what else the machine
/// does. What counts are medians, and shares taken within a round. A run is void, and the exit status 1, when the database does not hold what was confirmed, a buyer
/// was refused, commits do not wait for a disk, or the audit at the end does not hold.
///
/// With DATABASE_URL and REDIS_URL it measures those servers, and leaves its sales there.
#[derive(Debug, Args)]
pub struct CeilingArgs {
    /// How often everything is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: u8,
    /// How long each measurement takes, in whole seconds, after a second that does not count
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = whole_seconds)]
    duration: Duration,
    /// Connections that buy at once
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(2..=10_000))]
    connections: u16,
    /// Only these parts
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,
    /// One round, a second for each measurement, of the default strategy: does it work here?
    #[arg(long, conflicts_with_all = ["rounds", "duration"])]
    quick: bool,
    /// Write every figure of every round as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
    #[command(flatten)]
    stores: StoreArgs,
}

/// What can be measured apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The lock beside its script
    Lock,
    /// Confirmed orders, beside the hot row, batches and a handler that does nothing
    Orders,
    /// Refusals, beside a handler that does nothing
    Refusals,
    /// A purchase beside thousands of readers
    Readers,
    /// Many more buyers than can be served
    Overload,
}

/// What is measured on.
struct Testbed {
    programs: Programs,
    duration: Duration,
    connections: usize,
    stores: Stores,
    database: Database,
    redis: Redis,
    meter: Meter,
    secret: String,
    /// The scripts, the buyers' tokens.
    directory: TempDir,
    /// What was put on sale, for the audit.
    sold: Vec<VoucherId>,
    /// Why the figures mean nothing, if so.
    void: Vec<String>,
}

/// What was found so far.
#[derive(Default)]
struct Told {
    round: u8,
    results: Results,
    skipped: BTreeSet<&'static str>,
}

impl Told {
    /// Waits for one measurement, and tells it.
    async fn row(
        &mut self,
        name: &str,
        by: &'static str,
        measured: impl Future<Output = anyhow::Result<Readings>>,
    ) -> anyhow::Result<()> {
        eprint!("round {}: {name}: ", self.round);
        let figures = measured.await.with_context(|| name.to_owned())?;
        let told = figures.get("per_s").or(figures.get("p50_ms"));
        eprintln!("{}", told.copied().map(digits).unwrap_or_default());
        self.results.record(name, by, figures);
        Ok(())
    }
}

/// Runs the command.
///
/// # Errors
/// When it could not be carried out; figures that are void are an exit status.
pub async fn run(mut args: CeilingArgs) -> anyhow::Result<ExitCode> {
    if args.quick {
        (args.rounds, args.duration) = (1, Duration::from_secs(1));
    }
    let programs = Programs::find()?;
    tokio::select! {
        measured = on_stores(&args, programs) => measured,
        // All that runs is stopped by being dropped, and the servers by their supervisor.
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Err(program::Interrupted("everything that was started is being stopped").into())
        }
    }
}

async fn on_stores(args: &CeilingArgs, programs: Programs) -> anyhow::Result<ExitCode> {
    let stores = Stores::open(&args.stores, None).await?;
    let database = stores.migrated_database().await?;
    if database.is_behind_pooler() {
        return Err(ConfigError(
            "the ceiling is that of PostgreSQL itself: DATABASE_URL leads to a connection pooler"
                .to_owned(),
        )
        .into());
    }
    let mut bench = Testbed::prepare(args, programs, database, stores).await?;
    let measured = bench.measure(args).await;
    // In any case: nothing may use the servers any more when they stop.
    bench.database.close().await;
    let measured = measured?;
    bench.stores.close().await?;
    Ok(measured)
}

impl Testbed {
    /// Makes the buyers, and the scripts.
    async fn prepare(
        args: &CeilingArgs,
        programs: Programs,
        database: Database,
        stores: Stores,
    ) -> anyhow::Result<Self> {
        let (directory, secret) = (tempfile::tempdir()?, fresh_secret());
        let arrivals = overload::arrivals(args.duration);
        let seconds_of_cores = cores().max(2) as u64 * args.duration.as_secs();
        let buyers = (BUYERS_PER_CORE_S * seconds_of_cores).min(2_000_000);
        eprintln!("Making {} buyers", buyers + arrivals);
        let minter = Tokens::new(secret.as_bytes(), Arc::new(SystemClock));
        let minted = mint(&database, &minter, None, (buyers + arrivals) as u32).await?;
        let (crowd, passers_by) = minted.split_at(buyers as usize);
        let (crowd, others) = crowd.split_at(crowd.len() / 2);
        for (name, text) in [
            ("buy.lua", sales::BUY_LUA.to_owned()),
            ("arrivals.js", overload::ARRIVALS_JS.to_owned()),
            (sales::BUYERS, csv(crowd)),
            (sales::OTHERS, csv(others)),
            ("arrivals.csv", csv(passers_by)),
        ] {
            std::fs::write(directory.path().join(name), text)?;
        }
        let redis = Redis::new(&stores.redis_url)?;
        Ok(Self {
            programs,
            duration: args.duration,
            connections: args.connections.into(),
            meter: Meter::find(&database, redis.clone()).await,
            stores,
            database,
            redis,
            secret,
            directory,
            sold: Vec::new(),
            void: Vec::new(),
        })
    }

    /// Measures everything round by round, audits what was sold, and reports.
    async fn measure(&mut self, args: &CeilingArgs) -> anyhow::Result<ExitCode> {
        let stores =
            format!("private: {}", self.stores.private().unwrap_or_else(|| "none".to_owned()));
        let machine =
            machine::look(&self.database, &self.redis, &stores, &self.programs.versions).await;
        eprintln!("{}", machine::text(&machine));
        self.void = machine::objections(&machine);
        self.make_tables().await?;
        let mut told = Told::default();
        while told.round < args.rounds {
            told.round += 1;
            self.round(args, &mut told).await?;
        }
        self.audit().await?;
        self.report(args, &machine, &told)
    }

    /// Measures everything that was asked for, in turn.
    async fn round(&mut self, args: &CeilingArgs, told: &mut Told) -> anyhow::Result<()> {
        let (connections, main) = (self.connections, Strategy::default());
        let is_asked = |part| args.only.is_empty() || args.only.contains(&part);
        if is_asked(Part::Lock) {
            if self.place().is_some() {
                told.row("lock, the script", "redis-benchmark", self.lock_script()).await?;
            } else {
                let reason = "redis-benchmark takes one server, without TLS or a password";
                told.skipped.insert(reason);
            }
            told.row("lock, pairs", "the lock", self.lock_pairs()).await?;
            told.row("lock, hand-off", "the lock", self.lock_hand_offs()).await?;
        }
        if is_asked(Part::Orders) {
            let clients = [(8, "8 clients"), (1, "1 client"), (32, "32 clients")];
            for (clients, words) in clients.into_iter().take(if args.quick { 1 } else { 3 }) {
                let name = &format!("hot row, {words}");
                let rate = self.pgbench(postgresql::ONE_ORDER, 1, clients);
                told.row(name, "pgbench", rate).await?;
            }
            for rows in [64, 1_000] {
                let name = &format!("{rows} rows, 32 clients");
                let rate = self.pgbench(postgresql::ONE_ORDER, rows, 32);
                told.row(name, "pgbench", rate).await?;
            }
            for clients in [2, 4] {
                let name = &format!("batches, {clients} clients");
                told.row(name, "pgbench", self.pgbench(postgresql::BATCH, 1, clients)).await?;
            }
            for &strategy in Strategy::ALL.iter().filter(|it| !args.quick || **it == main) {
                let name = strategy.as_str();
                told.row(name, "wrk", self.orders(name, strategy, 1, connections)).await?;
            }
            for vouchers in [64, 1_000] {
                let name = &format!("{main}, {vouchers} vouchers");
                told.row(name, "wrk", self.orders(name, main, vouchers, connections)).await?;
            }
            let name = &format!("{main}, 64 vouchers beside a hot one");
            told.row(name, "wrk", self.beside_hot(name, main, 64)).await?;
            let name = &format!("{main}, a lone buyer");
            told.row(name, "wrk", self.orders(name, main, 1, 1)).await?;
            let name = &format!("{main}, 1000 connections");
            told.row(name, "wrk", self.orders(name, main, 1, 1_000)).await?;
        }
        if is_asked(Part::Orders) || is_asked(Part::Refusals) {
            told.row(DO_NOTHING, "wrk", self.do_nothing(DO_NOTHING)).await?;
        }
        if is_asked(Part::Refusals) {
            let name = &format!("{main}, sold out");
            told.row(name, "wrk", self.sold_out(name)).await?;
        }
        if is_asked(Part::Readers) {
            for (name, path) in sales::READ {
                told.row(name, "wrk", self.beside_readers(name, path)).await?;
            }
        }
        if is_asked(Part::Overload) && self.programs.k6.is_none() {
            told.skipped.insert("the overload needs k6, which `make bench` installs");
        } else if is_asked(Part::Overload) {
            let name = &format!("{main}, overload");
            told.row(name, "wrk, k6", self.overload(name, main)).await?;
        }
        Ok(())
    }

    /// Removes what was made for pgbench, and audits everything that was sold.
    async fn audit(&mut self) -> anyhow::Result<()> {
        eprintln!("Auditing what was sold");
        self.remove_tables().await?;
        let mut audits = audit::run(self.database.pool(), None).await?;
        audits.retain(|audit| self.sold.contains(&audit.voucher_id));
        if audits.len() != self.sold.len() {
            self.void.push(format!("{} vouchers are gone", self.sold.len() - audits.len()));
        }
        for audit in audits.iter().filter(|audit| !audit.holds) {
            let violations: Vec<String> =
                audit.violations.iter().map(ToString::to_string).collect();
            let violations = violations.join("; ");
            self.void.push(format!("voucher {}: {violations}", audit.voucher_id));
        }
        Ok(())
    }

    fn report(&self, args: &CeilingArgs, machine: &Value, told: &Told) -> anyhow::Result<ExitCode> {
        let (shares, holds, audited) =
            (told.results.shares(), self.void.is_empty(), self.sold.len());
        let mut text = format!("\n{}\n\n", told.results.text(&shares));
        text += &format!("Rounds: {}. Medians, in brackets the ends.", args.rounds);
        told.skipped.iter().for_each(|reason| text += &format!("\nNOT MEASURED: {reason}"));
        self.void.iter().for_each(|reason| text += &format!("\nVOID: {reason}"));
        if holds {
            text += "\nHOLDS: every confirmed order is in the database, and the audit of ";
            text += &format!("{audited} vouchers holds.");
        }
        if let Some(file) = &args.json {
            let report = json!({
                "machine": machine, "rounds": args.rounds, "duration_s": args.duration.as_secs(),
                "connections": args.connections, "rows": told.results, "shares": shares,
                "audited": audited, "skipped": told.skipped, "void": self.void, "holds": holds,
            });
            file.write_json(&report)?;
        }
        say_beside(&args.json, text)?;
        Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

fn csv(buyers: &[(UserId, String)]) -> String {
    let lines = buyers.iter().map(|(user, token)| format!("{user},{token}\n"));
    "user_id,token\n".to_owned() + &lines.collect::<String>()
}

fn whole_seconds(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let is_whole = time.subsec_nanos() == 0 && (1..=600).contains(&time.as_secs());
    is_whole.then_some(time).ok_or_else(|| "it is no whole number of seconds up to 10m".to_owned())
}
