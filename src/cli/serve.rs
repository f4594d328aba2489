//! `seckill serve`, and the same server for a program that adds routes of its own.

use std::future::Future;
use std::mem;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use clap::Args;
use rand::RngExt;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::gateways::{Gateways, Payments, event_receiver, sms_gateway};
use super::stores::{Stores, secret_is_required};
use crate::config::{
    self, ConfigError, EventArgs, GatewaySettings, HomeArgs, MAX_BURST, PaymentArgs, PhonePrefixes,
    SecretArgs, ServerArgs, SmsArgs, StoreArgs,
};
use crate::http::buyer_texts::{BuyerTexts, ToPhones};
use crate::http::health::Health;
use crate::http::revocations::Revocations;
use crate::http::server::ServerLimits;
use crate::http::tokens::Tokens;
use crate::http::unready;
use crate::http::webhook::SigningKey;
use crate::http::{self, App, AppParts, server};
use crate::model::{Currency, SharedClock, SystemClock};
use crate::orders::event_sender::{EventReceiver, EventSender};
use crate::orders::outbox::Outbox;
use crate::orders::{Orders, PaymentGateway};
use crate::pages::sandbox::SandboxGateway;
use crate::pages::{self, Site};
use crate::purchase::{Purchases, PurchasesOptions};
use crate::store::{self, Database, DatabaseDurability, Keys, MAX_INSTANCE, NodeName, Redis};
use crate::telemetry;
use crate::worker::Worker;

/// Files that are not connections of clients.
const OTHER_FILES: u64 = 128;
/// Connections beyond the limit, for probes: each for one request.
const RESERVED_CONNECTIONS: usize = 64;
/// One connection in so many may be a stream of events.
const CONNECTIONS_PER_STREAM: usize = 4;
/// Connections at once, where the system allows that many open files.
const MAX_CONNECTIONS: u64 = MAX_BURST as u64;

/// What a server is started with, beside its gateways.
#[derive(Debug, Args)]
#[allow(missing_docs)] // the types say it
pub struct ServerOptions {
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub secret: SecretArgs,
    #[command(flatten)]
    pub stores: StoreArgs,
    #[command(flatten)]
    pub home: HomeArgs,
}

/// What `serve` is configured by.
#[derive(Debug, Args)]
#[allow(missing_docs)] // the types say it
pub struct Configuration {
    #[command(flatten)]
    pub sms: SmsArgs,
    #[command(flatten)]
    pub payments: PaymentArgs,
    #[command(flatten)]
    pub events: EventArgs,
    #[command(flatten)]
    pub options: ServerOptions,
}

impl Configuration {
    /// What sends login codes, what takes payments, and what is told of events.
    ///
    /// # Errors
    /// What `serve` refuses before it starts anything.
    pub fn checked(&self) -> Result<[GatewaySettings<'_>; 3], ConfigError> {
        let ServerOptions { secret, stores, .. } = &self.options;
        let is_private = stores.database_url.is_none();
        if !is_private && secret.secret.is_none() {
            return Err(secret_is_required());
        }
        stores.named_redis()?;
        stores.may_be_private()?;
        let sms = self.sms.settings(is_private)?;
        Ok([sms, self.payments.settings(is_private)?, self.events.settings()?])
    }
}

/// Serve the HTTP API
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    configuration: Configuration,
    /// Stop when standard input ends, so that no node outlives the program that started it
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

/// Runs the command.
pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let ServeArgs { configuration: args, until_stdin_closes } = args;
    let settings = args.checked()?;
    let is_private = args.options.stores.database_url.is_none();
    let [sms, payments, events] = &settings;
    let schemes = &args.payments.payments_schemes;
    let gateways = Gateways {
        sms: sms_gateway(sms)?,
        payments: Payments::with(payments, schemes, is_private)?,
        occasions: args.sms.sms_tell.clone(),
        ask_within: args.payments.payments_ask_within,
        events: event_receiver(events)?,
    };
    let costs_money = matches!(sms, GatewaySettings::Http { .. });
    let has_http = settings.iter().any(|one| matches!(one, GatewaySettings::Http { .. }));
    let has_development = settings.contains(&GatewaySettings::Development);
    if let (true, Some(name)) = (has_http, config::proxy_variable()) {
        tracing::warn!(
            "{name} is set and not used: login codes, payments and events go to their gateways directly"
        );
    }
    let mut options = args.options;
    if costs_money && options.server.sms_countries.is_none() {
        let countries = options.server.sms_countries.insert(PhonePrefixes::china());
        tracing::info!(
            "login codes are sent to phones of {countries} alone (SECKILL_SMS_COUNTRIES)"
        );
    }
    let ready = ReadyServer::prepare(options, gateways, until_stdin_closes).await?;
    let Some(ready) = ready else { return Ok(()) };
    let app = ready.app.clone();
    if is_private && has_development && !ready.address.ip().is_loopback() {
        tracing::error!(
            "this server is for development, and listens at {} for everybody: strangers say themselves that they have \
             paid, or login codes stand in the log (set SECKILL_PAYMENTS and SECKILL_SMS to http, or listen at 127.0.0.1)",
            ready.address
        );
    }
    let site = Site::of(&app.settings);
    let routes = http::api(app.clone()).merge(pages::routes(&app, &Arc::new(site)));
    ready.run(http::served(app, routes), || ()).await
}

