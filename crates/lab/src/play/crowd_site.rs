//! What a crowd at this server is made of: buyers, a plan, a verdict. The board sends crowds, and so does
//! the stage.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::crowd_verdict::CrowdVerdict;
use load::crowd::{Buyer, CrowdPlan, CrowdReport};
use seckill::http::address::reachable;
use seckill::http::audits::AUDITED_WITHIN;
use seckill::http::tokens::Tokens;
use seckill::model::{UserId, VoucherId};
use seckill::purchase::audit;
use seckill::store::{Database, StoreError};
use seckill_tools::tokens;

/// Connections of a crowd: so few that the people who watch are answered in the middle of it. With 2,048
/// a busy machine showed them nothing until it was over.
pub(super) const MAX_CONNECTIONS: usize = 256;
/// How long one answer may take.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long the whole crowd may take.
pub(super) const CROWD_WITHIN: Duration = Duration::from_secs(300);

/// The users of a crowd, with their tokens.
pub(super) type CrowdUsers = Vec<(UserId, String)>;

/// What crowds are made of.
pub(super) struct CrowdSite {
    /// Where their users and the orders are.
    pub database: Database,
    /// Signs their tokens.
    pub tokens: Tokens,
    /// Where the server listens.
    pub address: SocketAddr,
    /// Connections that the server takes from one address.
    pub max_connections: usize,
}

impl CrowdSite {
    /// Makes so many buyers.
    pub(super) async fn buyers(self: &Arc<Self>, count: u32) -> anyhow::Result<CrowdUsers> {
        // In a task of its own: a crowd that is stopped must not break off a transaction.
        let maker = Arc::clone(self);
        let making =
            tokio::spawn(
                async move { tokens::mint(&maker.database, &maker.tokens, None, count).await },
            );
        let made = making.await.map_err(anyhow::Error::from).and_then(|made| made);
        made.context("the crowd's users could not be made")
    }

    /// All of them at once, in an order drawn from `seed`.
    pub(super) fn plan(
        &self,
        voucher: VoucherId,
        buyers: &[(UserId, String)],
        attempts: usize,
        seed: u64,
    ) -> CrowdPlan {
        CrowdPlan {
            nodes: vec![reachable(self.address)],
            path: format!("/api/vouchers/{voucher}/orders").into(),
            buyers: buyers.iter().map(Buyer::from).collect(),
            attempts,
            max_connections: self.max_connections.min(MAX_CONNECTIONS),
            seed,
            answer_timeout_ms: ANSWER_WITHIN.as_millis() as u64,
            total_timeout_ms: CROWD_WITHIN.as_millis() as u64,
            for_ms: None,
            arrive_within_ms: None,
            tells_buyers: false,
        }
    }

    /// Audits the database, and holds it against what these buyers were told.
    pub(super) async fn judge(
        &self,
        voucher: VoucherId,
        buyers: &[(UserId, String)],
        report: &CrowdReport,
    ) -> anyhow::Result<CrowdVerdict> {
        let (Some((first, _)), Some((last, _))) = (buyers.first(), buyers.last()) else {
            anyhow::bail!("the crowd has no users");
        };
        let (users, pool) = ((*first, *last), self.database.pool());
        let audited = async {
            let orders = audit::count_orders_of(pool, voucher, users).await?;
            let lost = audit::count_lost(pool, voucher, &report.told().acknowledged_ids()).await?;
            Ok((orders, lost, audit::run_within(AUDITED_WITHIN, &self.database, voucher).await?))
        };
        let audited: Result<_, StoreError> = audited.await;
        let (orders, lost, audit) = audited.context("the database could not be audited")?;
        let audit = audit.context("the voucher is gone from the database")?;
        Ok(CrowdVerdict::new(audit, orders, lost, report))
    }
}
