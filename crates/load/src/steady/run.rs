//! A steady load from its plan to its report: connections are opened, threads started, and
//! what they have counted is put together.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::task::JoinSet;

use super::part::{self, LoadShared};
use super::plan::SteadyPlan;
use super::report::SteadyReport;
use super::sum::Counted;
use crate::LoadError;
use crate::connection::open_stream;
use crate::open_files::check_connections;
use crate::rush::{OPEN_TRIES, OPENING_AT_ONCE, Progress};

/// How long the opening of all connections may take.
const OPENING_TIMEOUT: Duration = Duration::from_secs(60);

/// The fewest connections worth a thread.
const MIN_CONNECTIONS_A_THREAD: usize = 16;

/// Carries out the plan and waits for all outcomes. Dropping the future ends the load.
/// `progress` tells the milliseconds since its start.
///
/// # Errors
///
/// A [`LoadError`] when the plan cannot be carried out; then nothing has been sent, unless
/// [`LoadError::outcome_unknown`]. What servers answer is no error.
pub async fn run(plan: SteadyPlan, progress: Arc<Progress>) -> Result<SteadyReport, LoadError> {
    // One for each core, as the server has: with fewer, server and load would take turns.
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = cores.min(plan.connections / MIN_CONNECTIONS_A_THREAD).max(1);
    run_on(threads, plan, progress).await
}

/// The same on so many threads, of which each has its share of the connections and of the
/// arrivals, and a line of its own.
///
/// # Errors
///
/// As [`run`].
pub async fn run_on(
    threads: usize,
    plan: SteadyPlan,
    progress: Arc<Progress>,
) -> Result<SteadyReport, LoadError> {
    plan.check()?;
    let (connections, spans) = (plan.connections, plan.spans());
    check_connections(connections)?;
    let deadline = tokio::time::Instant::now() + OPENING_TIMEOUT;
    let opening = (0..connections).map(|index| {
        let node = index % plan.nodes.len();
        let address = plan.nodes[node];
        async move {
            let stream = open_stream(address, OPEN_TRIES, deadline).await;
            let stream = stream.and_then(tokio::net::TcpStream::into_std);
            let stream = stream.map_err(|source| LoadError::Connect { node: address, source })?;
            Ok::<_, LoadError>((node, stream))
        }
    });
    let opening = stream::iter(opening).buffered(OPENING_AT_ONCE);
    let mut streams: Vec<_> = opening.try_collect().await?;

    let threads = threads.clamp(1, connections);
    let job = Arc::new(LoadShared {
        plan,
        ready: Barrier::new(threads),
        start: OnceLock::new(),
        next: AtomicU64::new(0),
        exhausted: AtomicBool::new(false),
        abandoned: AtomicBool::new(false),
        progress,
    });
    let _abandon = AbandonOnDrop(Arc::clone(&job));
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtimes = (0..threads).map(|_| runtime()).collect::<Result<Vec<_>, _>>();
    let mut running = JoinSet::new();
    for (part, runtime) in runtimes.map_err(LoadError::Wait)?.into_iter().enumerate().rev() {
        let share = streams.split_off(connections * part / threads);
        let job = Arc::clone(&job);
        running.spawn_blocking(move || part::run(&runtime, &job, (part, threads), share));
    }
    let mut counted = Counted::default();
    while let Some(ended) = running.join_next().await {
        counted.add(ended.map_err(LoadError::WorkerDied)?.map_err(LoadError::Wait)?);
    }
    Ok(counted.report(&spans, connections, job.exhausted.load(Ordering::Relaxed)))
}

/// Threads are not ended by being dropped: they are told.
struct AbandonOnDrop(Arc<LoadShared>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.abandoned.store(true, Ordering::Relaxed);
    }
}
