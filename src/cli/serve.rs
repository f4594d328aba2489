//! `seckill serve`.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use tokio::net::TcpListener;
use tokio::runtime::{Handle, Runtime};

use super::stop;
use super::stores::{Stores, secret_is_required};
use crate::config::{HomeArgs, MAX_BURST, SecretArgs, ServerArgs, StoreArgs};
use crate::http::auth::Tokens;
use crate::http::sms::LogSms;
use crate::http::{App, AppParts, HotPath, server};
use crate::model::{SharedClock, SystemClock};
use crate::seckill::{GateOptions, Purchases, PurchasesOptions};
use crate::store::{Database, Keys, Redis};
use crate::{load, telemetry};

/// Files that are not connections of clients.
const OTHER_FILES: u64 = 128;
/// Connections at once, where the system allows that many open files.
const MAX_CONNECTIONS: u64 = MAX_BURST as u64;

/// Serve the HTTP API
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    server: ServerArgs,
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
    // First of all, so that an interrupt during the start is not lost.
    let stop = stop::requested(args.until_stdin_closes)?;
    telemetry::start_metrics();
    let connections = Connections::new().context("cannot start the threads of the connections")?;
    let listener = connections
        .listen(args.server.listen)
        .with_context(|| format!("cannot listen at {}", args.server.listen))?;
    let address = listener.local_addr()?;
    let stores = Stores::open(&args.stores, Some(&args.home)).await?;
    if let Some(private) = stores.private() {
        let whose = if stores.are_attached() { "another seckill's private" } else { "private" };
        tracing::info!("using {whose} {private}");
    }
    let secret = stores.secret(&args.secret)?;
    let database = stores.migrated_database().await?;
    let app = app(&args.server, &stores, &secret, database, &connections.threads).await?;
    let files = load::raise_open_files_limit()?;
    let max_connections = files.saturating_sub(OTHER_FILES).clamp(1, MAX_CONNECTIONS);

    // For who starts nodes and reads where they are; nobody else has to.
    let _ = super::say(format_args!("listening on http://{address}"));
    tracing::info!("the API is described at http://{address}/docs; Ctrl-C stops");
    let service = HotPath::new(app.clone(), &connections.threads);
    let serving = server::serve(listener, service, max_connections as usize, stop);
    connections.threads.spawn(serving).await.context("the server failed on a defect")?;

    tracing::info!("stopping: finishing what was begun");
    app.purchases.shutdown().await;
    app.database.close().await;
    stores.close().await
}

/// After so many turns of its own a thread looks into the queue that all share. The answers of
/// purchases are there, because other threads bring them; new requests are in the thread's own, and
/// tokio would serve dozens of them first.
const SHARED_QUEUE_EVERY: u32 = 3;

/// The threads of the connections, which are not those of the purchases. Of ten thousand who are
/// refused each is served in turn; a purchase, which takes several turns, would come to nothing
/// among them.
struct Connections {
    threads: Handle,
    runtime: Option<Runtime>,
}

impl Connections {
    fn new() -> std::io::Result<Self> {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        let runtime = threads
            .thread_name("http")
            .enable_all()
            .global_queue_interval(SHARED_QUEUE_EVERY)
            .build()?;
        Ok(Self { threads: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Listens on behalf of these threads, which are to accept.
    fn listen(&self, address: SocketAddr) -> std::io::Result<TcpListener> {
        let _entered = self.threads.enter();
        server::listen(address)
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        // A runtime must not be dropped where others may not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn app(
    args: &ServerArgs,
    stores: &Stores,
    secret: &str,
    database: Database,
    connections: &Handle,
) -> anyhow::Result<App> {
    let redis = Redis::new(&stores.redis_url)?;
    if let Err(error) = redis.ping().await {
        tracing::warn!(%error, "Redis does not answer yet: buyers hear 503 until it does");
    }
    let clock: SharedClock = Arc::new(SystemClock);
    let keys = Keys::default();
    let burst = args.burst as usize;
    let usual = PurchasesOptions::default();
    let most = usual.gate.most.max(burst);
    let gate = GateOptions { burst, most, ..usual.gate };
    let options = PurchasesOptions {
        strategy: args.strategy,
        gate,
        max_in_line: most,
        connections: Some(connections.clone()),
        ..usual
    };
    let purchases = Purchases::start(
        database.clone(),
        redis.clone(),
        keys.clone(),
        Arc::clone(&clock),
        options,
    )
    .await?;
    Ok(App::new(AppParts {
        database,
        redis,
        keys,
        tokens: Tokens::new(secret.as_bytes(), Arc::clone(&clock)),
        clock,
        purchases,
        sms: Box::new(LogSms),
        admin_phones: args.admin_phones.0.clone(),
        trusted_proxies: args.trusted_proxies.0.clone(),
    }))
}
