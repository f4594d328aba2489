//! `seckill user`: what there is about a person is handed out, and erased.

use anyhow::Context;
use clap::Subcommand;
use program::OutputFile;
use serde_json::Value;

use super::arguments::{Yes, words};
use super::stores::{Access, DatabaseArgs};
use crate::config::ConfigError;
use crate::model::{UserId, normalized_phone};
use crate::store::{Database, persons};

/// Export or erase what there is about a person
#[derive(Debug, Subcommand)]
#[allow(missing_docs)] // of the fields: what each says of itself is for the reader of `--help`
pub enum UserCommand {
    /// Write all that the database has about a person, as one JSON document
    #[command(visible_alias = "show")]
    Export {
        /// The phone that logs in
        phone: String,
        /// Where to write; - for standard output
        #[arg(long, value_name = "FILE", default_value = "-")]
        out: OutputFile,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Erase a person: the phone and the sessions go, and the orders stay as those of a number
    ///
    /// Whoever has the phone next is another user. Refused while the phone is needed: for an order that is unpaid, for money
    /// on its way back, or for a place in a draw or a line of a sale that is on.
    Erase {
        /// The phone that logs in
        phone: String,
        #[command(flatten)]
        yes: Yes,
        /// Who erases, to be kept beside the time [default: the role of the database]
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = words)]
        by: Option<String>,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

/// Runs the command.
pub async fn run(command: UserCommand) -> anyhow::Result<()> {
    match command {
        UserCommand::Export { phone, out, database } => {
            let export =
                async |database: &Database| out.write_json(&find(database, &phone).await?.1);
            database.with_database(Access::Read, export).await
        }
        UserCommand::Erase { phone, yes, by, database } => {
            let erase =
                async |database: &Database| erase(database, &phone, yes, by.as_deref()).await;
            database.with_database(Access::Write, erase).await
        }
    }
}

async fn find(database: &Database, phone: &str) -> anyhow::Result<(UserId, Value)> {
    let canonical = normalized_phone(phone);
    let found = persons::find(database.pool(), phone, canonical.as_deref().unwrap_or(phone)).await;
    match (found.context("the person could not be looked up")?, canonical) {
        (Some(person), _) => Ok(person),
        (None, Some(_)) => anyhow::bail!("no user has the phone {phone}"),
        (None, None) => Err(ConfigError(format!("{phone} is no phone")).into()),
    }
}

fn rows<'a>(of: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    of[list].as_array().into_iter().flatten()
}

async fn erase(database: &Database, phone: &str, yes: Yes, by: Option<&str>) -> anyhow::Result<()> {
    let (user, document) = find(database, phone).await?;
    let orders = || rows(&document, "orders");
    let unpaid = orders().filter(|order| order["status"] == "unpaid").count();
    let refunds = orders().flat_map(|order| rows(order, "refunds"));
    let refunding = refunds.filter(|refund| refund["status"] == 1).count();
    let waits = |entry: &&Value| entry["status"] == "waiting" && entry["sale_is_over"] == false;
    let waiting = rows(&document, "entries").filter(waits).count();
    if unpaid + refunding + waiting > 0 {
        anyhow::bail!(
            "user {user} needs the phone and was not erased: {unpaid} orders are unpaid, {refunding} refunds wait for the \
             payment gateway, {waiting} entries wait in a draw or a line"
        );
    }
    yes.or_say(format!(
        "the phone of user {user} would go for good, and {} orders stay as those of a number",
        orders().count()
    ))?;
    if !persons::erase(database.pool(), user, by).await? {
        anyhow::bail!("another command has erased user {user} meanwhile");
    }
    program::say(format!("user {user} is erased"))
}
