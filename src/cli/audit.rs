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

fn table(audits: &[VoucherAudit]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "VOUCHER",
        "INITIAL",
        "STOCK",
        "ORDERS",
        "USERS",
        "UNPAID",
        "CANCELLED",
        "REFUNDED",
        "PAYMENTS",
        "VERDICT",
    ]);
    for audit in audits {
        table.add_row([
            audit.voucher_id.to_string(),
            audit.initial_stock.to_string(),
            audit.stock.to_string(),
            audit.orders.to_string(),
            audit.distinct_users.to_string(),
            audit.life.unpaid.to_string(),
            audit.life.cancelled.to_string(),
            audit.life.refunded.to_string(),
            audit.life.payments.to_string(),
            if audit.holds { "holds" } else { "BROKEN" }.to_owned(),
        ]);
    }
    table
}
