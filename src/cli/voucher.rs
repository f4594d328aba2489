//! `seckill voucher add` and `seckill voucher list`.

use anyhow::Context;
use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};

use super::stores::Stores;
use crate::config::{ConfigError, HomeArgs, StoreArgs};
use crate::http::vouchers::NewVoucherBody;
use crate::model::{Clock, SystemClock, VoucherId};
use crate::store::vouchers;

/// Put vouchers on sale, and list them
#[derive(Debug, Subcommand)]
pub enum VoucherCommand {
    /// Put a voucher on sale; prints its id
    Add(AddArgs),
    /// List the vouchers, newest first
    List(ListArgs),
}

/// The voucher to add.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// What is sold
    #[arg(long)]
    title: String,
    /// How many
    #[arg(long, allow_negative_numbers = true)]
    stock: i32,
    /// First instant of the sale, such as 2026-11-11T00:00:00+08:00 [default: now]
    #[arg(long, value_name = "RFC3339")]
    begin: Option<DateTime<Utc>>,
    /// First instant after the sale [default: 24 hours after the beginning]
    #[arg(long, value_name = "RFC3339")]
    end: Option<DateTime<Utc>>,
    #[command(flatten)]
    stores: StoreArgs,
    #[command(flatten)]
    home: HomeArgs,
}

/// Which vouchers to list.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    stores: StoreArgs,
    #[command(flatten)]
    home: HomeArgs,
}

/// Vouchers read at a time.
const PAGE: i64 = 1000;

/// Runs the command.
pub async fn run(command: VoucherCommand) -> anyhow::Result<()> {
    match command {
        VoucherCommand::Add(args) => add(args).await,
        VoucherCommand::List(args) => list(args).await,
    }
}

async fn add(args: AddArgs) -> anyhow::Result<()> {
    let AddArgs { title, stock, begin: begin_time, end: end_time, stores, home } = args;
    let now = SystemClock.now();
    let new = NewVoucherBody { title, stock, begin_time, end_time, ..NewVoucherBody::default() }
        .complete(now)
        .map_err(|what| ConfigError(what.to_owned()))?;
    let stores = Stores::open_database(&stores, &home).await?;
    let database = stores.migrated_database().await?;
    let created = vouchers::create(database.pool(), &new, now).await;
    database.close().await;
    program::say(created.context("the voucher could not be added")?.id)?;
    stores.close().await
}

async fn list(args: ListArgs) -> anyhow::Result<()> {
    let stores = Stores::open_database(&args.stores, &args.home).await?;
    let database = stores.migrated_database().await?;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["ID", "STATUS", "STOCK", "OF", "BEGIN", "END", "TITLE"]);
    let (mut before, now): (Option<VoucherId>, _) = (None, SystemClock.now());
    loop {
        let page = vouchers::list(database.pool(), before, PAGE).await?;
        for voucher in &page {
            table.add_row([
                voucher.id.to_string(),
                voucher.status_at(now).as_str().to_owned(),
                voucher.stock.to_string(),
                voucher.initial_stock.to_string(),
                voucher.begin_time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
                voucher.end_time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
                voucher.title.clone(),
            ]);
        }
        before = page.last().map(|voucher| voucher.id);
        if before.is_none() {
            break;
        }
    }
    database.close().await;
    program::say(table)?;
    stores.close().await
}
