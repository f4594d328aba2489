//! `seckill user`: what there is about a person is shown, handed out, and erased.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use clap::{Args, Subcommand};
use program::OutputFile;
use serde_json::Value;

use super::arguments::words;
use super::stores::{Access, DatabaseArgs, Stores};
use crate::config::ConfigError;
use crate::model::{UserId, normalized_phone};
use crate::store::{self, Database, Keys, login_codes, persons};

/// Show, export or erase what there is about a person
#[derive(Debug, Subcommand)]
#[allow(missing_docs)] // of the fields: what each says of itself is for the reader of `--help`
pub enum UserCommand {
    /// Show who has a phone, since when, and how many orders and entries there are
    Show {
        /// The phone that logs in
        phone: String,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Write all that the database has about a person, as one JSON document
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
    Erase(EraseArgs),
}

/// Whom to erase.
#[derive(Debug, Args)]
pub struct EraseArgs {
    /// The phone that logs in
    phone: String,
    /// Do it: nothing can take it back
    #[arg(long)]
    yes: bool,
    /// Who erases, to be kept beside the time [default: the role of the database]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = words)]
    by: Option<String>,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Runs the command.
pub async fn run(command: UserCommand) -> anyhow::Result<()> {
    match command {
        UserCommand::Show { phone, database } => {
            let show = async |database: &Database| show(&find(database, &phone).await?.1);
            database.with_database(Access::Read, show).await
        }
        UserCommand::Export { phone, out, database } => {
            let export = async |database: &Database| {
                out.write_private_json(&find(database, &phone).await?.1)
            };
            database.with_database(Access::Read, export).await
        }
        UserCommand::Erase(args) => {
            let erase =
                async |stores: &Stores, database: &Database| erase(stores, database, &args).await;
            args.database.with_stores(Access::Write, erase).await
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

/// How many `rows` have which status, in words.
fn counted<'a>(rows: impl Iterator<Item = &'a Value>) -> String {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(row["status"].as_str().unwrap_or_default()).or_insert(0) += 1;
    }
    let words: Vec<String> = counts.iter().map(|(status, n)| format!("{n} {status}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn show(document: &Value) -> anyhow::Result<()> {
    let of_user = |name: &str| document["user"][name].as_str().unwrap_or_default();
    program::say(format!(
        "id          {}\nphone       {}\ncreated_at  {}\norders      {}\nentries     {}",
        of_user("id"),
        of_user("phone"),
        of_user("created_at"),
        counted(rows(document, "orders")),
        counted(rows(document, "entries"))
    ))
}

async fn erase(stores: &Stores, database: &Database, args: &EraseArgs) -> anyhow::Result<()> {
    let phone = &args.phone;
    let (user, document) = find(database, phone).await?;
    let orders = || rows(&document, "orders");
    let unpaid = orders().filter(|order| order["status"] == "unpaid").count();
    let refunds = orders().flat_map(|order| rows(order, "refunds"));
    let refunding = refunds.filter(|refund| refund["status"] == 1).count();
    let waits = |entry: &&Value| entry["status"] == "waiting" && entry["sale_is_over"] == false;
    let waiting = rows(&document, "entries").filter(waits).count();
    if unpaid + refunding > 0 {
        anyhow::bail!(
            "user {user} needs the phone and was not erased: {unpaid} orders are unpaid, {refunding} refunds wait for the \
             payment gateway"
        );
    }
    if !args.yes {
        return Err(ConfigError(format!(
            "the phone of user {user} would go for good, with {waiting} places in draws and lines, and the orders stay as those \
             of a number ({}): add --yes",
            counted(orders())
        ))
        .into());
    }
    let pool = database.pool();
    if let Some((voucher, word)) = persons::leave_lines(pool, user).await? {
        anyhow::bail!(
            "user {user} was not erased: the entry for voucher {voucher} cannot be taken out ({word}); from the close of a draw on \
             nobody leaves until it is drawn"
        );
    }
    if !persons::erase(pool, user, args.by.as_deref()).await? {
        anyhow::bail!(
            "user {user} was not erased: an order, a refund or an entry is new, or another command was faster; the same command \
             says which"
        );
    }
    let kept = document["user"]["phone"].as_str().unwrap_or(phone);
    // Codes are kept by the one form of a phone, which the user's may be older than.
    let canonical = normalized_phone(kept).unwrap_or_else(|| kept.to_owned());
    for spelling in BTreeSet::from([kept, &canonical]) {
        if let Err(why) = forget_logins(stores, spelling).await {
            program::note(format_args!(
                "login codes and limits of {spelling} stay in Redis until they end by themselves: {why}"
            ));
        }
    }
    let others = persons::other_spellings(pool, user, &canonical).await?;
    if !others.is_empty() {
        program::note(format_args!(
            "the same phone in another spelling is another user, who is not erased: {}",
            others.join(", ")
        ));
    }
    program::say(format!("user {user} is erased"))
}

async fn forget_logins(stores: &Stores, phone: &str) -> anyhow::Result<()> {
    anyhow::ensure!(!stores.redis_url.is_empty(), "REDIS_URL is not set");
    let keys = Keys::with_prefix(stores.key_prefix.as_str());
    Ok(login_codes::forget(&store::redis(&stores.redis_url, None)?, &keys, phone).await?)
}
