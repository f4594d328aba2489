//! `seckill play`: the server's own router, with what people who look and learn need mounted beside it, on
//! private stores.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use clap::Args;
use program::browser::opens;
use program::node::NodeOptions;
use program::sibling::Sibling;
use seckill::cli::gateways::{Gateways, Payments};
use seckill::cli::serve::{ReadyServer, ServerOptions};
use seckill::config::{
    BasePath, HomeArgs, MAX_BURST, RedisSettings, SecretArgs, ServerArgs, StoreArgs,
};
use seckill::http::address::reachable;
use seckill::http::{App, api, served};
use seckill::model::{Clock, SystemClock, UserId};
use seckill::orders::ASK_WITHIN;
use seckill::pages::{self, Asset, SCRIPT, STYLE, Site};
use seckill::store::users::{self, NOBODYS_PHONE};

use crate::login::{Demonstration, ShownSms};
use crate::page::{self, Player, PlayerOptions};
use crate::stage::{CrowdSender, ShowDirector, ShowSize, StageState};
use crate::{doors, hmdp, login, samples, shop, stage};

/// A file of this crate's `web/`.
macro_rules! web {
    ($name:literal, $content_type:expr) => {
        ($name, $content_type, include_bytes!(concat!("../web/", $name)).as_slice())
    };
}

const ASSETS: &[Asset] = &[
    web!("board_demo.js", SCRIPT),
    web!("doors.css", STYLE),
    web!("stage.js", SCRIPT),
    web!("stage_dots.js", SCRIPT),
    web!("stage_half.js", SCRIPT),
    web!("stage_plot.js", SCRIPT),
    web!("stage_sentence.js", SCRIPT),
    web!("stage_turn.js", SCRIPT),
    web!("stage.css", STYLE),
    web!("shop_place.js", SCRIPT),
    course::STYLE,
    course::SCRIPT,
    web!("lab.js", SCRIPT),
    web!("lab_file.js", SCRIPT),
    web!("lab_explored.js", SCRIPT),
    web!("lab_goal.js", SCRIPT),
    web!("lab_hints.js", SCRIPT),
    web!("lab_lanes.js", SCRIPT),
    web!("lab_replay.js", SCRIPT),
    web!("lab_schedule.js", SCRIPT),
    web!("lab_scrubber.js", SCRIPT),
    web!("lab_server.js", SCRIPT),
    web!("lab.css", STYLE),
];

/// The secret that is kept beside the private PostgreSQL.
const OWN_SECRET: SecretArgs = SecretArgs { secret: None, secret_previous: None };

/// Connections of a crowd: so few that the people who watch are answered in the middle of it. With 2,048
/// a busy machine showed them nothing until it was over.
const MAX_CONNECTIONS: usize = 256;

/// Watch a sale, break a design, buy something: the show, the shop, the board, the ladder
///
/// Everything runs on a private PostgreSQL and Redis of its own, whatever DATABASE_URL and REDIS_URL say.
/// Login codes are shown instead of being sent. For people who look and learn; never for a real sale.
#[derive(Debug, Args)]
pub struct PlayArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    home: HomeArgs,
    /// Open the first page in a browser
    #[arg(long)]
    open: bool,
    /// Buyers of a rush on the stage
    #[arg(long, hide = true, default_value_t = ShowSize::LARGEST,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(ShowSize::LARGEST)))]
    stage_users: u32,
    /// Seconds over which a slow crowd comes
    #[arg(long, hide = true, default_value_t = 30,
        value_parser = clap::value_parser!(u8).range(1..=60))]
    stage_seconds: u8,
    /// Begin with an empty shop
    #[arg(long, hide = true)]
    no_samples: bool,
    /// Stop when standard input ends, so that it does not outlive the process that started it
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

