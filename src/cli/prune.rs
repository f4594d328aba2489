//! `seckill prune`: what ended long ago is removed.

use std::collections::{BTreeMap, VecDeque};
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
/// So often a voucher is tried of which another session holds a row, after all others.
const TRIES: u32 = 5;

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
    let mut left: VecDeque<_> =
        retention::find_over(pool, before).await?.into_iter().map(|voucher| (voucher, 1)).collect();
    let mut held = Vec::new();
    while let Some((voucher, tries)) = left.pop_front() {
        if !audit::run(pool, Some(voucher)).await?.iter().all(|audit| audit.holds) {
            eprintln!("voucher {voucher} stays as it is: see seckill audit --voucher {voucher}");
            continue;
        }
        if args.dry_run {
            for (table, n) in retention::count(pool, voucher, before).await? {
                *counts.entry(table).or_insert(0) += n;
            }
            continue;
        }
        let (mut is_done, mut kept) = (false, Ok(()));
        while !is_done && kept.is_ok() {
            let then = |rows: Vec<(String, String)>| {
                is_done = rows.is_empty();
                kept = file.as_mut().map_or(Ok(()), |file| keep(file, &rows));
                if kept.is_err() {
                    return Then::TakeBack;
                }
                for (table, _) in rows {
                    *counts.entry(table).or_insert(0) += 1;
                }
                Then::Commit
            };
            match retention::remove(pool, voucher, before, AT_ONCE, then).await {
                Ok(()) => {}
                // A step of one of its orders may hold rows for which the other waits, too: one of the two gives up.
                Err(error) if error.is_row_held() => {
                    is_done = true;
                    if tries < TRIES {
                        left.push_back((voucher, tries + 1));
                    } else {
                        held.push(voucher.to_string());
                    }
                }
                Err(error) => {
                    return Err(error).with_context(|| not_all(&voucher.to_string()));
                }
            }
        }
        kept.context("cannot write the export, and what is not in it stays")?;
    }
    counts.retain(|_, n| *n > 0);
    let words: Vec<String> = counts.iter().map(|(table, n)| format!("{n} {table}")).collect();
    let what = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
    let done = if args.dry_run { "would be removed" } else { "removed" };
    program::say(format!("{done}: {what}"))?;
    if !held.is_empty() {
        anyhow::bail!("{}: other sessions hold rows of it", not_all(&held.join(", ")));
    }
    Ok(())
}

fn not_all(vouchers: &str) -> String {
    format!("not all of voucher {vouchers} was removed; the same command goes on")
}
