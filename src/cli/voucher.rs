//! `seckill voucher`: vouchers are put on sale, listed and changed.

use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use comfy_table::{ContentArrangement, Table, presets};
use tokio::time::Instant;

use super::arguments::{Yes, instant, words};
use super::stores::{Access, DatabaseArgs};
use crate::config::ConfigError;
use crate::model::voucher_terms::{NewVoucher, VoucherChange};
use crate::model::{Clock, SystemClock, Voucher, VoucherId};
use crate::orders::winding_up::WindingUp;
use crate::store::Database;
use crate::store::cancelled_sales::{self, OrderCounts};
use crate::store::vouchers;

/// Put vouchers on sale, list them, and change them
#[derive(Debug, Subcommand)]
pub enum VoucherCommand {
    /// Put a voucher on sale; prints its id
    Add(AddArgs),
    /// List the vouchers, newest first
    List(DatabaseArgs),
    /// Change a voucher or its sale; every server goes by it within a second
    Edit(EditArgs),
    /// Stop a sale for a while; orders that were placed stay
    Pause(OneArgs),
    /// Let a sale go on
    Resume(OneArgs),
    /// Add stock, or take unsold stock away
    Restock(RestockArgs),
    /// End a sale for good: cancel what is unpaid, refund what is paid, leave what is used
    Cancel(CancelArgs),
}

/// The voucher to add.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// What is sold
    #[arg(long, allow_hyphen_values = true, value_parser = words)]
    title: String,
    /// How many
    #[arg(long, allow_negative_numbers = true)]
    stock: i32,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    fairness: FairnessArgs,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// The order in which buyers are served.
#[derive(Debug, Args)]
pub struct FairnessArgs {
    /// Once it is sold out, buyers stand in line for what comes back
    #[arg(long)]
    line: bool,
    /// Draw who is served: buyers enter until this instant within the sale, and those who are not drawn first stand in
    /// line [default: whoever comes first is served first]
    #[arg(long, value_name = "RFC3339", value_parser = instant)]
    draw: Option<DateTime<Utc>>,
    /// The source of a public number that goes into the draw, and the moment after the draw's at which it publishes it:
    /// drand:quicknet:ROUND, or NAME@TIME such as \"the lottery@2026-11-12T21:15:00+08:00\". `seckill draw number` tells it
    #[arg(long, value_name = "TEXT", requires = "draw", allow_hyphen_values = true, value_parser = words)]
    beacon: Option<String>,
    /// How many may enter the draw or stand in line, those who left included [default: 1000000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_entries: Option<i32>,
    /// When offers to the line, and to those whom the draw found, are made, such as 08:00-22:00: the time to pay begins with the
    /// offer [default: at any time; without an offset such as +08:00 it is this machine's]
    #[arg(long, value_name = "HOURS")]
    offer_between: Option<String>,
}

/// When a voucher is on sale, what it costs, and what it says.
#[derive(Debug, Args)]
pub struct TermsArgs {
    /// First instant of the sale, such as 2026-11-11T00:00:00+08:00
    /// [default of a new voucher: now]
    #[arg(long, value_name = "RFC3339", value_parser = instant)]
    begin: Option<DateTime<Utc>>,
    /// First instant after the sale [default of a new voucher: 24 hours after the beginning]
    #[arg(long, value_name = "RFC3339", value_parser = instant)]
    end: Option<DateTime<Utc>>,
    /// What it costs, in the currency's smallest unit [default of a new voucher: 0]
    #[arg(long, value_name = "CENTS", allow_negative_numbers = true)]
    price: Option<i64>,
    /// What it is worth, in the currency's smallest unit: for people
    #[arg(long, value_name = "CENTS", allow_negative_numbers = true)]
    value: Option<i64>,
    /// How long a buyer has to pay, such as 15m: then the order is cancelled
    /// [default of a new voucher: 15m]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pay_within: Option<Duration>,
    /// A second line, for people
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = words)]
    subtitle: Option<String>,
    /// The conditions, for people
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = words)]
    terms: Option<String>,
}

