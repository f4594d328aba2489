//! All rungs' services in one process; and the one service of a node.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use sqlx::postgres::PgPool;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::buyers::Register;
use super::routes;
use super::rung_service::{RungService, Supply};
use super::state::{FIRST_STOCK, LabState, OnSale};
use crate::sale;
use crate::world::World;
use ladder::{RUNGS, Resources, Rung, Tables};
use seckill::http::server::{self, ServerLimits};

/// Files that are not connections of clients: each rung may have some to its servers.
const OTHER_FILES: u64 = 512;
/// Connections at once, where the system allows that many open files.
const MAX_CONNECTIONS: u64 = 16_384;
/// How long the end waits for purchases under way.
const FINISHED_WITHIN: Duration = Duration::from_secs(30);
/// How long connections to the database may take to close.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);
/// The users without a number of their own begin above this, so that none of them is a user with
/// one; those of each node above a multiple of it.
const STRANGERS: i64 = 1_000_000_000;

/// Where rungs sell.
pub struct LabServer {
    state: Arc<LabState>,
    /// Pools that are closed in the end.
    pools: Vec<PgPool>,
    _registers: Vec<AbortOnDropHandle<()>>,
}

/// What the rungs with the same tables share.
struct Floor {
    url: String,
    /// For what is not a purchase.
    looks: PgPool,
    sales: PgPool,
    register: Register,
    writing: AbortOnDropHandle<()>,
}

impl Floor {
    fn open(url: String) -> anyhow::Result<Self> {
        let looks = sale::connections(&url)?;
        let sales = Resources::open(&url, &[], None, "")?.database;
        let (register, writing) = Register::open(looks.clone());
        Ok(Self { url, looks, sales, register, writing })
    }
}

impl LabServer {
    /// Every rung on the lab's servers, each with a voucher on sale; `address` is where they
    /// will be served.
    ///
    /// # Errors
    /// When the lab's database cannot be reached.
    pub async fn open(world: &Arc<World>, address: SocketAddr) -> anyhow::Result<Self> {
        let bare = Floor::open(world.database_url(Tables::Bare)?)?;
        let guarded = Floor::open(world.database_url(Tables::Guarded)?)?;
        let mut services = Vec::new();
        for rung in RUNGS {
            let floor = match rung.tables {
                Tables::Bare => &bare,
                Tables::Guarded => &guarded,
            };
            let (_, key_prefix) = world.next_cell();
            let supply = Supply::Started {
                world: Arc::downgrade(world),
                database: floor.sales.clone(),
                database_url: floor.url.clone(),
                key_prefix,
            };
            let (looks, register) = (floor.looks.clone(), floor.register.clone());
            services.push(RungService::new(rung, supply, looks, Some(register)));
        }
        let mut state = LabState::new(address, services, STRANGERS);
        for service in &state.services {
            // No client is there yet: this error is for the terminal.
            let voucher = service.put_on_sale(FIRST_STOCK).await;
            state.first.push(voucher.map_err(|why| anyhow!("cannot put on sale: {why:?}"))?);
        }
        let pools = [&bare, &guarded].map(|floor| [floor.looks.clone(), floor.sales.clone()]);
        Ok(Self {
            state: Arc::new(state),
            pools: pools.concat(),
            _registers: vec![bare.writing, guarded.writing],
        })
    }

    /// What is on sale.
    pub fn on_sale(&self) -> impl Iterator<Item = OnSale> {
        self.state.on_sale()
    }

    /// Serves until `stop` resolves, then finishes what was begun.
    ///
    /// # Errors
    /// When the limit on open files cannot be read.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let files = rlimit::increase_nofile_limit(u64::MAX)?;
        let connections = files.saturating_sub(OTHER_FILES).clamp(1, MAX_CONNECTIONS);
        let router = routes::router(Arc::clone(&self.state));
        server::serve(listener, router, ServerLimits::of(connections as usize), stop).await;
        // Also the purchases of buyers who left before they were answered.
        self.state.purchases.close();
        if timeout(FINISHED_WITHIN, self.state.purchases.wait()).await.is_err() {
            tracing::warn!("purchases that were not through in time are cut off");
        }
        for service in &self.state.services {
            service.close().await;
        }
        for pool in &self.pools {
            let _ = timeout(CLOSED_WITHIN, pool.close()).await;
        }
        Ok(())
    }
}

/// Serves one rung alone, on a free port, until `stop` resolves; `ready` is told where.
pub(crate) async fn node(
    rung: &'static Rung,
    resources: Resources,
    ready: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let listener = server::listen((Ipv4Addr::LOCALHOST, 0).into())?;
    let address = listener.local_addr()?;
    let looks = sale::connections(&resources.database_url)?;
    let pools = vec![looks.clone(), resources.database.clone()];
    let service = RungService::new(rung, Supply::Given(resources), looks, None);
    service.open().await?;
    let strangers = STRANGERS.saturating_mul(1 + i64::from(std::process::id()));
    let state = Arc::new(LabState::new(address, vec![service], strangers));
    ready(address);
    LabServer { state, pools, _registers: Vec::new() }.serve(listener, stop).await
}
