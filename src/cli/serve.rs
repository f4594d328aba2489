//! `seckill serve`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
#[cfg(feature = "lab")]
use axum::Router;
use clap::Args;
use rand::RngExt;
use tokio::runtime::Runtime;

#[cfg(feature = "tools")]
use super::local_crowds::{CrowdSite, LocalCrowds};
use super::stop;
use super::stores::{Stores, secret_is_required};
use crate::config::{
    ConfigError, HomeArgs, MAX_BURST, SecretArgs, ServerArgs, SmsArgs, SmsSettings, StoreArgs,
};
use crate::http::auth::DEMO_ADMIN_PHONE;
use crate::http::crowd_sender::CrowdSender;
use crate::http::revocations::Revocations;
use crate::http::server::ServerLimits;
use crate::http::sms::{LogSms, SmsGateway, WebhookSms};
use crate::http::tokens::Tokens;
use crate::http::{App, AppParts, router_with, server};
use crate::model::{SharedClock, SystemClock};
use crate::pages;
#[cfg(feature = "lab")]
use crate::pages::lab::{self, Player, PlayerOptions, PlayerThread};
use crate::seckill::{Purchases, PurchasesOptions};
use crate::store::{Database, DatabaseDurability, Keys, MAX_INSTANCE, NodeName, Redis};
use crate::telemetry;

/// Files that are not connections of clients.
const OTHER_FILES: u64 = 128;
/// One connection in so many may be a stream of events.
const CONNECTIONS_PER_STREAM: usize = 4;
/// Connections at once, where the system allows that many open files.
const MAX_CONNECTIONS: u64 = MAX_BURST as u64;

/// Serve the HTTP API
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    sms: SmsArgs,
    #[command(flatten)]
    secret: SecretArgs,
    #[command(flatten)]
    stores: StoreArgs,
    #[command(flatten)]
    home: HomeArgs,
    /// Stop when standard input ends, so that no node outlives who started it
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

/// Runs the command.
///
/// # Errors
/// When a store cannot be reached at the start, or the address not be listened at.
pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    if args.stores.database_url.is_some() && args.secret.secret.is_none() {
        return Err(secret_is_required().into());
    }
    let settings = args.sms.settings(args.stores.database_url.is_none())?;
    let demo_admin = demo_admin(&args, &settings);
    let sms = sms_gateway(&settings)?;
    // First of all, so that an interrupt during the start is not lost.
    let stop = stop::requested(args.until_stdin_closes)?;
    telemetry::start_metrics();
    let http = connection_threads().context("cannot start the threads of the connections")?;
    let listener = {
        let _entered = http.enter();
        server::listen(args.server.listen)
    };
    let listener = listener.with_context(|| format!("cannot listen at {}", args.server.listen))?;
    let address = listener.local_addr()?;
    let stores = Stores::open(&args.stores, Some(&args.home)).await?;
    if let Some(private) = stores.private() {
        let whose = if stores.are_attached() { "another seckill's private" } else { "private" };
        tracing::info!("using {whose} {private}");
    }
    let secret = stores.secret(&args.secret)?;
    let node = NodeName { address, instance: rand::rng().random_range(0..=MAX_INSTANCE) };
    let database = stores.migrated_database_of(node).await?;
    if args.server.require_durable && database.durability() == DatabaseDurability::Unsafe {
        return Err(ConfigError(
            "the database runs with fsync or full_page_writes off: switch both on, or do without \
             --require-durable"
                .to_owned(),
        )
        .into());
    }
    database.watch_durability(args.server.require_durable);
    let limits = limits(&args.server)?;
    let shows_login_codes = stores.are_private() && matches!(settings, SmsSettings::Log);
    if shows_login_codes && !args.server.listen.ip().is_loopback() {
        tracing::warn!(
            "this is a demonstration: all who reach {address} can log in as any buyer, because the \
             server answers POST /api/login-codes with the code"
        );
    }
    let crowds = crowds(&args, &database, &secret, address, &limits)?;
    let mut parts = app_parts(&args.server, &stores, &secret, database, sms).await?;
    (parts.demo_admin, parts.crowds) = (demo_admin, crowds);
    parts.shows_login_codes = shows_login_codes;
    parts.max_event_streams = limits.connections.div_ceil(CONNECTIONS_PER_STREAM);
    let app = App::new(parts);

    // For who starts nodes and reads where they are; nobody else has to.
    let _ = super::say(format_args!("listening on http://{address}"));
    tracing::info!(
        "the shop is at http://{address}/, the board at /board, the API at /docs; Ctrl-C stops"
    );
    let stop = stopping(stop, args.server.drain_delay, app.clone());
    let pages = pages::routes(app.clone());
    #[cfg(feature = "lab")]
    let (pages, player) = with_ladder(pages, &stores)?;
    let routes = router_with(app.clone(), pages);
    let serving = server::serve(listener, routes, limits, stop);
    http.spawn(serving).await.context("the server failed on a defect")?;

    tracing::info!("stopping: finishing what was begun");
    #[cfg(feature = "lab")]
    if let Some(player) = player {
        player.close().await;
    }
    app.purchases.shutdown().await;
    app.revocations.stop();
    app.database.close().await;
    stores.close().await
}

/// The ladder beside the other pages: to be played only where the stores are the program's own,
/// which no production server's are. It has servers of its own, and only while somebody plays.
#[cfg(feature = "lab")]
fn with_ladder(pages: Router, stores: &Stores) -> anyhow::Result<(Router, Option<PlayerThread>)> {
    if !stores.are_private() {
        return Ok((pages.merge(lab::routes(None)), None));
    }
    let exe = std::env::current_exe().context("cannot find the program's own file")?;
    let (player, task) = Player::start(PlayerOptions::private(exe))?;
    Ok((pages.merge(lab::routes(Some(player))), Some(task)))
}

