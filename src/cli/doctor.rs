//! `seckill doctor`.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use program::{FAILED, UNUSABLE, say};

use super::serve::Configuration;
use super::stores::{Stores, secret_is_required};
use crate::config::SecretArgs;
use crate::doctor::{Finding, Level, postgres, redis, settings};
use crate::model::SystemClock;
use crate::store::{self, Database, DatabaseClock, Keys};

/// Look at the configuration of serve and at the servers it names: what is fine, what is not, what to do
///
/// Takes the flags and variables of serve, connects, and changes nothing that outlives it. Exit status 1 when a
/// promise is in danger or people are kept from something, 2 when serve would not start or not sell.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    configuration: Configuration,
}

/// Runs the command.
pub async fn run(DoctorArgs { configuration: args }: DoctorArgs) -> anyhow::Result<ExitCode> {
    let is_private = args.stores.database_url.is_none();
    let sms = args.sms.settings(is_private)?;
    let payments = args.payments.settings(is_private)?;
    let mut worst = Level::Fine;
    let mut tell = |found: Vec<Finding>| {
        worst = found.iter().map(|finding| finding.level).chain([worst]).max().unwrap_or(worst);
        found.iter().try_for_each(say)
    };
    tell(settings::of_server(&args.server))?;
    tell(vec![secret(&args.secret, is_private)])?;

    let stores = Stores::open(&args.stores, Some(&args.home)).await?;
    if let Some(private) = stores.private() {
        tell(vec![Finding::note("stores", format!("{private}: for development"))])?;
    }
    let database = Database::new(&stores.database_url)?;
    let clock = DatabaseClock::new(Arc::new(SystemClock));
    tell(postgres::look(&database, &clock, is_private).await)?;
    let redis = store::redis(&stores.redis_url)?;
    tell(
        redis::look(&redis, &stores.redis_url, &Keys::with_prefix(stores.key_prefix.as_str()))
            .await,
    )?;
    tell(vec![
        settings::of_sms(&sms, is_private).await,
        settings::of_payments(&payments, is_private).await,
    ])?;
    database.close().await;
    stores.close().await?;
    Ok(match worst {
        Level::Fine | Level::Note => ExitCode::SUCCESS,
        Level::Danger => ExitCode::from(FAILED),
        Level::Broken => ExitCode::from(UNUSABLE),
    })
}

fn secret(args: &SecretArgs, is_private: bool) -> Finding {
    match &args.secret {
        Some(secret) => {
            Finding::fine("secret", format!("{} bytes, the same on all servers?", secret.len()))
        }
        None if is_private => Finding::note("secret", "made and kept in the data directory"),
        None => Finding::broken("secret", secret_is_required().to_string()),
    }
}
