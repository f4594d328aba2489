//! `seckill migrate`.

use clap::Args;

use super::stores::{Access, DatabaseArgs};
use crate::store::{Database, Distribution};

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
    database: DatabaseArgs,
}

/// Runs the command.
pub async fn run(args: MigrateArgs) -> anyhow::Result<()> {
    let work = async |database: &Database| {
        program::say("the database is up to date")?;
        if args.distribute {
            match database.distribute().await? {
                Distribution::Done { workers } => {
                    program::say(format!("the data is distributed, workers: {workers}"))?;
                }
                Distribution::Already => program::say("the data was already distributed")?,
            }
        }
        Ok(())
    };
    args.database.with_database(Access::Write, work).await
}
