//! `seckill demo`: the main job end to end, on real processes and real servers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use futures_util::future::try_join_all;
use rand::RngExt;

use super::demo_board::{self, BoardArgs};
use super::demo_report;
use super::demo_sales::{self, DemoSale};
use super::verdict::{DemoVerdict, Terms};
use super::{DEMO_ADMIN_PHONE, progress, tokens};
use crate::node::{Node, NodeOptions};
use load::crowd::{CrowdPlan, CrowdReport};
use load::crowd_process;
use load::rush::MAX_REQUESTS;
use program::FAILED;
use program::sibling::Sibling;
use program::write_json;
use seckill::cli::stores::{Stores, fresh_secret};
use seckill::config::{ConfigError, MAX_BURST, StoreArgs};
use seckill::http::tokens::Tokens;
use seckill::model::SystemClock;
use seckill::purchase::{DEFAULT_BURST, Strategy};
use seckill::store::Database;

/// Connections of the crowd; more attempts than this share them.
const MAX_CONNECTIONS: usize = 8_192;
/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long the whole rush may take.
const RUSH_WITHIN: Duration = Duration::from_secs(600);

/// Sell out: real server processes, a real crowd, and a verdict from the database
///
/// Starts N server processes, which expect the whole crowd in one burst, puts a voucher on sale, or
/// several, lets every user try at once over HTTP through all nodes, and audits the database. Exit
/// status 0 only when every promise was kept.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Stock of each voucher
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(0..=1_000_000))]
    stock: i32,
    /// Vouchers on sale at the same time, each with --stock; the buyers are spread evenly over them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    vouchers: u32,
    /// Buyers in all, each of whom wants one voucher
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    users: u32,
    /// How often each buyer tries, all at once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,
    /// Server processes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    nodes: u32,
    /// How to sell: locked, group-commit or group-commit-unlocked
    #[arg(long, env = "SECKILL_STRATEGY", value_name = "NAME", default_value_t)]
    strategy: Strategy,
    /// Write the result as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    board: BoardArgs,
    #[command(flatten)]
    stores: StoreArgs,
}

/// A demo whose verdict is there.
struct JudgedDemo {
    verdict: DemoVerdict,
    /// The node that serves the board.
    board: Option<Node>,
    database: Database,
    stores: Stores,
}

