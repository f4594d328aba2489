//! `seckill draw`: draws are verified, and told their public number.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};

use super::stores::{Access, DatabaseArgs};
use crate::config::ConfigError;
use crate::model::{Draw, PUBLIC_NUMBER, VoucherId, is_public_number};
use crate::store::Database;
use crate::store::entries;

/// Verify draws, and tell them their public numbers
#[derive(Debug, Subcommand)]
pub enum DrawCommand {
    /// Recompute a draw from what was published of it, without a database; prints the entries in their order
    Verify(VerifyArgs),
    /// Tell a draw its public number, once its entries are closed
    Number(NumberArgs),
}

/// The draw to verify.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// What /api/vouchers/ID/draw answered; - for standard input
    file: PathBuf,
}

/// The number.
#[derive(Debug, Args)]
pub struct NumberArgs {
    /// The voucher
    id: VoucherId,
    /// The digits and letters that were published, in lower case and without leading zeros
    number: String,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Runs the command.
pub async fn run(command: DrawCommand) -> anyhow::Result<()> {
    match command {
        DrawCommand::Verify(VerifyArgs { file }) => verify(&file),
        DrawCommand::Number(args) => tell_number(args).await,
    }
}

fn verify(file: &PathBuf) -> anyhow::Result<()> {
    let name = file.display();
    let text = if file.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| ConfigError(format!("{name} cannot be read: {error}")))?;
    let draw: Draw = serde_json::from_str(&text).map_err(|error| {
        ConfigError(format!("{name} is not what was published of a draw: {error}"))
    })?;
    let drawn = draw.verify().map_err(|what| anyhow::anyhow!("the draw does not hold: {what}"))?;
    for entry in &drawn {
        program::say(entry)?;
    }
    eprintln!("the draw holds: {} entries in the order of their hashes", drawn.len());
    // A file agrees with itself also where all of it was exchanged.
    eprintln!(
        "hold these against what you kept: seed_hash {}, published with the voucher",
        draw.seed_hash
    );
    let entries = draw.entries_hash.unwrap_or_default();
    eprintln!("and entries_hash {entries}, published at the close");
    Ok(())
}

async fn tell_number(NumberArgs { id, number, database }: NumberArgs) -> anyhow::Result<()> {
    if !is_public_number(&number) {
        return Err(ConfigError(PUBLIC_NUMBER.to_owned()).into());
    }
    let tell = async |database: &Database| {
        let told = entries::tell_number(database.pool(), id, &number).await;
        told.with_context(|| format!("the draw of voucher {id} did not take the number"))
    };
    database.with_database(Access::Write, tell).await?;
    program::say(format!("the draw of voucher {id} has its number"))
}
