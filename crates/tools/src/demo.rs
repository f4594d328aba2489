//! `seckill demo`: the main job end to end, on real processes and real servers.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::future::try_join_all;
use rand::RngExt;
use tempfile::TempPath;

use super::demo_against::{self, Against, CrowdSize};
use super::demo_board::{self, BoardArgs};
use super::demo_draw::{self, DrawFigures};
use super::demo_report;
use super::demo_sales::{self, DemoSale, Offer};
use super::demo_share::{self, Buyers};
use super::demo_waves::{self, Waves};
use super::tokens;
use super::verdict::{DemoVerdict, Terms, VoucherVerdict, WaveFigures};
use load::crowd::{CrowdPlan, CrowdReport};
use load::crowd_process;
use load::rush::MAX_REQUESTS;
use program::node::{Node, NodeOptions};
use program::sibling::Sibling;
use program::{FAILED, Interrupted, OutputFile, progress, say_beside};
use seckill::cli::stores::{Stores, fresh_secret};
use seckill::config::{ConfigError, MAX_BURST, StoreArgs};
use seckill::http::tokens::Tokens;
use seckill::model::SystemClock;
use seckill::purchase::{DEFAULT_BURST, Strategy};
use seckill::store::Database;
use seckill::store::users::NOBODYS_PHONE;

/// Connections of the crowd; more attempts than this share them.
const MAX_CONNECTIONS: usize = 8_192;
/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long the whole rush may take.
const RUSH_WITHIN: Duration = Duration::from_secs(600);

/// Sell out: real server processes, a real crowd, and a verdict from the database
///
/// Starts N server processes, which expect the whole crowd in one burst, puts a voucher on sale, or
/// several, lets every user try at once over HTTP through all nodes, and audits the database. With
/// --pay the vouchers cost something: what is not paid in a few seconds is sold again, until all is
/// paid for. Exit status 0 only when every promise was kept.
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
    /// The vouchers cost something, and this share of the buyers pays: 0.7, at most 1. Unpaid orders
    /// expire, and buyers without an order come again in waves, until every voucher is paid for
    #[arg(long, value_name = "SHARE", value_parser = demo_share::parse)]
    pay: Option<f64>,
    /// Afterwards the same crowd meets this design of the ladder (r01), sold by two processes of the lab.
    /// The verdicts stand side by side; the exit status is that of the sale itself
    #[arg(long, value_name = "RUNG", conflicts_with = "pay")]
    against: Option<String>,
    /// Two vouchers: whoever comes first gets the one, the other one is drawn. Every buyer wants both and tries once, one
    /// in ten after 1 ms, the others after 50 to 300 ms. Shows who gets them, and tests whether the draw is fair
    #[arg(long, conflicts_with_all = ["vouchers", "attempts", "pay", "against"])]
    draw: bool,
    /// Write the result as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
    #[command(flatten)]
    board: BoardArgs,
    #[command(flatten)]
    stores: StoreArgs,
}

impl DemoArgs {
    /// Of each buyer, at each voucher.
    fn attempts(&self) -> u32 {
        if self.draw { 1 } else { self.attempts }
    }

    fn requests(&self) -> u64 {
        u64::from(self.users) * u64::from(self.attempts())
    }

    /// How long a buyer has to pay.
    fn pay_within(&self) -> Duration {
        let orders = u64::from(self.stock.unsigned_abs()) * u64::from(self.vouchers);
        demo_share::pay_within(self.requests(), orders)
    }
}

/// A demo whose verdict is there.
struct JudgedDemo {
    verdict: DemoVerdict,
    /// The node that serves the board, and the page that leads there.
    board: Option<(Node, Option<TempPath>)>,
    database: Database,
    stores: Stores,
}

