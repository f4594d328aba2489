//! What is measured on: the stores, the nodes, those who buy, and what is on sale.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::try_join_all;
use rand::RngExt;
use tokio::time::timeout;

use super::hot_row::{Pgbench, settle};
use super::lock_script::RedisBenchmark;
use super::options::Options;
use super::rounds::{Measurement, NODES, OptionalPart, Refused};
use crate::node::{Node, NodeOptions};
use load::crowd_process;
use load::outcome::ORDERED;
use load::steady::{Arrival, Pairing, SteadyPlan, SteadyReport};
use private_stores::Benchmarks;
use seckill::model::{Clock, OrderId, SystemClock, VoucherId};
use seckill::purchase::{DEFAULT_BURST, Strategy, audit};
use seckill::store::Database;
use seckill::store::vouchers::{self, NewVoucher};

/// Never sold out, but where that is wanted.
const STOCK: i32 = 100_000_000;
/// Buyers who come again and again. A few, as such are: a node remembers each for a second, and
/// for the rest of them the figure would be that of the database.
const BOUGHT_BY: usize = 300;
/// How long one answer may take.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// What the process of the load needs beside its time: to read its plan, connect, and wait for
/// the last answers.
const GRACE: Duration = Duration::from_secs(60);
/// How long everybody may take to buy once.
const ALL_BUY_WITHIN: Duration = Duration::from_secs(60);

/// The servers to measure on, and the buyers.
#[allow(missing_debug_implementations)] // tokens and the secret must not be printed
pub struct Setup {
    /// PostgreSQL.
    pub database_url: String,
    /// Redis.
    pub redis_url: String,
    /// Whether the servers are this run's own, in words (`private`, `named`).
    pub servers: &'static str,
    /// A handle on the database, migrated.
    pub database: Database,
    /// Signs the tokens of the buyers.
    pub secret: String,
    /// One token for each buyer.
    pub tokens: Vec<Arc<str>>,
}

/// One load: who buys what, and how.
pub(super) struct Load {
    pub(super) nodes: Vec<SocketAddr>,
    pub(super) paths: Vec<Arc<str>>,
    pub(super) tokens: Vec<Arc<str>>,
    pub(super) pairing: Pairing,
    pub(super) arrival: Arrival,
    pub(super) connections: usize,
    /// How long one waits for an answer.
    pub(super) answer_within: Duration,
    /// How long one waits for a connection to ask over, if not as long.
    pub(super) connection_within: Option<Duration>,
}

/// Everything that runs.
pub(super) struct Testbed {
    pub(super) options: Options,
    pub(super) database: Database,
    pub(super) pgbench: Pgbench,
    /// `None` where Redis's own client cannot reach it.
    pub(super) redis_benchmark: Option<RedisBenchmark>,
    pub(super) bare: Node,
    pub(super) tokens: Vec<Arc<str>>,
    nodes: Vec<(Strategy, Vec<Node>)>,
    /// Those that are asked for more than they can do. They keep what memory it took for a while,
    /// and are asked for nothing else.
    overloaded: Vec<(Strategy, Node)>,
    refusing: Refusing,
    exe: PathBuf,
    /// What was put on sale, for the audit.
    sold: Vec<VoucherId>,
}

/// Vouchers that nobody gets.
struct Refusing {
    sold_out: VoucherId,
    already_bought: VoucherId,
    not_started: VoucherId,
    ended: VoucherId,
}

impl Testbed {
    /// Starts all of it.
    pub(super) async fn set(
        options: Options,
        benchmarks: Benchmarks,
        setup: Setup,
    ) -> anyhow::Result<Self> {
        let Setup { database_url, redis_url, database, secret, tokens, .. } = setup;
        let exe = std::env::current_exe().context("cannot find the program's own file")?;
        let pgbench = Pgbench::prepare(benchmarks.pgbench, &database_url, database.clone()).await?;
        let redis_benchmark = RedisBenchmark::prepare(benchmarks.redis_benchmark, &redis_url)?;
        let needed =
            if options.measures_nodes() { NODES.into_iter().max().unwrap_or(1) } else { 1 };
        let start = |strategy: Strategy| {
            Node::start(NodeOptions {
                database_url: &database_url,
                redis_url: &redis_url,
                secret: &secret,
                strategy: strategy.as_str(),
                burst: DEFAULT_BURST,
                listen: None,
                admin_phone: None,
            })
        };
        let mut nodes = Vec::new();
        for strategy in options.strategies.iter().copied() {
            nodes.push((strategy, try_join_all((0..needed).map(|_| start(strategy))).await?));
        }
        let mut overloaded = Vec::new();
        if options.parts.contains(&OptionalPart::Overload) {
            for strategy in options.overloaded.iter().copied() {
                overloaded.push((strategy, start(strategy).await?));
            }
        }
        let bare = Node::start_bare().await?;
        let (refusing, sold) = put_aside(&database).await?;
        let mut testbed = Self {
            options,
            database,
            pgbench,
            redis_benchmark,
            bare,
            tokens,
            nodes,
            overloaded,
            refusing,
            exe,
            sold,
        };
        testbed.sell_out().await?;
        Ok(testbed)
    }

