//! `seckill orders`: export, and the way out for a refund that the gateway does not take.

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use strum::VariantNames;

use super::arguments::Yes;
use super::stores::{Access, DatabaseArgs};
use crate::model::order_csv::{CsvReader, csv};
use crate::model::{Code, Currency, Order, OrderId, OrderStatus, Refusal, VoucherId};
use crate::store::order_steps::{self, AdministratorStep};
use crate::store::orders::OrderKey;
use crate::store::{Database, Stop, orders};

/// What an operator needs of the orders
#[derive(Debug, Subcommand)]
pub enum OrdersCommand {
    /// Write orders and their buyers to standard output, newest first
    Export(ExportArgs),
    /// End a refund that the payment gateway does not take: the money was given back outside it
    ///
    /// Only for an order that is refunding. Its voucher is on sale again, and the gateway is not asked any more.
    Settle(SettleArgs),
}

/// The order whose money was given back.
#[derive(Debug, Args)]
pub struct SettleArgs {
    /// The order
    id: OrderId,
    /// Its voucher: needed only where orders of several vouchers have the id
    #[arg(long, value_name = "ID")]
    voucher: Option<VoucherId>,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Which orders, and how.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Only orders of this voucher
    #[arg(long, value_name = "ID")]
    voucher: Option<VoucherId>,
    /// Only orders in this state: unpaid, paid, used, cancelled, refunding or refunded
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<OrderStatus>,
    /// csv, for programs; spreadsheet: CSV with ids and phones that spreadsheets do not change; or json: an object a line
    #[arg(long, value_name = "FORMAT", default_value = "csv", hide_possible_values = true)]
    format: Format,
    /// The currency of the amounts in CSV, by its code (ISO 4217): so they get their decimals
    #[arg(long, env = "SECKILL_CURRENCY", value_name = "CODE", default_value_t)]
    currency: Currency,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Csv,
    Spreadsheet,
    Json,
}

fn status(text: &str) -> Result<OrderStatus, String> {
    text.parse().map_err(|_| format!("there are: {}", OrderStatus::VARIANTS.join(", ")))
}

/// Runs the command.
pub async fn run(command: OrdersCommand) -> anyhow::Result<()> {
    match command {
        OrdersCommand::Export(args) => {
            let export = async |database: &Database| export(database, &args).await;
            args.database.with_database(Access::Read, export).await
        }
        OrdersCommand::Settle(SettleArgs { id, voucher, yes, database }) => {
            let key = OrderKey { id, voucher };
            let settle = async |database: &Database| settle(database, key, yes).await;
            database.with_database(Access::Write, settle).await
        }
    }
}

async fn settle(database: &Database, key: OrderKey, yes: Yes) -> anyhow::Result<()> {
    let (id, step) = (key.id, AdministratorStep::SettleOutside);
    let settle = async || -> Result<Order, Stop> {
        let order = orders::find(database.pool(), key, None).await?;
        if order.status != step.from() {
            return Err(Refusal::order_state(order.status).into());
        }
        if yes.is_given {
            order_steps::take(database.steps(), step, &order, None).await?;
        }
        Ok(order)
    };
    let settled = settle().await.map_err(|stop| match stop {
        Stop::Refused(refusal) if refusal.code == Code::OrderAmbiguous => {
            refusal.detail("by --voucher").into()
        }
        stop => stop,
    });
    let Order { amount, .. } = settled.with_context(|| format!("order {id} was not settled"))?;
    yes.or_say(format!(
        "order {id} of {amount} would be refunded for good, without the payment gateway"
    ))?;
    program::say(format!("order {id} is refunded: settled outside the gateway"))
}

async fn export(database: &Database, args: &ExportArgs) -> anyhow::Result<()> {
    let mut before = None;
    loop {
        let read = orders::export(database.pool(), args.voucher, args.status, before).await;
        let (found, last) = read.context("the orders could not be read")?;
        let as_csv = |reader| csv(&found, &args.currency, reader, before.is_none());
        let text = match args.format {
            Format::Csv => as_csv(None),
            Format::Spreadsheet => as_csv(Some(CsvReader::Spreadsheet)),
            Format::Json => found.iter().map(|order| format!("{}\n", json!(order))).collect(),
        };
        program::write(text.as_bytes())?;
        before = last;
        if before.is_none() {
            return Ok(());
        }
    }
}
