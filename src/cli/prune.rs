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
use crate::store::retention::{self, RemovedRow};
use crate::store::{Database, order_steps};

/// Orders that one transaction removes: a long one would slow down the sales that are on.
const AT_ONCE: i64 = 1_000;

/// Remove what ended long ago: orders with their steps and money, then their sales and entries
///
/// Of sales that are over: orders that are used, cancelled or refunded. Those that are unpaid, paid or refunding stay, and
/// with them the sale and its draw. A sale in which `seckill audit` finds something wrong stays as it is, and so does money
/// that belongs to no payment. An order that has a payment stays for at least 180 days: its money may be charged back. Each
/// sale is one transaction: if the command is interrupted, start it again. A sale of which another session holds rows stays,
/// and the command ends with status 1.
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// How long the sale must be over and the order untouched, such as 365d; at least a day
    #[arg(long, value_name = "TIME", value_parser = older_than)]
    older_than: Duration,
    /// Only say how many orders would be removed, with what belongs to them
    #[arg(long, conflicts_with = "export")]
    dry_run: bool,
    /// Append each row to this file before it is removed, as a line of JSON
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

/// Once this has returned, the rows are in the file even if the machine fails.
fn keep(file: &mut File, rows: &[RemovedRow]) -> io::Result<()> {
    let line = |(table, row): &RemovedRow| format!("{{\"table\":\"{table}\",\"row\":{row}}}\n");
    file.write_all(rows.iter().map(line).collect::<String>().as_bytes())?;
    // A pipe cannot be synced.
    let done = file.sync_data();
    done.or_else(
        |error| if error.kind() == io::ErrorKind::InvalidInput { Ok(()) } else { Err(error) },
    )
}

async fn prune(database: &Database, args: &PruneArgs) -> anyhow::Result<()> {
    let pool = database.pool();
    let before = order_steps::time(pool).await? - args.older_than;
    // The rows are about people: only the owner may read the file.
    let open = |path| OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let mut file = args.export.as_ref().map(open).transpose().context("cannot write the export")?;
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    let mut held = Vec::new();
    for voucher in retention::find_over(pool, before).await? {
        if !audit::run(pool, Some(voucher)).await?.iter().all(|audit| audit.holds) {
            eprintln!("voucher {voucher} stays as it is: see seckill audit --voucher {voucher}");
            continue;
        }
        if args.dry_run {
            let orders = retention::count(pool, voucher, before).await?;
            *counts.entry("orders".to_owned()).or_default() += orders;
            continue;
        }
        let mut take = |rows: &[RemovedRow]| {
            file.as_mut().map_or(Ok(()), |file| keep(file, rows))?;
            for (table, _) in rows {
                *counts.entry(table.clone()).or_default() += 1;
            }
            Ok(())
        };
        loop {
            match retention::remove(pool, voucher, before, AT_ONCE, &mut take).await {
                Ok(Ok(0)) => break,
                Ok(kept) => {
                    kept.context("cannot write the export; rows that are not in it stay")?;
                }
                // A step of one of its orders may hold rows that this transaction needs, and wait for the sale that
                // it has locked: one of the two gives up.
                Err(error) if error.is_row_held() => {
                    held.push(voucher.to_string());
                    break;
                }
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("not all of voucher {voucher} was removed"));
                }
            }
        }
    }
    counts.retain(|_, n| *n > 0);
    let words: Vec<String> = counts.iter().map(|(table, n)| format!("{n} {table}")).collect();
    let what = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
    let done = if args.dry_run { "would be removed" } else { "removed" };
    program::say(format!("{done}: {what}"))?;
    if !held.is_empty() {
        anyhow::bail!(
            "other sessions hold rows of these vouchers, the rest of which stays: {}; try again later",
            held.join(", ")
        );
    }
    Ok(())
}