/// Runs the command.
///
/// # Errors
/// When it could not be carried out; a broken promise is an exit status.
pub async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let requests = u64::from(args.users) * u64::from(args.attempts);
    if requests > MAX_REQUESTS as u64 {
        return Err(ConfigError(format!(
            "{} users with {} attempts each are {requests} attempts; at most {MAX_REQUESTS} are sent",
            args.users, args.attempts
        ))
        .into());
    }
    if args.users < args.vouchers {
        return Err(ConfigError(format!(
            "{} users cannot buy {} vouchers: there must be a buyer for each",
            args.users, args.vouchers
        ))
        .into());
    }
    args.board.check()?;
    let done = tokio::select! {
        done = demo(&args) => done,
        // All that runs is stopped by being dropped, and the servers by their supervisor.
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            bail!("interrupted: everything that was started is being stopped");
        }
    };
    let JudgedDemo { verdict, board, database, stores } = done?;
    demo_report::print(&verdict);
    let sentence = demo_report::sentence(&verdict);
    // Standard output is the JSON's alone when it goes there.
    if args.json.as_deref() == Some(Path::new("-")) {
        eprintln!("{sentence}");
    } else {
        program::say(sentence)?;
    }
    if let Some(path) = &args.json {
        write_json(path, &verdict)?;
    }
    if let Some(board) = board {
        eprintln!("The board stays until you press Ctrl-C.");
        tokio::signal::ctrl_c().await?;
        board.stop().await?;
    }
    database.close().await;
    stores.close().await?;
    Ok(if verdict.holds { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

async fn demo(args: &DemoArgs) -> anyhow::Result<JudgedDemo> {
    let begun = tokio::time::Instant::now();
    let on_sale = match args.vouchers {
        1 => format!("{} vouchers", args.stock),
        many => format!("{many} vouchers with a stock of {} each", args.stock),
    };
    eprintln!(
        "On sale: {on_sale}. Buyers: {}, each trying {} times at once. Nodes: {}. Strategy: {}.",
        args.users, args.attempts, args.nodes, args.strategy
    );
    let stores = Stores::open(&args.stores, None).await?;
    let database = stores.migrated_database().await?;
    eprintln!("{} ({:.1} s)", versions(&database, &stores).await?, begun.elapsed().as_secs_f64());

    let secret = fresh_secret();
    let tokens = Tokens::new(secret.as_bytes(), Arc::new(SystemClock));
    let buyers = tokens::mint(&database, &tokens, None, args.users).await?;
    let address = args.board.address();
    let begins_in = address.map_or(Duration::ZERO, |_| demo_board::BEGINS_IN);
    let sales = demo_sales::open(&database, args.vouchers, args.stock, begins_in, &buyers).await?;
    let begins_at = tokio::time::Instant::now() + begins_in;

    // Everybody comes at once, which is what is shown, and nobody comes again.
    let options = NodeOptions {
        database_url: &stores.database_url,
        redis_url: &stores.redis_url,
        secret: &secret,
        strategy: args.strategy.as_str(),
        burst: (args.users as usize * args.attempts as usize)
            .clamp(DEFAULT_BURST, MAX_BURST as usize),
        listen: None,
        admin_phone: address.map(|_| DEMO_ADMIN_PHONE),
    };
    // The first one serves the board, where there is one.
    let start = |position| {
        Node::start(NodeOptions { listen: address.filter(|_| position == 0), ..options })
    };
    let starting = (0..args.nodes).map(start);
    let mut nodes = try_join_all(starting).await?;
    for (position, node) in nodes.iter().enumerate() {
        let pid = node.pid().unwrap_or_default();
        eprintln!("Node {}: process {pid} at http://{}", position + 1, node.address);
    }
    if address.is_some() {
        let token = demo_board::admin_token(&database, &tokens).await?;
        args.board.show(nodes[0].address, sales[0].voucher.id, &token);
        tokio::time::sleep_until(begins_at).await;
    }
    let crowd = send_crowd(plan(args, &nodes, &sales)).await?;
    // Stopped before the books are read: what they began is finished then. The node with the board goes
    // on; it has answered every attempt, or finished it while the crowd waited for the answer.
    let board = address.map(|_| nodes.remove(0));
    try_join_all(nodes.into_iter().map(Node::stop)).await?;

    let vouchers = demo_sales::judge(&database, &sales, &crowd).await?;
    let terms = Terms {
        attempts: args.attempts as usize,
        nodes: args.nodes as usize,
        strategy: args.strategy.as_str(),
    };
    let verdict = DemoVerdict::new(terms, vouchers, crowd);
    Ok(JudgedDemo { verdict, board, database, stores })
}

async fn versions(database: &Database, stores: &Stores) -> anyhow::Result<String> {
    let postgres: String =
        sqlx::query_scalar("show server_version").fetch_one(database.pool()).await?;
    let durable: String = sqlx::query_scalar("show fsync").fetch_one(database.pool()).await?;
    let redis = redisson_lock::connection::Redis::new(&stores.redis_url)?;
    let info: String = redis.query(redis::cmd("INFO").arg("server")).await?;
    let redis = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    let redis = redis.unwrap_or("of unknown version").trim();
    let private = stores
        .private()
        .map_or_else(String::new, |private| format!("; private and for this run alone: {private}"));
    let postgres = postgres.split(' ').next().unwrap_or_default();
    Ok(format!("PostgreSQL {postgres} (fsync {durable}), Redis {redis}{private}."))
}

fn plan(args: &DemoArgs, nodes: &[Node], sales: &[DemoSale<'_>]) -> CrowdPlan {
    CrowdPlan {
        nodes: nodes.iter().map(|node| node.address).collect(),
        path: Arc::clone(&sales[0].path),
        buyers: sales.iter().flat_map(DemoSale::crowd).collect(),
        attempts: args.attempts as usize,
        max_connections: MAX_CONNECTIONS,
        seed: rand::rng().random(),
        answer_timeout_ms: ANSWER_WITHIN.as_millis() as u64,
        total_timeout_ms: RUSH_WITHIN.as_millis() as u64,
    }
}

/// Lets a process of its own send the crowd, and shows how far it is.
async fn send_crowd(plan: CrowdPlan) -> anyhow::Result<CrowdReport> {
    let exe = Sibling::Tools.path()?;
    let bar = progress::of_attempts("The rush", plan.total());
    let report = crowd_process::send(&exe, &plan, |done| bar.set_position(done)).await;
    bar.finish_and_clear();
    Ok(report?)
}