/// A server that listens and answers nobody yet.
#[allow(missing_debug_implementations)] // what stops it has none
#[allow(missing_docs)] // the names and types say it
pub struct ReadyServer {
    pub app: App,
    /// Where it listens.
    pub address: SocketAddr,
    pub limits: ServerLimits,
    pub stores: Stores,
    tellers: Tellers,
    listener: TcpListener,
    http: &'static Runtime,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Whether it was said where it listens.
    is_announced: bool,
}

impl ReadyServer {
    /// Starts private stores where none are named, listens, and migrates. While the database cannot be reached it
    /// answers that it is not ready. `None` when it was asked to stop meanwhile, which the end of standard input also
    /// does `until_stdin_closes`.
    pub async fn prepare(
        options: ServerOptions,
        mut gateways: Gateways,
        until_stdin_closes: bool,
    ) -> anyhow::Result<Option<Self>> {
        let ServerOptions { server: args, secret, stores, home } = options;
        // First of all, so that an interrupt during the start is not lost.
        let mut stop = Box::pin(program::stop::requested(until_stdin_closes)?);
        telemetry::start_metrics();
        let http =
            server::connection_threads().context("cannot start the threads of the connections")?;
        let listener = {
            let _entered = http.enter();
            server::listen(args.listen)
        };
        let listener = listener.with_context(|| format!("cannot listen at {}", args.listen))?;
        let address = listener.local_addr()?;
        let stores = Stores::open(&stores, Some(&home)).await?;
        if let Some(private) = stores.private() {
            tracing::info!("using {private}");
        }
        let secrets = (stores.secret(&secret)?, secret.secret_previous);
        let redis = stores.redis()?;
        tokio::spawn(store::say_what_redis_refuses(redis.clone()));
        let host = nix::unistd::gethostname().unwrap_or_default();
        let instance = rand::rng().random_range(0..=MAX_INSTANCE);
        let node = NodeName::new(address, &host.to_string_lossy(), instance);
        let mut unready = None;
        let waiting = || {
            unready.get_or_insert_with(|| {
                announce(address);
                unready::answer_unready(http, &listener, redis.clone(), args.base_path.clone())
            });
        };
        let database = tokio::select! {
            database = stores.migrated_database_of(node, waiting) => database?,
            () = &mut stop => return stores.close().await.map(|()| None),
        };
        let is_announced = unready.is_some();
        drop(unready);
        if args.require_durable && database.durability() == DatabaseDurability::Unsafe {
            let what = "the database runs with fsync or full_page_writes off: switch both on, or do \
                        without --require-durable";
            anyhow::bail!(ConfigError(what.to_owned()));
        }
        database.watch_durability(args.require_durable);
        // Otherwise `voucher add` would fail as if by a defect. If the role may not read the sequences,
        // doctor says so.
        for lagging in database.lagging_sequences().await.unwrap_or_default() {
            tracing::warn!("{lagging}: the next ids are taken. Run seckill migrate as their owner");
        }
        let tellers = Tellers::of(&mut gateways, &database, &args.currency);
        if !tellers.events.is_empty() && store::has_distributed_orders(database.pool()).await? {
            let what = "the data is distributed over Citus, where events of several vouchers have no common order: do \
                        without SECKILL_EVENTS_URL and SECKILL_SMS_TELL";
            anyhow::bail!(ConfigError(what.to_owned()));
        }
        let limits = limits(&args)?;
        let handles = (database, redis);
        let event_streams = limits.connections.div_ceil(CONNECTIONS_PER_STREAM);
        let app =
            App::new(app_parts(args, &stores, secrets, handles, gateways, event_streams).await?);
        Ok(Some(Self { app, address, limits, stores, tellers, listener, http, stop, is_announced }))
    }

