//! The two that sell in a show: this server, and a rung of the ladder.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chrono::TimeDelta;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::show::{CrowdKind, Show, ShowFailure, ShowHalf, ShowPhase};
use super::verdict::{BESIDE_A_KILL, ShowVerdict};
use super::watchers::Watchers;
use ladder::Rung;
use load::crowd::{Buyer, BuyersTold, CrowdPlan, CrowdReport};
use load::outcome::{NO_ANSWER, NOT_SENT};
use load::verdict::{Expectations, Verdict, judge};
use load::{LoadError, crowd_process};
use program::node::{Node, NodeOptions};
use seckill::http::App;
use seckill::http::address::reachable;
use seckill::http::audits::AUDITED_WITHIN;
use seckill::http::tokens::LONGEST_TOKEN_LIFE;
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, SaleStatus, UserId, VoucherId};
use seckill::purchase::audit;
use seckill::store::vouchers;
use seckill::store::{StoreError, order_steps, orders, users};
use seckill_lab::{RungSale, RushOptions, World, judged_books, missing};

/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The same where a server may be killed: whoever met it goes on to the other one.
const ANSWER_WITHIN_OF_TWO: Duration = Duration::from_secs(5);
/// How long the whole crowd may take.
const CROWD_WITHIN: Duration = Duration::from_secs(300);
/// From the last attempt to the end of the sale, for buyers in the shop.
const OPEN_FOR: TimeDelta = TimeDelta::minutes(5);
/// After so long no further attempt begins: some rungs are that slow.
const NO_MORE_AFTER: Duration = Duration::from_secs(180);
/// How often the stock is looked at for what people buy beside the crowd.
const STOCK_EVERY: Duration = Duration::from_millis(250);

/// The crowd of a show: the same for both halves.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShowCrowd {
    pub(super) kind: CrowdKind,
    pub(super) users: u32,
    pub(super) stock: i32,
    pub(super) attempts: usize,
    pub(super) seed: u64,
    /// Before the sale of this server begins.
    pub(super) countdown: Duration,
    /// The time over which the buyers come, where they do not come at once.
    pub(super) arrive_within: Option<Duration>,
}

impl ShowCrowd {
    pub(super) fn half(&self, run: u64, rung: Option<&'static str>) -> ShowHalf {
        ShowHalf::new(run, rung, self.users, self.stock, self.attempts)
    }

    fn total(&self) -> u64 {
        u64::from(self.users) * self.attempts as u64
    }
}

/// How the crowds of shows are sent.
#[derive(Clone)]
pub(crate) struct CrowdSender {
    /// Another server on the stores of this one.
    pub(crate) node: NodeOptions,
    /// The program that sends them.
    pub(crate) exe: PathBuf,
    /// Where this server listens.
    pub(crate) address: SocketAddr,
    /// So many connections a crowd has.
    pub(crate) max_connections: usize,
}

/// What a half is played with.
pub(super) struct ShowSeller {
    pub(super) app: App,
    pub(super) sender: CrowdSender,
    pub(super) watchers: Arc<Watchers>,
}

/// New users, each with a token.
async fn make_buyers(app: &App, count: u32) -> anyhow::Result<Vec<(UserId, String)>> {
    let pool = app.database.pool();
    let now = order_steps::time(pool).await?;
    let first = users::reserve_ids(pool, count).await?;
    users::create_range(pool, first, count, now).await?;
    let numbers = first.get()..first.get() + i64::from(count);
    let token = |number| {
        let user = UserId::try_from(number)?;
        Ok((user, app.tokens.mint(user, None, now, now + LONGEST_TOKEN_LIFE)))
    };
    numbers.map(token).collect()
}

/// The first and the last of a crowd, whose numbers follow one another.
fn users_of(buyers: &[(UserId, String)]) -> (UserId, UserId) {
    let (Some((first, _)), Some((last, _))) = (buyers.first(), buyers.last()) else {
        unreachable!("a crowd has buyers")
    };
    (*first, *last)
}

/// What is said of an error, which is logged.
fn failed(code: &'static str) -> impl Fn(anyhow::Error) -> ShowFailure {
    move |error| {
        tracing::warn!("a show on the stage failed: {error:#}");
        ShowFailure { code, detail: error.to_string() }
    }
}

/// A crowd that was not sent: it says why, or died.
fn crowd_failed(error: LoadError) -> ShowFailure {
    let reason = match &error {
        LoadError::CrowdEnded { reason, .. } => reason.clone(),
        _ => Some(error.to_string()),
    };
    tracing::warn!("the crowd of a show failed: {:#}", anyhow::Error::from(error));
    match reason {
        Some(line) => {
            let detail = line.trim().trim_start_matches("seckill: ").to_owned();
            ShowFailure { code: "crowd", detail }
        }
        None => ShowFailure::without_detail("crowd_died"),
    }
}

/// The same at a rung: where the crowd says why, it did not reach its servers.
fn crowd_failed_at_rung(error: LoadError) -> ShowFailure {
    match crowd_failed(error) {
        ShowFailure { code: "crowd", detail } => ShowFailure { code: "rung", detail },
        died => died,
    }
}

