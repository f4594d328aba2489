//! `seckill user`: what there is about a person is handed out, and erased.

use anyhow::Context;
use clap::Subcommand;
use program::OutputFile;
use serde_json::Value;

use super::arguments::{Yes, words};
use super::stores::{Access, DatabaseArgs};
use crate::config::ConfigError;
use crate::model::{UserId, normalized_phone};
use crate::store::Database;
use crate::store::persons::{self, PhoneNeeds};

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
    /// Whoever has the phone next is another user. Places in draws and lines are given up. Refused while the phone is needed: for
    /// an order that is unpaid, for money on its way back, or for a draw that is closed and not drawn yet.
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
            let export = async |database: &Database| {
                out.write_private_json(&find(database, &phone).await?.1)
            };
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

async fn erase(database: &Database, phone: &str, yes: Yes, by: Option<&str>) -> anyhow::Result<()> {
    let (user, document) = find(database, phone).await?;
    let pool = database.pool();
    let PhoneNeeds { unpaid, refunding, waiting } = persons::needs(pool, user).await?;
    if unpaid + refunding > 0 {
        anyhow::bail!(
            "user {user} needs the phone and was not erased: {unpaid} orders are unpaid, {refunding} refunds wait for the \
             payment gateway"
        );
    }
    yes.or_say(format!(
        "the phone of user {user} would go for good, with {waiting} places in draws and lines, and {} orders stay as those of a \
         number",
        document["orders"].as_array().map_or(0, Vec::len)
    ))?;
    if let Some((voucher, word)) = persons::leave_lines(pool, user).await? {
        anyhow::bail!(
            "user {user} was not erased: the entry for voucher {voucher} cannot be taken out ({word}); from the close of a draw on \
             nobody leaves until it is drawn"
        );
    }
    if !persons::erase(pool, user, by).await? {
        anyhow::bail!(
            "user {user} was not erased: an order, a refund or an entry is new, or another command was faster; the same command \
             says which"
        );
    }
    let kept = document["user"]["phone"].as_str().unwrap_or(phone);
    let canonical = normalized_phone(kept).unwrap_or_else(|| kept.to_owned());
    let others = persons::other_spellings(pool, user, &canonical).await?;
    if !others.is_empty() {
        program::note(format_args!(
            "the same phone in another spelling is another user, who is not erased: {}",
            others.join(", ")
        ));
    }
    program::say(format!("user {user} is erased"))
}
