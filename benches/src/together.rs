//! Tasks that begin together, and how long it takes until all have ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// From the moment when all of `tasks` tasks stand ready until the last has done what `work`
/// makes of its number.
///
/// # Errors
/// The first of any of them.
pub async fn run<W>(tasks: usize, work: impl Fn(usize) -> W) -> anyhow::Result<Duration>
where
    W: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let start = Arc::new(Barrier::new(tasks + 1));
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (work, start) = (work(task), Arc::clone(&start));
        running.spawn(async move {
            start.wait().await;
            work.await
        });
    }
    start.wait().await;
    let begun = Instant::now();
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(begun.elapsed())
}

/// What `measurement` brings, for criterion, which knows no failure.
///
/// # Panics
/// When it fails: a figure in which something did not happen is none.
pub fn or_panic(
    runtime: &Runtime,
    name: &str,
    measurement: impl Future<Output = anyhow::Result<Duration>>,
) -> Duration {
    match runtime.block_on(measurement) {
        Ok(took) => took,
        Err(error) => panic!("{name}: {error:#}"),
    }
}
