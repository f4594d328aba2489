//! `seckill audit`.

use std::process::ExitCode;

use clap::Args;
use comfy_table::{Table, presets};
use program::{FAILED, OutputFile, say};
use serde::Serialize;

use super::stores::{Access, DatabaseArgs};
use crate::model::VoucherId;
use crate::purchase::audit::{self, VoucherAudit};
use crate::store::Database;

/// Check the promises in the database, independently of the code that sells
///
/// Exit status 1 when one was broken.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Only this voucher
    #[arg(long, value_name = "ID")]
    voucher: Option<VoucherId>,
    /// Write the result as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Serialize)]
struct AuditReport<'a> {
    holds: bool,
    vouchers: &'a [VoucherAudit],
}

/// Runs the command.
pub async fn run(args: AuditArgs) -> anyhow::Result<ExitCode> {
    let count = async |database: &Database| Ok(audit::run(database.pool(), args.voucher).await?);
    let audits = args.database.with_database(Access::Read, count).await?;
    if let (Some(voucher), true) = (args.voucher, audits.is_empty()) {
        anyhow::bail!("there is no voucher {voucher}");
    }
    let holds = audits.iter().all(|audit| audit.holds);
    match &args.json {
        Some(file) => file.write_json(&AuditReport { holds, vouchers: &audits })?,
        None => say(table(&audits))?,
    }
    for audit in audits.iter().filter(|audit| !audit.holds) {
        for violation in &audit.violations {
            eprintln!("voucher {}: {violation}", audit.voucher_id);
        }
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// A column: its title, and what stands in it.
type Column = (&'static str, fn(&VoucherAudit) -> String);

const COLUMNS: [Column; 10] = [
    ("VOUCHER", |audit| audit.voucher_id.to_string()),
    ("INITIAL", |audit| audit.initial_stock.to_string()),
    ("STOCK", |audit| audit.stock.to_string()),
    ("ORDERS", |audit| audit.orders.to_string()),
    ("USERS", |audit| audit.distinct_users.to_string()),
    ("UNPAID", |audit| audit.life.unpaid.to_string()),
    ("CANCELLED", |audit| audit.life.cancelled.to_string()),
    ("REFUNDED", |audit| audit.life.refunded.to_string()),
    ("PAYMENTS", |audit| audit.life.payments.to_string()),
    ("VERDICT", |audit| if audit.holds { "holds" } else { "BROKEN" }.to_owned()),
];

fn table(audits: &[VoucherAudit]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(COLUMNS.map(|(title, _)| title));
    for audit in audits {
        table.add_row(COLUMNS.map(|(_, value)| value(audit)));
    }
    table
}