    /// The node of a strategy that is overloaded.
    ///
    /// # Errors
    /// When no overload is measured.
    pub(super) fn overloaded(&self, strategy: Strategy) -> anyhow::Result<&Node> {
        let of_strategy = self.overloaded.iter().find(|(other, _)| *other == strategy);
        let (_, node) = of_strategy.context("there is no node to overload")?;
        Ok(node)
    }

    /// The nodes of all strategies.
    pub(super) fn all_nodes(&self) -> impl Iterator<Item = &Node> {
        let overloaded = self.overloaded.iter().map(|(_, node)| node);
        self.nodes.iter().flat_map(|(_, nodes)| nodes).chain(overloaded)
    }

    /// Where the first so many nodes of a strategy listen.
    pub(super) fn addresses(&self, strategy: Strategy, count: usize) -> Vec<SocketAddr> {
        let of_strategy = self.nodes.iter().filter(|(other, _)| *other == strategy);
        of_strategy.flat_map(|(_, nodes)| nodes).take(count).map(|node| node.address).collect()
    }

    /// The route on which everybody is refused for this reason.
    pub(super) fn refusing(&self, refused: Refused) -> Arc<str> {
        path(match refused {
            Refused::SoldOut => self.refusing.sold_out,
            Refused::AlreadyBought => self.refusing.already_bought,
            Refused::NotStarted => self.refusing.not_started,
            Refused::Ended => self.refusing.ended,
        })
    }

    /// Those to whom [`Refused::AlreadyBought`] applies.
    pub(super) fn who_bought(&self) -> Vec<Arc<str>> {
        self.tokens.iter().take(BOUGHT_BY).cloned().collect()
    }

    /// Puts vouchers on sale for one measurement, and lets the disk come to rest.
    pub(super) async fn put_on_sale(
        &mut self,
        measurement: Measurement,
        count: usize,
    ) -> anyhow::Result<Vec<VoucherId>> {
        let now = SystemClock.now();
        let title = format!("Ceiling: {}", measurement.label());
        let mut new = Vec::new();
        for _ in 0..count {
            new.push(add(&self.database, &title, STOCK, now, now + TimeDelta::days(1)).await?);
        }
        self.sold.extend(&new);
        settle(&self.database).await;
        Ok(new)
    }

    /// Lets a process of its own make the load. `progress` hears how many milliseconds of it
    /// have passed.
    pub(super) async fn send(
        &self,
        load: Load,
        progress: impl FnMut(u64),
    ) -> anyhow::Result<SteadyReport> {
        let plan = SteadyPlan {
            nodes: load.nodes,
            paths: load.paths,
            tokens: load.tokens,
            pairing: load.pairing,
            arrival: load.arrival,
            connections: load.connections,
            answer_timeout_ms: load.answer_within.as_millis() as u64,
            connection_timeout_ms: load.connection_within.map(|within| within.as_millis() as u64),
            seed: rand::rng().random(),
        };
        let within = Duration::from_millis(plan.total_ms()) + GRACE;
        let report = timeout(within, crowd_process::steady(&self.exe, &plan, progress)).await;
        report.context("the load did not end in time")?.context("the load could not be made")
    }

    /// The orders of `vouchers` since [`Self::latest_second`].
    pub(super) async fn stored(&self, vouchers: &[VoucherId], since: i64) -> anyhow::Result<u64> {
        let ids: Vec<i64> = vouchers.iter().map(|voucher| voucher.get()).collect();
        let stored: i64 = sqlx::query_scalar(
            "select count(*) from orders where id >= $1 and voucher_id = any($2)",
        )
        .bind(since)
        .bind(ids)
        .fetch_one(self.database.pool())
        .await?;
        Ok(stored.unsigned_abs())
    }

