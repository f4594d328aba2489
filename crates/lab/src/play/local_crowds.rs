//! What `POST /api/crowds` sends: a crowd from a process of its own, at this server, and its verdict.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rand::RngExt;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::crowd_sender::{CrowdBody, CrowdPhase, NewCrowd};
use super::crowd_site::CrowdSite;
use super::crowd_verdict::CrowdVerdict;
use load::crowd_process;
use program::sibling::Sibling;

/// Sends crowds at this server.
pub(super) struct LocalCrowds {
    exe: PathBuf,
    site: Arc<CrowdSite>,
    runtime: Handle,
    crowds: Mutex<Crowds>,
}

/// What is known of crowds.
#[derive(Default)]
struct Crowds {
    last: Option<LastCrowd>,
    /// Whether somebody else sends one.
    is_reserved: bool,
}

impl Crowds {
    fn are_under_way(&self) -> bool {
        self.is_reserved || self.last.as_ref().is_some_and(|last| !last.body().phase.is_over())
    }
}

/// The right to send the one crowd that may be under way.
pub(super) struct CrowdPlace(Arc<LocalCrowds>);

impl Drop for CrowdPlace {
    fn drop(&mut self) {
        self.0.lock().is_reserved = false;
    }
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
        Ok(Self { exe, site, runtime, crowds: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Crowds> {
        self.crowds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program that sends crowds.
    pub(super) fn exe(&self) -> &Path {
        &self.exe
    }

    /// What they are made of.
    pub(super) fn site(&self) -> &Arc<CrowdSite> {
        &self.site
    }

    /// The place of the one crowd that may be under way, for somebody else; `None`: it is taken.
    pub(super) fn reserve(self: &Arc<Self>) -> Option<CrowdPlace> {
        let mut crowds = self.lock();
        if crowds.are_under_way() {
            return None;
        }
        crowds.is_reserved = true;
        Some(CrowdPlace(Arc::clone(self)))
    }
}

impl LocalCrowds {
    /// Begins to send a crowd whose sale begins in so long; `None`: another one is under way.
    pub(super) fn start(&self, crowd: NewCrowd, begins_in: Duration) -> Option<CrowdBody> {
        let mut crowds = self.lock();
        if crowds.are_under_way() {
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
        crowds.last = Some(LastCrowd { status, task });
        Some(body)
    }

    /// The crowd that was sent last.
    pub(super) fn current(&self) -> Option<CrowdBody> {
        self.lock().last.as_ref().map(LastCrowd::body)
    }

    /// Stops it, if it is under way, and waits for nothing.
    pub(super) fn stop(&self) {
        if let Some(last) = &self.lock().last {
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
    let buyers = site.buyers(crowd.users.unsigned_abs()).await?;
    let attempts = crowd.attempts.unsigned_abs() as usize;
    let plan = site.plan(crowd.voucher_id, &buyers, attempts, rand::rng().random());
    sleep_until(begins_at).await;
    status.update(|body| body.phase = CrowdPhase::Running);
    let report = crowd_process::send(&exe, &plan, |done| status.update(|body| body.done = done));
    let report = report.await.context("the crowd could not be sent")?;
    status.update(|body| (body.phase, body.done) = (CrowdPhase::Auditing, body.total));
    site.judge(crowd.voucher_id, &buyers, &report).await
}