/// A rung that cannot be had here, or whose servers are gone.
fn rung_failed(error: anyhow::Error) -> ShowFailure {
    match missing(&error) {
        Some(detail) => ShowFailure { code: "missing", detail },
        None => failed("rung")(error),
    }
}

impl ShowSeller {
    /// The sale on this server, which stands in the shop under this title.
    pub(super) async fn sell_here(&self, crowd: ShowCrowd, title: &str) -> Result<(), ShowFailure> {
        let buyers = self.buyers(crowd.users).await.map_err(failed("database"))?;
        let mut servers = self.servers(crowd.kind).await.map_err(failed("servers"))?;
        let begins_at = Instant::now() + crowd.countdown;
        let voucher = self.put_on_sale(crowd, title).await.map_err(failed("database"))?;
        self.update(ShowPhase::Countdown, |show| {
            show.begins_at = Some(begins_at);
            show.half().voucher = Some(voucher);
        });
        let nodes = match &servers[..] {
            [] => vec![reachable(self.sender.address)],
            servers => servers.iter().map(|server| server.address).collect(),
        };
        let path = format!("/api/vouchers/{voucher}/orders").into();
        let plan = self.plan(crowd, nodes, path, buyers.iter().map(Buyer::from).collect());
        let report = tokio::select! {
            report = self.send(plan, begins_at) => report.map_err(crowd_failed)?,
            never = self.watch_sale(voucher, users_of(&buyers)) => match never {},
            never = self.kill_one(&mut servers) => match never {},
        };
        // What they began is finished before the books are read; the one that was killed has finished nothing.
        for server in servers {
            server.stop().await.map_err(failed("servers"))?;
        }
        let judged = self.judge(voucher, &buyers, &report).await.map_err(failed("audit"));
        let (verdict, sold) = judged?;
        self.end_half(ShowVerdict::new(&verdict, sold, &report, crowd.total()));
        Ok(())
    }

    /// Two more servers on the stores of this one, for a crowd that meets two.
    async fn servers(&self, kind: CrowdKind) -> anyhow::Result<Vec<Node>> {
        if kind != CrowdKind::Failover {
            return Ok(Vec::new());
        }
        let start = || Node::start(self.sender.node.clone());
        let (one, other) = tokio::try_join!(start(), start())?;
        Ok(vec![one, other])
    }

    /// Kills the last of the servers when somebody asks for it.
    async fn kill_one(&self, servers: &mut Vec<Node>) -> Infallible {
        self.watchers.killed().await;
        if let Some(mut server) = servers.pop()
            && let Err(error) = server.kill().await
        {
            tracing::warn!("a server of the show was not seen to end: {error:#}");
        }
        pending().await
    }

    /// Makes so many buyers, with their tokens.
    async fn buyers(&self, count: u32) -> anyhow::Result<Vec<(UserId, String)>> {
        // In a task of its own: a show that is broken off must not break off a transaction.
        let app = self.app.clone();
        let making = tokio::spawn(async move { make_buyers(&app, count).await });
        let made = making.await.map_err(anyhow::Error::from).and_then(|made| made);
        made.context("the crowd's users could not be made")
    }

    /// Audits the database, and holds it against what these buyers were told. Returns also how many orders there are,
    /// those of other people included.
    async fn judge(
        &self,
        voucher: VoucherId,
        buyers: &[(UserId, String)],
        report: &CrowdReport,
    ) -> anyhow::Result<(Verdict, i64)> {
        let (database, told) = (&self.app.database, report.told());
        let is_one_killed =
            self.watchers.look(|show| show.halves.last().is_some_and(|it| it.killed_at.is_some()));
        let expected = if is_one_killed { BESIDE_A_KILL } else { Expectations::BESIDE_OTHERS };
        let audited = async {
            let users = users_of(buyers);
            let orders = audit::count_orders_of(database.pool(), voucher, users).await?;
            let yes = told.acknowledged_ids();
            let lost = audit::count_lost(database.pool(), voucher, &yes).await?;
            Ok((orders, lost, audit::run_within(AUDITED_WITHIN, database, voucher).await?))
        };
        let audited: Result<_, StoreError> = audited.await;
        let (orders, lost, audit) = audited.context("the database could not be audited")?;
        let audit = audit.context("the voucher is gone from the database")?;
        self.watchers.update(|show| show.half().others = audit.orders - orders);
        let verdict = judge(&judged_books(&audit, orders, lost), &told, &expected);
        Ok((verdict, audit.orders))
    }

    async fn put_on_sale(&self, crowd: ShowCrowd, title: &str) -> anyhow::Result<VoucherId> {
        let now = self.app.purchases.clock().now();
        let begin = now + TimeDelta::from_std(crowd.countdown)?;
        let lasts = TimeDelta::from_std(crowd.arrive_within.unwrap_or(NO_MORE_AFTER))?;
        let new = NewVoucher::free(title, crowd.stock, begin, begin + lasts + OPEN_FOR);
        Ok(vouchers::create(self.app.database.pool(), &new, now).await?.id)
    }

