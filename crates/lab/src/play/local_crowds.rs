//! What `POST /api/crowds` sends: a crowd from a process of its own, at this server, and its verdict.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rand::RngExt;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::crowd_sender::{CrowdBody, CrowdPhase, NewCrowd};
use super::crowd_verdict::CrowdVerdict;
use load::crowd::{Buyer, CrowdPlan};
use load::crowd_process;
use program::sibling::Sibling;
use seckill::http::address::reachable;
use seckill::http::audits::AUDITED_WITHIN;
use seckill::http::tokens::Tokens;
use seckill::purchase::audit;
use seckill::store::Database;
use seckill_tools::tokens;

/// Connections of a crowd: so few that the people who watch are answered in the middle of it. With 2,048
/// a busy machine showed them nothing until it was over.
const MAX_CONNECTIONS: usize = 256;
/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long the whole crowd may take.
const CROWD_WITHIN: Duration = Duration::from_secs(300);

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

/// Sends crowds at this server.
pub(super) struct LocalCrowds {
    exe: PathBuf,
    site: Arc<CrowdSite>,
    runtime: Handle,
    last: Mutex<Option<LastCrowd>>,
}

impl std::fmt::Debug for LocalCrowds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LocalCrowds").finish_non_exhaustive()
    }
}

/// The crowd that was sent last.
struct LastCrowd {
    status: CrowdStatus,
    task: AbortHandle,
}

impl LastCrowd {
    fn body(&self) -> CrowdBody {
        // A panic ends the task without a word. In this order: a task that ends after the first look
        // has said so by the second.
        let has_ended = self.task.is_finished();
        let mut body = self.status.lock();
        if has_ended && !body.phase.is_over() {
            body.phase = CrowdPhase::Failed;
            body.failure = Some("the server met a defect".to_owned());
        }
        body.clone()
    }

    fn stop(&self) {
        // Its process ends with the task, which holds it.
        self.task.abort();
        let mut body = self.status.lock();
        if !body.phase.is_over() {
            body.phase = CrowdPhase::Stopped;
        }
    }
}

/// How far a crowd is, for the one who sends it and those who ask.
#[derive(Clone)]
struct CrowdStatus(Arc<Mutex<CrowdBody>>);

impl CrowdStatus {
    fn lock(&self) -> MutexGuard<'_, CrowdBody> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is said of a crowd that was not stopped meanwhile.
    fn update(&self, change: impl FnOnce(&mut CrowdBody)) {
        let mut body = self.lock();
        if !body.phase.is_over() {
            change(&mut body);
        }
    }
}

impl LocalCrowds {
    /// Crowds at `site`. They are sent from the runtime on which this is called.
    ///
    /// # Errors
    /// When the program that sends crowds is not there.
    pub(super) fn new(site: CrowdSite) -> anyhow::Result<Self> {
        let exe = Sibling::Tools.path()?;
        let (site, runtime) = (Arc::new(site), Handle::current());
        Ok(Self { exe, site, runtime, last: Mutex::default() })
    }

    fn last(&self) -> MutexGuard<'_, Option<LastCrowd>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocalCrowds {
    /// Begins to send a crowd whose sale begins in so long; `None`: another one is under way.
    pub(super) fn start(&self, crowd: NewCrowd, begins_in: Duration) -> Option<CrowdBody> {
        let mut last = self.last();
        if last.as_ref().is_some_and(|last| !last.body().phase.is_over()) {
            return None;
        }
        let total =
            u64::from(crowd.users.unsigned_abs()) * u64::from(crowd.attempts.unsigned_abs());
        let phase = CrowdPhase::Preparing;
        let body = CrowdBody { crowd, phase, done: 0, total, verdict: None, failure: None };
        let status = CrowdStatus(Arc::new(Mutex::new(body.clone())));
        let (exe, site) = (self.exe.clone(), Arc::clone(&self.site));
        let begins_at = Instant::now() + begins_in;
        let sending = run(exe, site, crowd, begins_at, status.clone());
        let task = self.runtime.spawn(sending).abort_handle();
        *last = Some(LastCrowd { status, task });
        Some(body)
    }

    /// The crowd that was sent last.
    pub(super) fn current(&self) -> Option<CrowdBody> {
        self.last().as_ref().map(LastCrowd::body)
    }

    /// Stops it, if it is under way, and waits for nothing.
    pub(super) fn stop(&self) {
        if let Some(last) = &*self.last() {
            last.stop();
        }
    }
}

async fn run(
    exe: PathBuf,
    site: Arc<CrowdSite>,
    crowd: NewCrowd,
    begins_at: Instant,
    status: CrowdStatus,
) {
    let judged = judged(exe, site, crowd, begins_at, &status).await;
    status.update(|body| match judged {
        Ok(verdict) => {
            body.phase = CrowdPhase::Ended;
            body.verdict = Some(verdict);
        }
        Err(error) => {
            tracing::warn!("a crowd failed: {error:#}");
            body.phase = CrowdPhase::Failed;
            body.failure = Some(error.to_string());
        }
    });
}

/// Makes the buyers, sends them, and judges what came of it.
async fn judged(
    exe: PathBuf,
    site: Arc<CrowdSite>,
    crowd: NewCrowd,
    begins_at: Instant,
    status: &CrowdStatus,
) -> anyhow::Result<CrowdVerdict> {
    let (database, voucher) = (&site.database, crowd.voucher_id);
    // In a task of its own: a crowd that is stopped must not break off a transaction.
    let maker = Arc::clone(&site);
    let making = tokio::spawn(async move {
        let users = crowd.users.unsigned_abs();
        tokens::mint(&maker.database, &maker.tokens, None, users).await
    });
    let made = making.await.map_err(anyhow::Error::from).and_then(|made| made);
    let buyers = made.context("the crowd's users could not be made")?;
    let (Some((first, _)), Some((last, _))) = (buyers.first(), buyers.last()) else {
        anyhow::bail!("the crowd has no users");
    };
    let users = (*first, *last);
    let plan = CrowdPlan {
        nodes: vec![reachable(site.address)],
        path: format!("/api/vouchers/{voucher}/orders").into(),
        buyers: buyers.iter().map(Buyer::from).collect(),
        attempts: crowd.attempts.unsigned_abs() as usize,
        max_connections: site.max_connections.min(MAX_CONNECTIONS),
        seed: rand::rng().random(),
        answer_timeout_ms: ANSWER_WITHIN.as_millis() as u64,
        total_timeout_ms: CROWD_WITHIN.as_millis() as u64,
        for_ms: None,
    };
    sleep_until(begins_at).await;
    status.update(|body| body.phase = CrowdPhase::Running);
    let report = crowd_process::send(&exe, &plan, |done| status.update(|body| body.done = done));
    let report = report.await.context("the crowd could not be sent")?;
    status.update(|body| (body.phase, body.done) = (CrowdPhase::Auditing, body.total));
    let pool = database.pool();
    let audited = async {
        let orders = audit::count_orders_of(pool, voucher, users).await?;
        let lost = audit::count_lost(pool, voucher, &report.told().acknowledged_ids()).await?;
        Ok((orders, lost, audit::run_within(AUDITED_WITHIN, database, voucher).await?))
    };
    let audited: Result<_, seckill::store::StoreError> = audited.await;
    let (orders, lost, audit) = audited.context("the database could not be audited")?;
    let audit = audit.context("the voucher is gone from the database")?;
    Ok(CrowdVerdict::new(audit, orders, lost, &report))
}