    /// What the ids begin with in the second of the last order there is. They grow with time, from one
    /// second to the next, so that those since then are found by the primary key, however many there
    /// were before.
    pub(super) async fn latest_second(&self) -> anyhow::Result<i64> {
        let last = sqlx::query_scalar("select coalesce(max(id), 0) from orders");
        let last: i64 = last.fetch_one(self.database.pool()).await?;
        Ok(last & !OrderId::MAX_SEQUENCE)
    }

    /// Sells the one voucher of one voucher, and lets many buy the other. That exactly one buyer
    /// got the one also proves that tokens, routes and refusals are what they should be.
    async fn sell_out(&mut self) -> anyhow::Result<()> {
        // Whichever strategy: the books are the same.
        let strategy = self.options.strategies.first().copied().unwrap_or_default();
        let buyers = self.who_bought();
        for (voucher, wanted) in
            [(self.refusing.sold_out, 1), (self.refusing.already_bought, buyers.len() as u64)]
        {
            let load = Load {
                nodes: self.addresses(strategy, 1),
                paths: vec![path(voucher)],
                tokens: buyers.clone(),
                // Ends when each has come once.
                pairing: Pairing::PathAfterPath,
                arrival: Arrival::Closed {
                    lead_in_ms: 0,
                    duration_ms: ALL_BUY_WITHIN.as_millis() as u64,
                },
                connections: 32,
                answer_within: ANSWER_WITHIN,
                connection_within: None,
            };
            let report = self.send(load, |_| ()).await?;
            let told: u64 =
                report.phases.iter().filter_map(|phase| phase.outcomes.get(ORDERED)).sum();
            ensure!(
                told == wanted,
                "of {} buyers {told} got a voucher instead of {wanted}",
                buyers.len()
            );
        }
        Ok(())
    }

    /// Stops what sells, removes what was made for the ceilings, and audits everything that was
    /// sold. Returns each promise that was not kept.
    pub(super) async fn close(self) -> anyhow::Result<(usize, Vec<String>)> {
        let overloaded = self.overloaded.into_iter().map(|(_, node)| node);
        let nodes = self.nodes.into_iter().flat_map(|(_, nodes)| nodes).chain(overloaded);
        // Stopped before the books are read: what they began is finished then.
        try_join_all(nodes.chain([self.bare]).map(Node::stop)).await?;
        self.pgbench.clean_up().await?;
        let audits = audit::run(self.database.pool(), None).await?;
        let ours: Vec<_> =
            audits.iter().filter(|audit| self.sold.contains(&audit.voucher_id)).collect();
        if ours.len() != self.sold.len() {
            bail!("{} vouchers are gone from the database", self.sold.len() - ours.len());
        }
        let violations = ours.iter().flat_map(|audit| {
            let of = |violation| format!("voucher {}: {violation}", audit.voucher_id);
            audit.violations.iter().map(of)
        });
        Ok((ours.len(), violations.collect()))
    }
}

/// Where a voucher is bought.
pub(super) fn path(voucher: VoucherId) -> Arc<str> {
    format!("/api/vouchers/{voucher}/orders").into()
}

async fn put_aside(database: &Database) -> anyhow::Result<(Refusing, Vec<VoucherId>)> {
    let now = SystemClock.now();
    let day = TimeDelta::days(1);
    let refusing = Refusing {
        sold_out: add(database, "Ceiling: sold out", 1, now, now + day).await?,
        already_bought: add(database, "Ceiling: already bought", STOCK, now, now + day).await?,
        not_started: add(database, "Ceiling: not begun", STOCK, now + day, now + day * 2).await?,
        ended: add(database, "Ceiling: over", STOCK, now - day * 2, now - day).await?,
    };
    let all =
        vec![refusing.sold_out, refusing.already_bought, refusing.not_started, refusing.ended];
    Ok((refusing, all))
}

async fn add(
    database: &Database,
    title: &str,
    stock: i32,
    begin_time: DateTime<Utc>,
    end_time: DateTime<Utc>,
) -> anyhow::Result<VoucherId> {
    let new = NewVoucher { title: title.to_owned(), stock, begin_time, end_time };
    Ok(vouchers::create(database.pool(), &new, SystemClock.now()).await?.id)
}
