//! `seckill draw`: draws are verified, and told their public number.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;

use super::arguments::Yes;
use super::stores::{Access, DatabaseArgs};
use crate::config::ConfigError;
use crate::model::{
    Beacon, Draw, DrawService, PUBLIC_NUMBER, RemovedEntry, VoucherId, is_public_number,
};
use crate::store::Database;
use crate::store::draws;

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
    /// The answer of /api/vouchers/ID/draw/service: check also that the entries were served in that order
    service: Option<PathBuf>,
}

/// The number.
#[derive(Debug, Args)]
pub struct NumberArgs {
    /// The voucher
    id: VoucherId,
    /// Drand's randomness in lower-case hex, or all digits of another source; without leading zeros
    number: String,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Runs the command.
pub async fn run(command: DrawCommand) -> anyhow::Result<()> {
    match command {
        DrawCommand::Verify(args) => verify(&args),
        DrawCommand::Number(args) => tell_number(args).await,
    }
}

/// What was published, in `file`.
fn published<T: DeserializeOwned>(file: &Path) -> anyhow::Result<T> {
    let name = file.display();
    let text = if file.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| ConfigError(format!("{name} cannot be read: {error}")))?;
    let what = |error| format!("{name} is not what was published of a draw: {error}");
    serde_json::from_str(&text).map_err(|error| ConfigError(what(error)).into())
}

fn verify(VerifyArgs { file, service }: &VerifyArgs) -> anyhow::Result<()> {
    let draw: Draw = published(file)?;
    let drawn = draw.verify().map_err(|what| anyhow::anyhow!("the draw does not hold: {what}"))?;
    for entry in &drawn {
        program::say(entry)?;
    }
    eprintln!("the draw holds: {} entries in the order of their hashes", drawn.len());
    if let Some(at) = draw.cancelled_at {
        eprintln!("its sale was cancelled at {at}, before the draw: nobody was served");
    }
    if let Some(at) = draw.ended_at {
        eprintln!("its sale ended at {at}, before the draw: nobody was served");
    }
    if let Some(previous) = draw.previous_draw {
        eprintln!(
            "voucher {previous} had a draw of the same title, and was cancelled or never drawn: look at that one, too"
        );
    }
    if let Some(service) = service {
        let service: DrawService = published(service)?;
        let served = service.verify(&drawn);
        served.map_err(|what| anyhow::anyhow!("the service does not hold: {what}"))?;
        for RemovedEntry { entry_id, reason, at } in &service.removed {
            eprintln!("an administrator removed {entry_id} at {at}: {reason}");
        }
        eprintln!("the service holds: {} entries ended in that order", service.ended.len());
    }
    // A file agrees with itself also where all of it was exchanged.
    eprintln!(
        "hold these against what you kept: seed_hash {}, published with the voucher",
        draw.seed_hash
    );
    let entries = draw.entries_hash.unwrap_or_default();
    eprintln!("and entries_hash {entries}, published at the close");
    if let Some(number) = draw.number {
        eprintln!("only its source says whether {number} is the number of {:?}", draw.beacon);
    }
    Ok(())
}

async fn tell_number(args: NumberArgs) -> anyhow::Result<()> {
    let NumberArgs { id, number, yes, database } = args;
    if !is_public_number(&number) {
        return Err(ConfigError(PUBLIC_NUMBER.to_owned()).into());
    }
    let tell = async |database: &Database| {
        let beacon = draws::beacon(database.pool(), id).await?;
        let beacon = beacon.with_context(|| format!("voucher {id} has no draw"))?;
        if Beacon::read(&beacon).is_some_and(|source| !source.takes(&number)) {
            return Err(ConfigError(PUBLIC_NUMBER.to_owned()).into());
        }
        yes.or_say(format!(
            "voucher {id} would be drawn with {number} as the number of \"{beacon}\", for good"
        ))?;
        let told = draws::tell_number(database.pool(), id, &number, None).await;
        told.with_context(|| format!("the draw of voucher {id} did not take the number"))
    };
    database.with_database(Access::Write, tell).await?;
    program::say(format!("the draw of voucher {id} has its number"))
}
