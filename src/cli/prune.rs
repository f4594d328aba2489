//! `seckill prune`: what ended long ago is removed.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::stores::{Access, DatabaseArgs};
use crate::purchase::audit;
use crate::store::retention::{self, Then};
use crate::store::{Database, order_steps};

/// Orders that one transaction removes.
const AT_ONCE: i64 = 1_000;

/// Remove what ended long ago: orders with their steps and money, then their sales and entries
///
/// Of sales that are over: orders that are used, cancelled or refunded. Those that are unpaid, paid or refunding stay, and
/// with them the sale and its draw. A sale in which `seckill audit` finds something wrong stays as it is, and so does money
/// that belongs to no payment. An order that has a payment stays for at least 180 days: its money may be charged back. Where the command is broken off, every audit holds, and the same command goes on.
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// How long the sale must be over and the order untouched, such as 365d; at least a day
    #[arg(long, value_name = "TIME", value_parser = older_than)]
    older_than: Duration,
    /// Only say how many rows of which table would go
    #[arg(long, conflicts_with = "export")]
    dry_run: bool,
    /// Append each row to this file before it goes, as a line of JSON
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
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

/// Once this has returned, the rows are in the file also if the machine fails.
fn keep(file: &mut File, rows: &[(String, String)]) -> io::Result<()> {
    let line =
        |(table, row): &(String, String)| format!("{{\"table\":\"{table}\",\"row\":{row}}}\n");
    file.write_all(rows.iter().map(line).collect::<String>().as_bytes())?;
    // A pipe takes no such order.
    let done = file.sync_data();
    done.or_else(
        |error| if error.kind() == io::ErrorKind::InvalidInput { Ok(()) } else { Err(error) },
    )
}

async fn prune(database: &Database, args: &PruneArgs) -> anyhow::Result<()> {
    let pool = database.pool();
    let before = order_steps::time(pool).await? - args.older_than;
    // It is about people: its owner's alone to read.
    let open = |path| OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let mut file = args.export.as_ref().map(open).transpose().context("cannot write the export")?;
    let mut counts = BTreeMap::new();
    for voucher in retention::find_over(pool, before).await? {
        if !audit::run(pool, Some(voucher)).await?.iter().all(|audit| audit.holds) {
            eprintln!("voucher {voucher} stays as it is: see seckill audit --voucher {voucher}");
            continue;
        }
        // A rehearsal is one transaction, which is taken back.
        let (mut is_done, mut kept) = (false, Ok(()));
        while !is_done && kept.is_ok() {
            let then = |rows: Vec<(String, String)>| {
                is_done = rows.is_empty();
                kept = file.as_mut().map_or(Ok(()), |file| keep(file, &rows));
                for (table, _) in rows {
                    *counts.entry(table).or_insert(0) += 1;
                }
                match args.dry_run {
                    true if !is_done => Then::GoOn,
                    false if kept.is_ok() => Then::Commit,
                    _ => Then::TakeBack,
                }
            };
            let removed = retention::remove(pool, voucher, before, AT_ONCE, then).await;
            removed.with_context(|| {
                format!("not all of voucher {voucher} was removed; the same command goes on")
            })?;
        }
        kept.context("cannot write the export, and what is not in it stays")?;
    }
    let words: Vec<String> = counts.iter().map(|(table, n)| format!("{n} {table}")).collect();
    let what = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
    let done = if args.dry_run { "would be removed" } else { "removed" };
    program::say(format!("{done}: {what}"))
}