/// Runs the command.
///
/// # Errors
/// When it could not be carried out; a broken promise is an exit status.
pub async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let requests = args.requests();
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
    if args.against.is_some() && args.vouchers > 1 {
        return Err(
            ConfigError("--against has one voucher: leave --vouchers out".to_owned()).into()
        );
    }
    if args.draw {
        demo_draw::check(args.users, args.stock)?;
    }
    args.board.check()?;
    announce(&args)?;
    let mut stop = std::pin::pin!(program::stop::requested(false)?);
    let done = tokio::select! {
        done = demo(&args) => done,
        // All that runs is stopped by being dropped, and the servers by their supervisor.
        () = &mut stop => return Err(Interrupted("everything that was started is being stopped").into()),
    };
    let JudgedDemo { verdict, board, database, stores } = done?;
    demo_report::print(&verdict);
    let sentence = demo_report::sentence(&verdict);
    let against = verdict.against.as_ref().map(Against::sentence);
    let draw = verdict.draw.as_ref().map(demo_report::sentence_of_draw);
    for sentence in [Some(sentence), against, draw].into_iter().flatten() {
        say_beside(&args.json, sentence)?;
    }
    if let Some(file) = &args.json {
        file.write_json(&verdict)?;
    }
    if let Some((board, _page)) = board {
        eprintln!("The board stays until you press Ctrl-C.");
        stop.await;
        board.stop().await?;
    }
    database.close().await;
    stores.close().await?;
    Ok(if verdict.crowd.holds { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Says what is to come.
///
/// # Errors
/// When it could not end.
fn announce(args: &DemoArgs) -> Result<(), ConfigError> {
    let DemoArgs { stock, vouchers, users, attempts, nodes, strategy, pay, .. } = args;
    let each = match args.draw {
        true => format!(
            "each trying once, one in ten after {} ms, the others after {} to {} ms",
            demo_draw::FAST_MS,
            demo_draw::SLOW_MS.start(),
            demo_draw::SLOW_MS.end()
        ),
        false => format!("each trying {attempts} times at once"),
    };
    let on_sale = match vouchers {
        _ if args.draw => {
            format!("{stock} vouchers for whoever comes first, and {stock} by a draw")
        }
        1 => format!("{stock} vouchers"),
        many => format!("{many} vouchers with a stock of {stock} each"),
    };
    let payment = match pay {
        None => String::new(),
        Some(share) => {
            // Of some vouchers one has a buyer more.
            let buyers = Buyers { users: (users / vouchers) as usize, share: *share };
            let within = args.pay_within();
            let lasts = buyers.check(stock.unsigned_abs() as usize, within)?.as_secs();
            let (price, within) = (demo_sales::PRICE as f64 / 100.0, within.as_secs());
            format!(
                "\nPrice: {price:.2}. Share of the buyers that pays: {share}. Time to pay: {within} s. \
                 Until all is paid for: about {lasts} s."
            )
        }
    };
    eprintln!(
        "On sale: {on_sale}. Buyers: {users}, {each}. Nodes: {nodes}. \
         Strategy: {strategy}.{payment}"
    );
    Ok(())
}

async fn demo(args: &DemoArgs) -> anyhow::Result<JudgedDemo> {
    let begun = tokio::time::Instant::now();
    // First of all: a name that is none costs nobody a sale.
    let rung = match &args.against {
        Some(name) => Some(demo_against::rung(name).await?),
        None => None,
    };
    let stores = Stores::open(&args.stores, None).await?;
    let database = stores.migrated_database().await?;
    eprintln!(
        "{} ({:.1} s)",
        demo_report::versions(&database, &stores).await?,
        begun.elapsed().as_secs_f64()
    );

    let secret = fresh_secret();
    let tokens = Tokens::new(secret.as_bytes(), Arc::new(SystemClock));
    let buyers = tokens::mint(&database, &tokens, None, args.users).await?;
    let address = args.board.address();
    let begins_in = address.map_or(Duration::ZERO, |_| demo_board::BEGINS_IN);
    let offer = Offer {
        count: args.vouchers as usize,
        stock: args.stock,
        begins_in,
        pay_within: args.pay.map(|_| args.pay_within()),
        draw_after: None,
    };
    let sales = demo_sales::open(&database, offer, &buyers).await?;
    let mut begins_at = tokio::time::Instant::now() + begins_in;

    let mut nodes = start_nodes(args.nodes, address, node_options(args, &stores, secret)).await?;
    let mut drawn = Vec::new();
    if args.draw {
        // Its entries close soon: only now.
        let offer = Offer { draw_after: Some(demo_draw::entries_for(buyers.len())), ..offer };
        drawn = demo_sales::open(&database, offer, &buyers).await?;
        begins_at = tokio::time::Instant::now() + begins_in;
    }
    let mut opened = None;
    if address.is_some() {
        let token = demo_board::admin_token(&database, &tokens).await?;
        let shown = drawn.first().unwrap_or(&sales[0]).voucher.id;
        opened = args.board.show(nodes[0].address, shown, &token)?;
        tokio::time::sleep_until(begins_at).await;
    }
    let seed = rand::rng().random();
    let addresses = nodes.iter().map(|node| node.address).collect();
    let plan = crowd_plan(args, addresses, Arc::clone(&sales[0].path), seed);
    let sold = sell(args, &database, &plan, &sales, drawn.first()).await?;
    // Stopped before the books are read: what they began is finished then. The node with the board goes
    // on; it has answered every attempt, or finished it while the crowd waited for the answer.
    let board = address.map(|_| (nodes.remove(0), opened));
    try_join_all(nodes.into_iter().map(Node::stop)).await?;

    let mut vouchers = match &sold.waves {
        None => demo_sales::judge(&database, &sales, &sold.crowd).await?,
        Some((waves, _)) => demo_waves::judge(&database, &waves.sales).await?,
    };
    let terms = Terms {
        attempts: args.attempts() as usize,
        nodes: args.nodes as usize,
        strategy: args.strategy.as_str(),
        pay: args.pay,
    };
    let waves = sold.waves.map(|(_, figures)| figures);
    let (of_draw, draw) = sold.drawn.unzip();
    vouchers.extend(of_draw);
    let mut verdict = DemoVerdict { draw, ..DemoVerdict::new(terms, vouchers, &sold.crowd, waves) };
    if let Some(rung) = rung {
        eprintln!("The same crowd at {rung}: {} attempts", args.requests());
        let DemoArgs { users, attempts, stock, .. } = *args;
        let crowd = CrowdSize { users, attempts, stock, seed };
        let stores = (&*stores.database_url, &*stores.redis_url);
        verdict.against = Some(Against::meet(rung, crowd, stores).await);
    }
    Ok(JudgedDemo { verdict, board, database, stores })
}

/// All but where a node listens.
fn node_options(args: &DemoArgs, stores: &Stores, secret: String) -> NodeOptions {
    NodeOptions {
        database_url: stores.database_url.clone(),
        redis_url: stores.redis_url.clone(),
        key_prefix: stores.key_prefix.to_string(),
        secret,
        strategy: args.strategy.as_str(),
        // Everybody comes at once, which is what is shown, and nobody comes again.
        burst: (args.requests() as usize).clamp(DEFAULT_BURST, MAX_BURST as usize),
        connections: MAX_BURST,
        listen: None,
        admin_phone: args.board.address().map(|_| NOBODYS_PHONE),
        has_sandbox: args.pay.is_some(),
    }
}

/// Starts the nodes. The first one listens at `address`, where there is one, and serves the board.
async fn start_nodes(
    count: u32,
    address: Option<SocketAddr>,
    options: NodeOptions,
) -> anyhow::Result<Vec<Node>> {
    let start = |position| {
        Node::start(NodeOptions { listen: address.filter(|_| position == 0), ..options.clone() })
    };
    let nodes = try_join_all((0..count).map(start)).await?;
    for (position, node) in nodes.iter().enumerate() {
        let pid = node.pid().unwrap_or_default();
        eprintln!("Node {}: process {pid} at http://{}", position + 1, node.address);
    }
    Ok(nodes)
}

/// What the crowd was told.
struct Sold<'a> {
    /// Of purchases. The rates and latencies are those of the first wave.
    crowd: CrowdReport,
    /// Where vouchers cost something.
    waves: Option<(Waves<'a>, WaveFigures)>,
    /// Where another voucher was drawn.
    drawn: Option<(VoucherVerdict, DrawFigures)>,
}

/// All but its buyers.
fn crowd_plan(args: &DemoArgs, nodes: Vec<SocketAddr>, path: Arc<str>, seed: u64) -> CrowdPlan {
    CrowdPlan {
        nodes,
        path,
        buyers: Vec::new(),
        attempts: args.attempts() as usize,
        max_connections: MAX_CONNECTIONS,
        seed,
        answer_timeout_ms: ANSWER_WITHIN.as_millis() as u64,
        total_timeout_ms: RUSH_WITHIN.as_millis() as u64,
        for_ms: None,
        arrive_within_ms: None,
        tells_buyers: false,
    }
}

/// Sends the crowd: once, in waves, or to a draw as well.
async fn sell<'a>(
    args: &DemoArgs,
    database: &'a Database,
    plan: &CrowdPlan,
    sales: &'a [DemoSale<'a>],
    drawn: Option<&DemoSale<'_>>,
) -> anyhow::Result<Sold<'a>> {
    let plan_of = |buyers| CrowdPlan { buyers, ..plan.clone() };
    if let Some(drawn) = drawn {
        let send = async |name: &str, buyers| send_crowd(name, plan_of(buyers)).await;
        let stores = (database, plan.nodes[0]);
        let (crowd, verdict, figures) =
            demo_draw::run(stores, (&sales[0], drawn), plan.seed, send).await?;
        return Ok(Sold { crowd, waves: None, drawn: Some((verdict, figures)) });
    }
    let Some(share) = args.pay else {
        let plan = plan_of(sales.iter().flat_map(DemoSale::crowd).collect());
        let crowd = send_crowd("The rush", plan).await?;
        return Ok(Sold { crowd, waves: None, drawn: None });
    };
    let begun = tokio::time::Instant::now();
    let terms = (share, args.pay_within());
    let mut waves = Waves::new(database, plan.nodes.clone(), sales, terms).await?;
    let mut crowd =
        waves.run(async |name, buyers| send_crowd(&name, plan_of(buyers)).await).await?;
    for sale in &waves.sales {
        crowd.told_at.insert(Arc::clone(&sale.sale.path), sale.told.clone());
    }
    let all_waves_ms = begun.elapsed().as_secs_f64() * 1e3;
    let figures = WaveFigures { waves: waves.count, all_waves_ms };
    Ok(Sold { crowd, waves: Some((waves, figures)), drawn: None })
}

/// Lets a process of its own send the crowd, and shows how far it is.
async fn send_crowd(name: &str, plan: CrowdPlan) -> anyhow::Result<CrowdReport> {
    let exe = Sibling::Tools.path()?;
    let bar = progress::of_attempts(name, plan.total());
    let report = crowd_process::send(&exe, &plan, |done| bar.set_position(done)).await;
    bar.finish_and_clear();
    Ok(report?)
}