/// Runs the command.
///
/// # Errors
/// When a private server cannot be started, or the address not be listened at.
pub async fn run(args: PlayArgs) -> anyhow::Result<()> {
    let PlayArgs { mut server, mut home, open, no_samples, .. } = args;
    if home.data_dir.is_none() {
        // What people play with does not stand beside what `serve` keeps.
        home.data_dir = Some(home.directory()?.join("play"));
    }
    let has_demo_admin = server.listen.ip().is_loopback()
        && server.trusted_proxies.0.is_empty()
        && server.admin_phones.0.is_empty();
    if has_demo_admin {
        server.admin_phones.0.insert(NOBODYS_PHONE.to_owned());
    }
    // Its own pages name their addresses from the root.
    server.base_path = BasePath::default();
    // The crowds come from one address.
    server.connections_per_address = server.connections_per_address.max(MAX_BURST / 2);
    let (strategy, burst) = (server.strategy.as_str(), server.burst as usize);
    let options = ServerOptions {
        server,
        secret: OWN_SECRET,
        stores: StoreArgs {
            database_url: None,
            redis_url: None,
            redis: RedisSettings::default(),
            private_stores: true,
        },
        home,
    };
    let gateways = Gateways {
        sms: Some(Box::new(ShownSms)),
        payments: Payments::Sandbox,
        ask_within: ASK_WITHIN,
    };
    let ready = ReadyServer::prepare(options, gateways, args.until_stdin_closes).await?;
    let Some(ready) = ready else { return Ok(()) };
    if !ready.address.ip().is_loopback() {
        tracing::warn!(
            "this is a demonstration: all who reach {} can log in as any buyer, because the server \
             answers a request for a login code with the code",
            ready.address
        );
    }
    if !no_samples {
        samples::put_on_sale(ready.app.database.pool(), SystemClock.now()).await?;
    }
    let (player, player_thread) = Player::start(PlayerOptions::private())?;
    let admin = if has_demo_admin { Some(demo_admin(&ready).await?) } else { None };
    let size =
        ShowSize { users: args.stage_users, slow: Duration::from_secs(args.stage_seconds.into()) };
    let app = ready.app.clone();
    let stage =
        Arc::new(ShowDirector::new(app.clone(), crowd_sender(&ready, strategy, burst)?, size));
    let routes = routes(app, Arc::clone(&stage), player, admin);
    if open && !opens(&format!("http://{}/", reachable(ready.address))) {
        tracing::warn!("no browser could be opened: open the address yourself");
    }
    let shown = Arc::clone(&stage);
    let ended = ready.run(routes, move || shown.stop()).await;
    stage.close().await;
    player_thread.close().await;
    ended
}

fn crowd_sender(
    ready: &ReadyServer,
    strategy: &'static str,
    burst: usize,
) -> anyhow::Result<CrowdSender> {
    let stores = &ready.stores;
    let node = NodeOptions {
        database_url: stores.database_url.clone(),
        redis_url: stores.redis_url.clone(),
        key_prefix: stores.key_prefix.to_string(),
        secret: stores.secret(&OWN_SECRET)?,
        strategy,
        burst,
        connections: MAX_BURST,
        listen: None,
        admin_phone: None,
        has_sandbox: true,
    };
    Ok(CrowdSender {
        node,
        exe: Sibling::Lab.path()?,
        address: ready.address,
        // It leaves room for the people who watch, and for purchases of others.
        max_connections: (ready.limits.connections_of_a_peer / 2)
            .min(burst)
            .clamp(1, MAX_CONNECTIONS),
    })
}

/// The administrator whom nobody had to configure.
async fn demo_admin(ready: &ReadyServer) -> anyhow::Result<(&'static str, UserId)> {
    let pool = ready.app.database.pool();
    let admin = users::find_or_create(pool, NOBODYS_PHONE, "demo", SystemClock.now()).await?;
    Ok((NOBODYS_PHONE, admin.id))
}

/// What the pages of a demonstration share.
pub fn site() -> Site {
    Site::with(&doors::NAVIGATION, doors::SHOP, ASSETS)
}

/// The server's routes and those of the demonstration, as they are served.
fn routes(
    app: App,
    stage: Arc<ShowDirector>,
    player: Player,
    admin: Option<(&'static str, UserId)>,
) -> Router {
    let site = Arc::new(site());
    let pages = pages::beside(&app, &site)
        .merge(doors::routes(&site, stage.size()))
        .merge(shop::routes(&site, admin.map(|(phone, _)| phone)))
        .merge(stage::routes(StageState { app: app.clone(), stage }, &site))
        .merge(page::routes(player, &site));
    demonstrated(app, admin, pages)
}

/// The server's own routes in both dialects, as a demonstration with this administrator and these pages serves them.
pub fn demonstrated(app: App, admin: Option<(&'static str, UserId)>, pages: Router) -> Router {
    let demonstration = Demonstration { app: app.clone(), admin };
    let routes = api(app.clone())
        .merge(pages)
        .merge(hmdp::routes(demonstration.clone()))
        .layer(from_fn_with_state(demonstration, login::around));
    served(app, routes).layer(from_fn(hmdp::translate))
}