/// As many connections as the system allows files.
fn limits(args: &ServerArgs) -> anyhow::Result<ServerLimits> {
    let files = rlimit::increase_nofile_limit(u64::MAX)?;
    let connections = files.saturating_sub(OTHER_FILES).clamp(1, MAX_CONNECTIONS) as usize;
    Ok(ServerLimits {
        connections,
        connections_of_a_peer: (args.connections_per_address as usize).min(connections / 2),
        exempt: args.trusted_proxies.0.clone(),
    })
}

/// The administrator where nobody configured one: only of a server for demonstration, which keeps its
/// data in its own private stores, is reached from this machine alone, and sends its codes to the log.
fn demo_admin(args: &ServeArgs, sms: &SmsSettings<'_>) -> Option<&'static str> {
    let ServerArgs { listen, admin_phones, trusted_proxies, .. } = &args.server;
    let is_for_demonstration = has_private_stores(&args.stores)
        && listen.ip().is_loopback()
        && trusted_proxies.0.is_empty()
        && *sms == SmsSettings::Log;
    (is_for_demonstration && admin_phones.0.is_empty()).then_some(DEMO_ADMIN_PHONE)
}

fn has_private_stores(stores: &StoreArgs) -> bool {
    stores.database_url.is_none() && stores.redis_url.is_none()
}

/// What sends crowds at this server, where it has its own private stores.
#[cfg(feature = "tools")]
fn crowds(
    args: &ServeArgs,
    database: &Database,
    secret: &str,
    address: SocketAddr,
    limits: &ServerLimits,
) -> anyhow::Result<Option<Arc<dyn CrowdSender>>> {
    if !has_private_stores(&args.stores) {
        return Ok(None);
    }
    let site = CrowdSite {
        database: database.clone(),
        tokens: Tokens::new(secret.as_bytes(), Arc::new(SystemClock)),
        address,
        // It leaves room for the people who watch, and for purchases of others.
        max_connections: (limits.connections_of_a_peer / 2).min(args.server.burst as usize).max(1),
    };
    Ok(Some(Arc::new(LocalCrowds::new(site)?)))
}

#[cfg(not(feature = "tools"))]
fn crowds(
    _: &ServeArgs,
    _: &Database,
    _: &str,
    _: SocketAddr,
    _: &ServerLimits,
) -> anyhow::Result<Option<Arc<dyn CrowdSender>>> {
    Ok(None)
}

/// Readiness goes first. What has no end of its own is ended before the requests that were begun are
/// finished.
async fn stopping(stop: impl Future<Output = ()>, drain_delay: Duration, app: App) {
    stop.await;
    app.drain();
    if !drain_delay.is_zero() {
        tracing::info!("stopping: not ready from now on, and selling for another {drain_delay:?}");
        tokio::time::sleep(drain_delay).await;
    }
    app.events.close();
    if let Some(crowds) = &app.crowds {
        crowds.stop();
    }
}

/// Connections have threads of their own. On shared ones a purchase, which takes several turns, would
/// wait in each of them behind thousands of connections that are refused: five times the peak left a
/// hundredth of the goodput there, and two thirds here, with clients that ignore `Retry-After`.
///
/// They live as long as the process: a runtime must not be dropped by a task.
fn connection_threads() -> std::io::Result<&'static Runtime> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().thread_name("http").enable_all().build()?;
    Ok(Box::leak(Box::new(runtime)))
}

/// What sends login codes; `None`: nothing does.
fn sms_gateway(settings: &SmsSettings<'_>) -> anyhow::Result<Option<Box<dyn SmsGateway>>> {
    match settings {
        SmsSettings::Nothing => {
            tracing::warn!(
                "SECKILL_SMS is not set: nobody can log in, POST /api/login-codes answers 503 \
                 (set it to http, or to log for development)"
            );
            Ok(None)
        }
        SmsSettings::Log => Ok(Some(Box::new(LogSms))),
        SmsSettings::Http { url, secret } => {
            let sms = WebhookSms::new((*url).clone(), secret.as_bytes(), Arc::new(SystemClock));
            let sms = sms.context("no certificates of authorities for SECKILL_SMS_URL")?;
            Ok(Some(Box::new(sms)))
        }
    }
}

async fn app_parts(
    args: &ServerArgs,
    stores: &Stores,
    secret: &str,
    database: Database,
    sms: Option<Box<dyn SmsGateway>>,
) -> anyhow::Result<AppParts> {
    let redis = Redis::new(&stores.redis_url)?;
    // Says so in the log where Redis does not answer yet.
    let _ = redis.ping().await;
    let clock: SharedClock = Arc::new(SystemClock);
    let keys = Keys::default();
    let options = PurchasesOptions {
        strategy: args.strategy,
        burst: args.burst as usize,
        ..PurchasesOptions::default()
    };
    let purchases = Purchases::start(
        database.clone(),
        redis.clone(),
        keys.clone(),
        Arc::clone(&clock),
        options,
    )
    .await?;
    let revocations = Revocations::start(database.clone()).await?;
    Ok(AppParts {
        database,
        redis,
        keys,
        tokens: Tokens::new(secret.as_bytes(), Arc::clone(&clock)),
        revocations,
        clock,
        purchases,
        sms,
        shows_login_codes: false,
        max_event_streams: 0,
        login_limits: args.login_limits,
        admin_phones: args.admin_phones.0.clone(),
        trusted_proxies: args.trusted_proxies.0.clone(),
        demo_admin: None,
        crowds: None,
    })
}
