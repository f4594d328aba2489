//! `seckill migrate`.

use clap::Args;

use super::stores::Stores;
use crate::config::{HomeArgs, StoreArgs};
use crate::store::Distribution;

/// Apply the database migrations that are missing (every command that uses the database does, too)
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Then distribute the data over the workers of Citus, once: vouchers, their sales and orders by
    /// voucher, a copy of the users on every server
    ///
    /// Outside sales, on the coordinator. Orders wait until it is done. docs/scaling.md says what it needs.
    #[arg(long)]
    distribute: bool,
    #[command(flatten)]
    stores: StoreArgs,
    #[command(flatten)]
    home: HomeArgs,
}

/// Runs the command.
pub async fn run(args: MigrateArgs) -> anyhow::Result<()> {
    let stores = Stores::open_database(&args.stores, &args.home).await?;
    let database = stores.migrated_database().await?;
    program::say("the database is up to date")?;
    if args.distribute {
        match database.distribute().await? {
            Distribution::Done { workers } => {
                program::say(format!("the data is distributed, workers: {workers}"))?;
            }
            Distribution::Already => program::say("the data was already distributed")?,
        }
    }
    database.close().await;
    stores.close().await
}