impl TermsArgs {
    /// The time to pay in whole seconds.
    fn pay_within_s(&self) -> anyhow::Result<Option<i32>> {
        let seconds = |time: Duration| match i32::try_from(time.as_secs()) {
            Ok(seconds) if time.subsec_nanos() == 0 => Ok(seconds),
            _ => Err(ConfigError("--pay-within must be whole seconds, at most 30 days".to_owned())),
        };
        Ok(self.pay_within.map(seconds).transpose()?)
    }
}

/// What to change.
#[derive(Debug, Args)]
pub struct EditArgs {
    /// The voucher
    id: VoucherId,
    /// What is sold
    #[arg(long, allow_hyphen_values = true, value_parser = words)]
    title: Option<String>,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// One voucher.
#[derive(Debug, Args)]
pub struct OneArgs {
    /// The voucher
    id: VoucherId,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// The sale to cancel.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The voucher
    id: VoucherId,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// How its stock changes.
#[derive(Debug, Args)]
pub struct RestockArgs {
    /// The voucher
    id: VoucherId,
    #[command(flatten)]
    how: RestockHow,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// One of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct RestockHow {
    /// Put so many more on sale
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    add: Option<i32>,
    /// Take so many away that are not sold
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    take: Option<i32>,
    /// Have so many on sale in all, those that are sold included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    to: Option<i32>,
}

/// The pause after an order that another session holds.
const WINDING_UP_AGAIN: Duration = Duration::from_millis(200);

/// How long it tries where no order can be ended.
const WINDING_UP_FOR: Duration = Duration::from_secs(60);
/// How often it says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Vouchers read at a time.
const PAGE: i64 = 1000;

/// Runs the command.
pub async fn run(command: VoucherCommand) -> anyhow::Result<()> {
    match command {
        VoucherCommand::Add(args) => add(args).await,
        VoucherCommand::List(database) => {
            let table = database.with_database(Access::Read, list).await?;
            program::say(table)
        }
        VoucherCommand::Edit(args) => edit(args).await,
        VoucherCommand::Pause(args) => pause(args, true).await,
        VoucherCommand::Resume(args) => pause(args, false).await,
        VoucherCommand::Cancel(CancelArgs { id, yes, database }) => {
            let cancel = async |database: &Database| cancel(database, id, yes).await;
            database.with_database(Access::Write, cancel).await
        }
        VoucherCommand::Restock(RestockArgs { id, how, database }) => {
            let restocked = VoucherChange {
                initial_stock: how.to,
                more_stock: how.add.unwrap_or_default() - how.take.unwrap_or_default(),
                ..VoucherChange::default()
            };
            change(id, restocked, &database).await
        }
    }
}

async fn pause(OneArgs { id, database }: OneArgs, is_paused: bool) -> anyhow::Result<()> {
    let paused = VoucherChange { paused: Some(is_paused), ..VoucherChange::default() };
    change(id, paused, &database).await
}

async fn edit(args: EditArgs) -> anyhow::Result<()> {
    let EditArgs { id, title, terms, database } = args;
    let pay_within_s = terms.pay_within_s()?;
    let TermsArgs { begin: begin_time, end: end_time, price, value, subtitle, terms, .. } = terms;
    let edited = VoucherChange {
        title,
        subtitle,
        terms,
        value,
        price,
        pay_within_s,
        begin_time,
        end_time,
        ..VoucherChange::default()
    };
    if edited == VoucherChange::default() {
        let what = "say what to change: seckill voucher edit --help";
        anyhow::bail!(ConfigError(what.to_owned()));
    }
    change(id, edited, &database).await
}

/// Changes a voucher, and prints it as it is then.
async fn change(
    id: VoucherId,
    change: VoucherChange,
    database: &DatabaseArgs,
) -> anyhow::Result<()> {
    change.check().map_err(|what| ConfigError(what.to_owned()))?;
    let change = async |database: &Database| {
        let changed = vouchers::change(database.pool(), id, &change).await;
        changed.with_context(|| format!("voucher {id} was not changed"))
    };
    let voucher = database.with_database(Access::Write, change).await?;
    let mut table = table();
    table.add_row(row(&voucher, SystemClock.now()));
    program::say(table)
}

/// Ends a sale, and its orders as far as they can be ended. Where it is broken off, the servers go on, and so does the
/// same command.
async fn cancel(database: &Database, id: VoucherId, yes: Yes) -> anyhow::Result<()> {
    let counted = async || -> anyhow::Result<OrderCounts> {
        let counts = cancelled_sales::count_orders(database.pool(), id).await?;
        counts.with_context(|| format!("there is no voucher {id}"))
    };
    if !yes.is_given {
        let OrderCounts { unpaid, paid, .. } = counted().await?;
        yes.or_say(format!(
            "{unpaid} unpaid orders of voucher {id} would be cancelled and {paid} paid ones refunded, for good"
        ))?;
    }
    // First of all: from here on nobody buys.
    if !cancelled_sales::cancel(database.steps(), id).await? {
        anyhow::bail!("there is no voucher {id}");
    }
    let OrderCounts { unpaid, paid, .. } = counted().await?;
    let winding_up = WindingUp::new(database.clone());
    let (mut cancelled, mut refunded) = (0, 0);
    let (mut said, mut moved) = (Instant::now(), Instant::now());
    loop {
        match winding_up.step(id).await {
            Ok(step) if step.is_complete => break,
            Ok(step) => {
                (cancelled, refunded) = (cancelled + step.cancelled, refunded + step.refunded);
                moved = Instant::now();
            }
            // A buyer pays, or a server ends the same orders: it is tried again.
            Err(error) if error.retry_may_help() && moved.elapsed() < WINDING_UP_FOR => {
                tokio::time::sleep(WINDING_UP_AGAIN).await;
            }
            Err(error) => {
                let what = "the sale is cancelled, but not all of its orders could be ended: the servers go on, and so \
                            does this command";
                return Err(error).context(what);
            }
        }
        if said.elapsed() >= PROGRESS_EVERY {
            eprintln!("{} of {} orders ended", cancelled + refunded, unpaid + paid);
            said = Instant::now();
        }
    }
    let OrderCounts { used, refunding, refunded: back, .. } = counted().await?;
    program::say(format!(
        "the sale of voucher {id} is cancelled: this command cancelled {cancelled} unpaid orders and began {refunded} \
         refunds; {back} orders are refunded, {refunding} wait for the payment gateway, {used} were used and stay so"
    ))
}

async fn add(args: AddArgs) -> anyhow::Result<()> {
    let AddArgs { title, stock, terms, fairness, database } = args;
    let now = SystemClock.now();
    let pay_within_s = terms.pay_within_s()?;
    let TermsArgs { begin: begin_time, end: end_time, price, value, subtitle, terms, .. } = terms;
    let new = NewVoucher {
        title,
        subtitle,
        terms,
        value,
        price,
        pay_within_s,
        stock,
        begin_time,
        end_time,
        line: Some(fairness.line || fairness.draw.is_some()),
        draw_time: fairness.draw,
        draw_beacon: fairness.beacon,
        max_entries: fairness.max_entries,
        offer_between: fairness.offer_between.map(|hours| match hours.len() {
            11 => hours + &now.with_timezone(&chrono::Local).offset().to_string(),
            _ => hours,
        }),
    };
    new.check(now).map_err(|what| ConfigError(what.to_owned()))?;
    let create = async |database: &Database| {
        let created = vouchers::create(database.pool(), &new, now).await;
        created.context("the voucher could not be added")
    };
    program::say(database.with_database(Access::Write, create).await?.id)
}

async fn list(database: &Database) -> anyhow::Result<Table> {
    let mut table = table();
    let (mut before, now): (Option<VoucherId>, _) = (None, SystemClock.now());
    loop {
        let page = vouchers::list(database.pool(), before, PAGE).await?;
        for voucher in &page {
            table.add_row(row(voucher, now));
        }
        before = page.last().map(|voucher| voucher.id);
        if before.is_none() {
            break;
        }
    }
    Ok(table)
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    // As wide as the terminal is; into a file, as wide as it needs.
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["ID", "STATUS", "STOCK", "OF", "PRICE", "BEGIN", "END", "TITLE"]);
    table
}

fn row(voucher: &Voucher, now: DateTime<Utc>) -> [String; 8] {
    [
        voucher.id.to_string(),
        voucher.status_at(now).as_str().to_owned(),
        voucher.stock.to_string(),
        voucher.initial_stock.to_string(),
        voucher.price.to_string(),
        voucher.begin_time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        voucher.end_time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        voucher.title.clone(),
    ]
}
