//! The crowd: how often each buyer comes, the processes that sell to it, and the one it comes from.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::try_join_all;
use sqlx::postgres::PgPool;
use tokio::time::timeout;

use super::later;
use super::verdict::{RushOptions, RushReport, SaleResult, report};
use crate::lock_servers::LockServers;
use crate::node_process::{NodePlan, NodeProcess};
use crate::sale;
use crate::world::World;
use ladder::{Capability, Resources, Rung, Work};
use load::crowd::{Buyer, CrowdPlan, CrowdReport};
use load::crowd_process;
use load::rungs::WrittenLater;
use load::verdict::{Books, Verdict};
use program::sibling::Sibling;
use seckill::model::{Clock, SystemClock, UserId, VoucherId};
use seckill::purchase::audit;
use seckill::store::users;

/// Processes that sell.
const NODES: usize = 2;
/// Connections of the crowd; more attempts than this share them.
const MAX_CONNECTIONS: usize = 8_192;
/// Connections of a crowd that comes for some time: as many as the benchmarks have.
const STEADY_CONNECTIONS: usize = 256;

/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// How long the whole rush may take.
const RUSH_WITHIN: Duration = Duration::from_secs(600);
/// How long a node may take to come up, or to finish what it began.
const NODE_WITHIN: Duration = Duration::from_secs(90);

/// Puts the crowd on `rung`, in the order that `seed` gives; `progress` is told, some times a second, how
/// many attempts are over.
///
/// # Errors
/// When it could not be carried out; promises not kept are a result.
pub async fn rush(
    world: &World,
    rung: &'static Rung,
    terms: RushOptions,
    seed: u64,
    progress: impl FnMut(u64),
) -> anyhow::Result<RushReport> {
    let sale = RungSale::open(world, rung, terms).await?;
    let plan = plan(&sale, seed)?;
    let crowd = crowd_process::send(&Sibling::Lab.path()?, &plan, progress).await?;
    sale.judged(seed, &crowd).await.map(|(report, _)| report)
}

/// A rung that sells, and awaits its crowd.
pub struct RungSale {
    rung: &'static Rung,
    terms: RushOptions,
    first_user: i64,
    voucher: VoucherId,
    database_url: String,
    database: PgPool,
    nodes: Vec<NodeProcess>,
    /// They live until this is over.
    _servers: LockServers,
}

impl RungSale {
    /// Puts vouchers on sale, and starts the processes that sell them.
    ///
    /// # Errors
    /// When servers fail, or the processes.
    pub async fn open(
        world: &World,
        rung: &'static Rung,
        terms: RushOptions,
    ) -> anyhow::Result<Self> {
        let (first_user, key_prefix) = world.next_cell();
        let servers = LockServers::start(world, rung).await?;
        let url = world.database_url(rung.tables)?;
        let node = NodePlan { http: true, ..NodePlan::new(rung, url, &servers, key_prefix) };
        let database = sale::connections(&node.database_url)?;
        // Known to the database beforehand: that they sign up is no part of the rush.
        let first = UserId::try_from(first_user)?;
        users::create_range(&database, first, terms.users, SystemClock.now()).await?;
        let voucher = sale::put_on_sale(&database, rung, terms.stock).await?;
        let nodes = try_join_all((0..NODES).map(|_| start(&node))).await?;
        let database_url = node.database_url;
        Ok(Self {
            rung,
            terms,
            first_user,
            voucher,
            database_url,
            database,
            nodes,
            _servers: servers,
        })
    }

    /// Where its processes listen.
    ///
    /// # Errors
    /// When one of them does not say it.
    pub fn addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        self.nodes.iter().map(address).collect()
    }

    /// Where one buys.
    pub fn path(&self) -> Arc<str> {
        format!("/lab/{}/vouchers/{}/orders", self.rung.id, self.voucher).into()
    }

    /// The buyers, each of whom comes as often as the plan says.
    pub fn buyers(&self) -> impl Iterator<Item = Buyer> {
        let numbers = self.first_user..self.first_user + i64::from(self.terms.users);
        // In the lab the token is the user's number.
        numbers.map(|number| Buyer::from(&(number, number.to_string())))
    }

    /// What came of it, and what was found, once everything is written; the processes end.
    ///
    /// # Errors
    /// When servers fail, or the processes.
    pub async fn judged(
        self,
        seed: u64,
        crowd: &CrowdReport,
    ) -> anyhow::Result<(RushReport, Verdict)> {
        if self.rung.can(Capability::Draw) {
            let resources = Resources::open(&self.database_url, &[], None, "")?;
            let design = (self.rung.build)(resources).await?;
            design.expire(self.voucher, &Work::default()).await?;
        }
        let written_later = match self.rung.has_consumer() {
            true => Some(later::until_written(&self.database, self.voucher, crowd).await?),
            false => None,
        };
        // Stopped before the books are read: what they began is finished then.
        try_join_all(self.nodes.into_iter().map(stop)).await?;
        let sale = read(&self.database, self.voucher, crowd, written_later).await;
        self.database.close().await;
        Ok(report(self.rung, self.terms, seed, &sale?, crowd))
    }
}

async fn start(plan: &NodePlan) -> anyhow::Result<NodeProcess> {
    let node = timeout(NODE_WITHIN, NodeProcess::start(plan)).await;
    node.context("a node did not come up in time")?
}

fn address(node: &NodeProcess) -> anyhow::Result<SocketAddr> {
    let address = node.address.as_deref().context("a node does not say where it listens")?;
    Ok(address.parse()?)
}

async fn stop(node: NodeProcess) -> anyhow::Result<()> {
    timeout(NODE_WITHIN, node.stop()).await.context("a node did not stop in time")?
}

fn plan(sale: &RungSale, seed: u64) -> anyhow::Result<CrowdPlan> {
    let seconds = sale.terms.seconds;
    let comes = |(i, buyer): (usize, Buyer)| {
        let attempts = Some(sale.terms.attempts_of(i));
        Buyer { attempts, ..buyer }
    };
    Ok(CrowdPlan {
        nodes: sale.addresses()?,
        path: sale.path(),
        buyers: sale.buyers().enumerate().map(comes).collect(),
        attempts: 1,
        max_connections: seconds.map_or(MAX_CONNECTIONS, |_| STEADY_CONNECTIONS),
        seed,
        answer_timeout_ms: ANSWER_WITHIN.as_millis() as u64,
        total_timeout_ms: RUSH_WITHIN.as_millis() as u64,
        for_ms: seconds.map(|seconds| u64::from(seconds) * 1000),
        arrive_within_ms: None,
        tells_buyers: false,
    })
}

/// Reads the books.
async fn read(
    database: &PgPool,
    voucher: VoucherId,
    crowd: &CrowdReport,
    written_later: Option<WrittenLater>,
) -> anyhow::Result<SaleResult> {
    let audit = sale::books(database, voucher).await?;
    let audit = audit.context("the voucher is gone from the database")?;
    let told = crowd.told();
    let lost = audit::count_lost(database, voucher, &told.acknowledged_ids()).await?;
    let twice: Option<(i64, Vec<i64>)> = sqlx::query_as(
        "select user_id, array_agg(id order by id) from orders where voucher_id = $1
         group by user_id having count(*) > 1 order by count(*) desc, user_id limit 1",
    )
    .bind(voucher.get())
    .fetch_optional(database)
    .await?;
    let books = Books { twice, ..sale::judged_books(&audit, audit.orders, lost) };
    Ok(SaleResult { books, written_later })
}
