//! `seckill migrate`.

use clap::Args;

use super::stores::{Access, DatabaseArgs};
use crate::store::{Database, Distribution};

/// Apply the database migrations that are missing (every command that uses the database does, too)
///
/// Then sets each sequence that a move to another database left behind the ids of its table, and says so.
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
        for lagging in database.mend_sequences().await? {
            program::say(format!("{lagging}: it was set to that"))?;
        }
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
