//! `seckill doctor`.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use program::{FAILED, UNUSABLE, say};

use super::serve::Configuration;
use crate::doctor::{Finding, Level, postgres, redis, settings};
use crate::model::SystemClock;
use crate::store::{self, Database, DatabaseClock, Keys};

/// Look at the configuration of serve and at the servers it names: what is fine, what is not, what to do
///
/// Takes the flags and variables of serve, connects to the stores they name, and changes nothing that outlives it.
/// What serve says at its start is left to serve. Exit status 1 when a promise is in danger or people are kept from
/// something, 2 when serve would not start or not sell.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    configuration: Configuration,
}

/// Runs the command.
pub async fn run(DoctorArgs { configuration: args }: DoctorArgs) -> anyhow::Result<ExitCode> {
    let [sms, payments, events] = args.checked()?;
    let stores = &args.options.stores;
    let (Some(database_url), Some(redis_url)) = (&stores.database_url, stores.named_redis()?)
    else {
        let words = "serve starts private ones, for development: there is nothing to look at";
        say(Finding::note("stores", words))?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut worst = Level::Fine;
    let mut tell = |found: Vec<Finding>| {
        worst = found.iter().map(|finding| finding.level).chain([worst]).max().unwrap_or(worst);
        found.iter().try_for_each(say)
    };
    tell(settings::of_server(&args.options.server))?;
    let database = Database::new(database_url)?;
    let clock = DatabaseClock::new(Arc::new(SystemClock));
    tell(postgres::look(&database, &clock).await)?;
    database.close().await;
    let keys = Keys::with_prefix(stores.redis.key_prefix.as_str());
    let limits = args.options.server.login_limits.of_all_codes();
    tell(redis::look(&store::redis(&redis_url, None)?, &keys, &limits).await)?;
    let sms = settings::of_gateway("SMS gateway", "SECKILL_SMS", &sms).await;
    let payments = settings::of_gateway("payment gateway", "SECKILL_PAYMENTS", &payments).await;
    let events = settings::of_gateway("receiver of events", "SECKILL_EVENTS", &events).await;
    tell(sms.into_iter().chain(payments).chain(events).collect())?;
    Ok(match worst {
        Level::Fine | Level::Note => ExitCode::SUCCESS,
        Level::Danger => ExitCode::from(FAILED),
        Level::Broken => ExitCode::from(UNUSABLE),
    })
}