    /// The same crowd at `rung`, which the lab serves on servers of its own.
    pub(super) async fn sell_by_rung(
        &self,
        crowd: ShowCrowd,
        rung: &'static Rung,
    ) -> Result<(), ShowFailure> {
        let world = World::open(None, None).await.map_err(rung_failed)?;
        let sold = self.sell_in(&world, crowd, rung).await;
        if let Err(error) = world.close().await {
            tracing::warn!("the servers of {} did not stop well: {error:#}", rung.id);
        }
        sold
    }

    async fn sell_in(
        &self,
        world: &World,
        crowd: ShowCrowd,
        rung: &'static Rung,
    ) -> Result<(), ShowFailure> {
        let terms =
            RushOptions { users: crowd.users, stock: crowd.stock, ..RushOptions::default() };
        let sale = RungSale::open(world, rung, terms).await.map_err(rung_failed)?;
        let begins_at = Instant::now() + crowd.countdown;
        self.update(ShowPhase::Countdown, |show| show.begins_at = Some(begins_at));
        let nodes = sale.addresses().map_err(rung_failed)?;
        let plan = self.plan(crowd, nodes, sale.path(), sale.buyers().collect());
        let report = self.send(plan, begins_at).await.map_err(crowd_failed_at_rung)?;
        let (rush, verdict) = sale.judged(crowd.seed, &report).await.map_err(rung_failed)?;
        self.end_half(ShowVerdict::new(
            &verdict,
            rush.crowd.figures.orders,
            &report,
            crowd.total(),
        ));
        Ok(())
    }

    fn plan(
        &self,
        crowd: ShowCrowd,
        nodes: Vec<SocketAddr>,
        path: Arc<str>,
        buyers: Vec<Buyer>,
    ) -> CrowdPlan {
        let (answer_within, begins_within) = match (crowd.kind, crowd.arrive_within) {
            (CrowdKind::Slow, Some(within)) => (ANSWER_WITHIN, within + Duration::from_secs(1)),
            (CrowdKind::Failover, _) => (ANSWER_WITHIN_OF_TWO, NO_MORE_AFTER),
            _ => (ANSWER_WITHIN, NO_MORE_AFTER),
        };
        CrowdPlan {
            nodes,
            path,
            buyers,
            attempts: crowd.attempts,
            max_connections: self.sender.max_connections,
            seed: crowd.seed,
            answer_timeout_ms: answer_within.as_millis() as u64,
            total_timeout_ms: CROWD_WITHIN.as_millis() as u64,
            for_ms: Some(begins_within.as_millis() as u64),
            arrive_within_ms: crowd.arrive_within.map(|within| within.as_millis() as u64),
            tells_buyers: true,
        }
    }

    /// Sends the crowd when the sale begins, and shows what its buyers are told.
    async fn send(&self, plan: CrowdPlan, begins_at: Instant) -> Result<CrowdReport, LoadError> {
        sleep_until(begins_at).await;
        self.update(ShowPhase::Selling, |show| show.begins_at = None);
        let hear = |told: BuyersTold| self.watchers.update(|show| show.half().hear(&told));
        let report = crowd_process::send_telling(&self.sender.exe, &plan, hear).await?;
        let told = report.told();
        let made: u64 = told.outcomes.values().sum();
        let silent = told.count(NO_ANSWER) + told.count(NOT_SENT);
        self.update(ShowPhase::Auditing, |show| {
            // Otherwise nobody knows of those who wait.
            if made == plan.total() && silent == 0 {
                show.half().close();
            }
        });
        Ok(report)
    }

    /// Shows what people buy beside the crowd of these `users`.
    async fn watch_sale(&self, voucher: VoucherId, users: (UserId, UserId)) -> Infallible {
        let pool = self.app.database.pool();
        let mut tick = interval(STOCK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let Ok(Some(sale)) = self.app.purchases.sale(voucher).await else { continue };
            let Ok(others) = orders::count_beside(pool, voucher, users).await else { continue };
            let status = sale.status_at(self.app.purchases.clock().now());
            let left = match status {
                SaleStatus::SoldOut => 0,
                _ => sale.voucher.stock.max(0).unsigned_abs(),
            };
            let seen = (Some(u64::from(left)), others);
            let is_new = |half: &ShowHalf| (half.known_left, half.others) != seen;
            if self.watchers.look(|show| show.halves.last().is_some_and(is_new)) {
                self.watchers.update(|show| {
                    let half = show.half();
                    (half.known_left, half.others) = seen;
                });
            }
        }
    }

    fn update(&self, phase: ShowPhase, change: impl FnOnce(&mut Show)) {
        self.watchers.update(|show| {
            show.phase = phase;
            change(show);
        });
    }

    fn end_half(&self, verdict: ShowVerdict) {
        self.watchers.update(|show| show.half().verdict = Some(verdict));
    }
}
