//! `seckill migrate`.

use clap::Args;

use super::stores::Stores;
use crate::config::{HomeArgs, StoreArgs};

/// Apply the database migrations that are missing (every command that uses the database does, too)
#[derive(Debug, Args)]
pub struct MigrateArgs {
    #[command(flatten)]
    stores: StoreArgs,
    #[command(flatten)]
    home: HomeArgs,
}

/// Runs the command.
///
/// # Errors
/// When the database cannot be reached, or a migration fails.
pub async fn run(args: MigrateArgs) -> anyhow::Result<()> {
    let stores = Stores::open_database(&args.stores, &args.home).await?;
    stores.migrated_database().await?.close().await;
    super::say("the database is up to date")?;
    stores.close().await
}
