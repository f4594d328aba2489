//! The crowd: how often each buyer comes, the processes that sell to it, and the one it comes from.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::try_join_all;
use rand::RngExt;
use sqlx::postgres::PgPool;
use tokio::time::timeout;

use super::later::{self, WrittenLater};
use super::verdict::{RushOptions, RushReport, SaleResult};
use crate::lock_servers::LockServers;
use crate::node_process::NodeProcess;
use crate::protocol::NodePlan;
use crate::sale;
use crate::world::World;
use ladder::Rung;
use load::crowd::{Buyer, CrowdPlan, CrowdReport};
use load::crowd_process;
use program::sibling::Sibling;
use seckill::model::{Clock, SystemClock, UserId, VoucherId};
use seckill::purchase::audit;
use seckill::store::users;
use seckill_tools::verdict::books;

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

/// Puts the crowd on `rung`, in an order of its own.
///
/// # Errors
/// When it could not be carried out; promises not kept are a result.
pub async fn rush(
    world: &World,
    rung: &'static Rung,
    terms: RushOptions,
) -> anyhow::Result<RushReport> {
    rush_seeded(world, rung, terms, rand::rng().random(), |_| {}).await
}

/// As [`rush`], in the order that `seed` gives; `progress` is told, some times a second, how
/// many attempts are over.
pub async fn rush_seeded(
    world: &World,
    rung: &'static Rung,
    terms: RushOptions,
    seed: u64,
    progress: impl FnMut(u64),
) -> anyhow::Result<RushReport> {
    let (first_user, key_prefix) = world.next_cell();
    // They live until this is over.
    let servers = LockServers::start(world, rung).await?;
    let node = NodePlan::http(rung, world.database_url(rung.tables)?, &servers, key_prefix);
    let database = sale::connections(&node.database_url)?;
    // Known to the database beforehand: that they sign up is no part of the rush.
    let first = UserId::try_from(first_user)?;
    users::create_range(&database, first, terms.users, SystemClock.now()).await?;
    let voucher = sale::put_on_sale(&database, rung, terms.stock).await?;

    let starting = (0..NODES).map(|_| start(&node));
    let nodes = try_join_all(starting).await?;
    let addresses = nodes.iter().map(address).collect::<anyhow::Result<_>>()?;
    let plan = plan(addresses, rung, voucher, first_user, terms, seed);
    let crowd = crowd_process::send(&Sibling::Tools.path()?, &plan, progress).await?;
    let written_later = match rung.has_consumer() {
        true => Some(later::until_written(&database, voucher, &crowd).await?),
        false => None,
    };
    // Stopped before the books are read: what they began is finished then.
    try_join_all(nodes.into_iter().map(stop)).await?;

    let sale = read(&database, voucher, &crowd, written_later).await;
    database.close().await;
    Ok(RushReport::new(rung, terms, seed, &sale?, &crowd))
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

fn plan(
    nodes: Vec<SocketAddr>,
    rung: &Rung,
    voucher: VoucherId,
    first_user: i64,
    terms: RushOptions,
    seed: u64,
) -> CrowdPlan {
    let buyer = |i: usize| {
        let number: Arc<str> = (first_user + i as i64).to_string().into();
        Buyer {
            user_id: Arc::clone(&number),
            token: number,
            attempts: Some(RushOptions::attempts(i)),
            path: None,
        }
    };
    CrowdPlan {
        nodes,
        path: format!("/lab/{}/vouchers/{voucher}/orders", rung.id).into(),
        buyers: (0..terms.users as usize).map(buyer).collect(),
        attempts: 1,
        max_connections: terms.seconds.map_or(MAX_CONNECTIONS, |_| STEADY_CONNECTIONS),
        seed,
        answer_timeout_ms: ANSWER_WITHIN.as_millis() as u64,
        total_timeout_ms: RUSH_WITHIN.as_millis() as u64,
        for_ms: terms.seconds.map(|seconds| u64::from(seconds) * 1000),
    }
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
    Ok(SaleResult { books: books(&audit, audit.orders, lost), twice, written_later })
}
