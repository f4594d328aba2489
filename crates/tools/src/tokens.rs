//! `seckill tokens`.

use std::collections::HashMap;
use std::fs::{OpenOptions, Permissions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use program::OutputFile;

use seckill::cli::stores::{Stores, secret_is_required};
use seckill::config::{ConfigError, HomeArgs, SecretArgs, StoreArgs};
use seckill::http::tokens::{LONGEST_TOKEN_LIFE, Tokens};
use seckill::model::{SystemClock, UserId};
use seckill::store::{Database, order_steps, revocations, users};

/// Users at once.
const MAX_USERS: u32 = 5_000_000;
/// The phones of the load testers' users have room for eleven digits of their ids.
const MAX_ID: i64 = 99_999_999_999;
/// Users created by one statement.
const USERS_A_STATEMENT: u32 = 10_000;

/// How tokens are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TokenFormat {
    /// CSV with the head `user_id,token`
    Csv,
    /// One bare token a line, as plans for hm-dianping read them
    Hmdp,
}

/// Create users for a load test and write a token for each
#[derive(Debug, Args)]
pub struct TokensArgs {
    /// How many
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_USERS)))]
    users: u32,
    /// Id of the first [default: the first one free]
    #[arg(long, value_name = "ID")]
    first: Option<UserId>,
    /// With --first ID --users 1: also for a person, a user who logged in with a phone; whoever has the file can act as them
    #[arg(long, requires = "first")]
    existing: bool,
    /// Where to write
    #[arg(long, value_name = "FILE")]
    out: OutputFile,
    /// How to write
    #[arg(long, value_enum, default_value_t = TokenFormat::Csv)]
    format: TokenFormat,
    #[command(flatten)]
    secret: SecretArgs,
    #[command(flatten)]
    stores: StoreArgs,
    #[command(flatten)]
    home: HomeArgs,
}

/// Runs the command.
///
/// # Errors
/// When the database cannot be reached or the file not written.
pub async fn run(args: TokensArgs) -> anyhow::Result<()> {
    if args.stores.database_url.is_some() && args.secret.secret.is_none() {
        return Err(secret_is_required().into());
    }
    if let Some(first) = args.first {
        check_range(first, args.users, args.existing)?;
    }
    let stores = Stores::open_database(&args.stores, &args.home).await?;
    let tokens = Tokens::new(stores.secret(&args.secret)?.as_bytes(), Arc::new(SystemClock));
    let database = stores.migrated_database().await?;
    let minted = mint(&database, &tokens, args.first, args.users).await?;
    database.close().await;
    write(args.out.path(), args.format, &minted)
        .with_context(|| format!("cannot write {}", args.out))?;
    if let (Some((first, _)), Some((last, _))) = (minted.first(), minted.last()) {
        eprintln!("users {first} to {last}, good for {} days", LONGEST_TOKEN_LIFE.num_days());
    }
    stores.close().await
}

/// Creates the users and their tokens.
///
/// # Errors
/// When the database does not answer, or the ids end before the users do.
pub async fn mint(
    database: &Database,
    tokens: &Tokens,
    first: Option<UserId>,
    count: u32,
) -> anyhow::Result<Vec<(UserId, String)>> {
    let now = order_steps::time(database.pool()).await?;
    let first = match first {
        Some(first) => first,
        None => users::reserve_ids(database.pool(), count).await?,
    };
    check_range(first, count, true)?;
    if first.get() > UserId::LAST_OF_A_RANGE && users::find(database.pool(), first).await?.is_none()
    {
        return Err(ConfigError(format!("there is no user {first}")).into());
    }
    let id = |offset: u32| {
        first.get().checked_add(i64::from(offset)).and_then(UserId::new).context("ids end there")
    };
    let mut ends = HashMap::new();
    for offset in (0..count).step_by(USERS_A_STATEMENT as usize) {
        let count = USERS_A_STATEMENT.min(count - offset);
        if first.get() <= UserId::LAST_OF_A_RANGE {
            users::create_range(database.pool(), id(offset)?, count, now).await?;
        }
        // Users who were there already may have ended their sessions.
        let (first, last) = (id(offset)?, id(offset + count - 1)?);
        ends.extend(revocations::list_of(database.pool(), first, last).await?);
    }
    (0..count)
        .map(|offset| {
            let user = id(offset)?;
            let end = ends.get(&user).copied();
            Ok((user, tokens.mint(user, end, now, now + LONGEST_TOKEN_LIFE)))
        })
        .collect()
}

/// A token of a person is more than a load test needs. People have ids beyond every range.
fn check_range(first: UserId, count: u32, existing: bool) -> Result<(), ConfigError> {
    if first.get() > UserId::LAST_OF_A_RANGE {
        return match (existing, count) {
            (true, 1) => Ok(()),
            (true, _) => Err(ConfigError(format!("of people, as {first}, take one at a time"))),
            (false, _) => Err(ConfigError(format!(
                "an id as {first} is a person's, with a phone, as whom the holder of a token could act: take other \
                 ids with --first, or say that you mean it with --existing"
            ))),
        };
    }
    if first.get() > MAX_ID - i64::from(count) + 1 {
        return Err(ConfigError(format!("{count} users from {first} on would pass id {MAX_ID}")));
    }
    Ok(())
}

fn write(path: &Path, format: TokenFormat, minted: &[(UserId, String)]) -> anyhow::Result<()> {
    // A reader of a token is its user, also of a file that was there and was everybody's to read.
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    match format {
        TokenFormat::Csv => {
            let mut file = csv::Writer::from_writer(file);
            file.write_record(["user_id", "token"])?;
            for (user, token) in minted {
                file.write_record([&user.to_string(), token])?;
            }
            file.flush()?;
        }
        TokenFormat::Hmdp => {
            let mut file = BufWriter::new(file);
            for (_, token) in minted {
                writeln!(file, "{token}")?;
            }
            file.flush()?;
        }
    }
    Ok(())
}