    /// Serves `routes` until the program is asked to stop, and stops in good order. `stopping` is called before the
    /// requests that were begun are finished.
    pub async fn run(
        self,
        routes: Router,
        stopping: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<()> {
        let Self { app, address, limits, stores, tellers, listener, http, stop, is_announced } =
            self;
        if !is_announced {
            announce(address);
        }
        let base = app.settings.base_path.below_root().unwrap_or_default();
        tracing::info!(
            "open http://{address}{base}/ in a browser; the board is at {base}/board, the API at {base}/docs; Ctrl-C stops"
        );
        let stop = drained(stop, app.clone(), stopping);
        let workers = (app.orders.start_workers(), tellers.start());
        let serving = server::serve(listener, routes, limits, stop);
        http.spawn(serving).await.context("the server failed on a defect")?;

        tracing::info!("stopping: finishing what was begun");
        drop(workers);
        app.purchases.shutdown().await;
        app.revocations.stop();
        app.health.stop();
        app.database.close().await;
        stores.close().await
    }
}

/// The workers that send events to programs, and texts to buyers.
struct Tellers {
    events: Vec<EventSender>,
    texts: Option<Outbox<ToPhones>>,
}

impl Tellers {
    fn of(gateways: &mut Gateways, database: &Database, currency: &Currency) -> Self {
        let programs = gateways.events.take();
        let occasions = mem::take(&mut gateways.occasions);
        let sms = gateways.sms.clone().filter(|_| !occasions.0.is_empty());
        let buyers = sms.is_some().then(|| {
            Box::new(BuyerTexts { database: database.clone(), occasions }) as Box<dyn EventReceiver>
        });
        let send = |receiver| EventSender::new(database.clone(), receiver);
        let texts = sms.map(|sms| {
            let phones = ToPhones { database: database.clone(), sms, currency: currency.clone() };
            Outbox::new(database.clone(), phones)
        });
        Self { events: programs.into_iter().chain(buyers).map(send).collect(), texts }
    }

    fn start(self) -> Vec<Worker> {
        let events = self.events.into_iter().map(EventSender::start);
        events.chain(self.texts.map(Outbox::start)).collect()
    }
}

/// For the program that starts nodes and reads where they are; nobody else has to.
fn announce(address: SocketAddr) {
    let _ = program::say(format_args!("listening on http://{address}"));
}

/// As many connections as the system allows files.
fn limits(args: &ServerArgs) -> anyhow::Result<ServerLimits> {
    let files = rlimit::increase_nofile_limit(u64::MAX)?;
    let others = OTHER_FILES + RESERVED_CONNECTIONS as u64;
    let connections = files.saturating_sub(others).clamp(1, MAX_CONNECTIONS) as usize;
    Ok(ServerLimits {
        connections,
        connections_of_a_peer: (args.connections_per_address as usize).min(connections / 2).max(1),
        exempt: args.trusted_proxies.0.clone(),
        reserve: RESERVED_CONNECTIONS,
        idle: args.keep_alive,
    })
}

/// Resolves when the server is to accept no more: first it is not ready any more, then it sells for
/// its drain delay, then the streams of events end, which have no end of their own.
async fn drained(stop: impl Future<Output = ()>, app: App, stopping: impl FnOnce()) {
    stop.await;
    app.drain();
    let drain_delay = app.settings.drain_delay;
    if !drain_delay.is_zero() {
        tracing::info!("stopping: not ready from now on, and selling for another {drain_delay:?}");
        tokio::time::sleep(drain_delay).await;
    }
    app.memory().events.close();
    stopping();
}

async fn app_parts(
    settings: ServerArgs,
    stores: &Stores,
    (secret, previous): (String, Option<String>),
    (database, redis): (Database, Redis),
    gateways: Gateways,
    event_streams: usize,
) -> anyhow::Result<AppParts> {
    let previous = previous.as_deref().map(str::as_bytes);
    let clock: SharedClock = Arc::new(SystemClock);
    let keys = Keys::with_prefix(stores.key_prefix.as_str());
    let options = PurchasesOptions::from(&settings);
    let purchases = Purchases::start(
        database.clone(),
        redis.clone(),
        keys.clone(),
        Arc::clone(&clock),
        options,
    )
    .await?;
    let revocations = Revocations::start(database.clone(), purchases.clock().clone()).await?;
    let health = Health::start(database.clone(), redis.clone(), keys.clone()).await;
    let has_sandbox = matches!(gateways.payments, Payments::Sandbox);
    let (gateway, payment_key): (Option<Arc<dyn PaymentGateway>>, _) = match gateways.payments {
        Payments::Nothing => (None, None),
        Payments::Sandbox => {
            let sandbox = SandboxGateway { redis: redis.clone(), keys: keys.clone() };
            (Some(Arc::new(sandbox)), Some(SigningKey::new(secret.as_bytes()).or(previous)))
        }
        Payments::Http(gateway, key) => (Some(gateway), Some(key)),
    };
    Ok(AppParts {
        orders: Orders::new(database.clone(), Arc::clone(&purchases), gateway, gateways.ask_within),
        payment_key,
        has_sandbox,
        database,
        redis,
        keys,
        tokens: Tokens::new(secret.as_bytes(), purchases.clock().clone()).or(previous),
        revocations,
        health,
        clock,
        purchases,
        sms: gateways.sms,
        event_streams,
        settings,
    })
}
