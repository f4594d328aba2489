//! `seckill prune`: what ended long ago is removed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, Utc};
use clap::Args;
use program::OutputFile;

use super::arguments::private_file;
use super::stores::{Access, DatabaseArgs};
use crate::model::VoucherId;
use crate::purchase::audit;
use crate::store::retention::{self, Removed, Then};
use crate::store::{Database, order_steps};

/// Orders that one transaction removes.
const AT_ONCE: i64 = 1_000;

/// Remove what ended long ago: orders with their steps and money, then their sales and entries
///
/// Of sales that are over: orders that are used, cancelled or refunded. Those that are unpaid, paid or refunding stay, and
/// with them the sale and its draw. A sale in which `seckill audit` finds something wrong stays as it is, and so does money
/// that belongs to no payment. Where the command is broken off, every audit holds, and the same command goes on.
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// How long the sale must be over and the order untouched, such as 365d; at least a day
    #[arg(long, value_name = "TIME", value_parser = older_than)]
    older_than: Duration,
    /// Only say how many rows of which table would go
    #[arg(long, conflicts_with = "export")]
    dry_run: bool,
    /// Append each row to this file before it goes, as a line of JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    export: Option<OutputFile>,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// On its own day the counter of order ids may still need the last order.
fn older_than(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let days = time.as_secs() / (24 * 3600);
    (1..=36_500).contains(&days).then_some(time).ok_or_else(|| "it must be 1d to 36500d".to_owned())
}

/// Runs the command.
pub async fn run(args: PruneArgs) -> anyhow::Result<()> {
    let prune = async |database: &Database| prune(database, &args).await;
    args.database.with_database(Access::Write, prune).await
}

/// Where rows go before they go.
enum Export<'a> {
    Nowhere,
    Stdout,
    File(&'a OutputFile, File),
}

impl Export<'_> {
    /// Once this has returned, the rows are kept also where the machine fails.
    fn keep(&mut self, rows: &[Removed]) -> anyhow::Result<()> {
        let mut text = Vec::new();
        for row in rows {
            serde_json::to_writer(&mut text, row)?;
            text.push(b'\n');
        }
        match self {
            Self::Nowhere => Ok(()),
            Self::Stdout => program::write(&text),
            Self::File(name, file) => {
                let is_pipe = !file.metadata()?.is_file();
                let written = file.write_all(&text);
                let written =
                    written.and_then(|()| if is_pipe { Ok(()) } else { file.sync_data() });
                written.with_context(|| format!("cannot write {name}"))
            }
        }
    }
}

async fn prune(database: &Database, args: &PruneArgs) -> anyhow::Result<()> {
    let before = order_steps::time(database.pool()).await? - args.older_than;
    let mut export = match &args.export {
        None => Export::Nowhere,
        Some(file) if file.is_stdout() => Export::Stdout,
        Some(file) => Export::File(file, private_file(file.path())?),
    };
    let mut counts = BTreeMap::new();
    for voucher in retention::find_over(database.pool(), before).await? {
        let audits = audit::run(database.pool(), Some(voucher)).await?;
        if !audits.iter().all(|audit| audit.holds) {
            eprintln!("voucher {voucher} stays as it is: see seckill audit --voucher {voucher}");
            continue;
        }
        let pruned = if args.dry_run {
            rehearse(database, voucher, before, &mut counts).await
        } else {
            remove(database, voucher, before, &mut counts, &mut export).await
        };
        pruned.with_context(|| {
            format!("not all of voucher {voucher} was removed; the same command goes on")
        })?;
    }
    let words: Vec<String> = counts.iter().map(|(table, n)| format!("{n} {table}")).collect();
    let what = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
    let done = if args.dry_run { "would be removed" } else { "removed" };
    program::say_beside(&args.export, format!("{done}: {what}"))
}

fn count(counts: &mut BTreeMap<String, usize>, rows: Vec<Removed>) {
    for row in rows {
        *counts.entry(row.table).or_default() += 1;
    }
}

/// All of it in one transaction, which is taken back.
async fn rehearse(
    database: &Database,
    voucher: VoucherId,
    before: DateTime<Utc>,
    counts: &mut BTreeMap<String, usize>,
) -> anyhow::Result<()> {
    let then = |rows: Vec<Removed>| {
        let then = if rows.is_empty() { Then::TakeBack } else { Then::GoOn };
        count(counts, rows);
        then
    };
    Ok(retention::remove(database.pool(), voucher, before, AT_ONCE, then).await?)
}

/// A transaction after the other, until there is nothing left.
async fn remove(
    database: &Database,
    voucher: VoucherId,
    before: DateTime<Utc>,
    counts: &mut BTreeMap<String, usize>,
    export: &mut Export<'_>,
) -> anyhow::Result<()> {
    loop {
        let mut kept = Ok(());
        let mut removed = Vec::new();
        let then = |rows: Vec<Removed>| {
            kept = export.keep(&rows);
            removed = rows;
            if kept.is_ok() { Then::Commit } else { Then::TakeBack }
        };
        retention::remove(database.pool(), voucher, before, AT_ONCE, then).await?;
        kept?;
        if removed.is_empty() {
            return Ok(());
        }
        count(counts, removed);
    }
}
