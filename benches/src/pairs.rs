//! Uncontended: acquire and release in turn, in many tasks, each with a name of its own.

use std::time::Duration;

use crate::contender::Contender;
use crate::together;

/// How long `tasks` tasks take for `rounds` pairs each.
///
/// # Errors
/// The first of any of them.
pub async fn run<C: Contender>(
    contender: &C,
    tasks: usize,
    rounds: u64,
) -> anyhow::Result<Duration> {
    together::run(tasks, |task| {
        let contender = contender.clone();
        // The length of the names that the purchase locks.
        let name = format!("{}:order:{task:06}", C::NAME);
        async move {
            for _ in 0..rounds {
                let held = contender.acquire(&name).await?;
                C::release(held).await?;
            }
            Ok(())
        }
    })
    .await
}

/// Pairs a second, from a measurement of about this duration.
///
/// # Errors
/// As [`run`].
pub async fn per_second<C: Contender>(
    contender: &C,
    tasks: usize,
    duration: Duration,
) -> anyhow::Result<f64> {
    // Connects, loads the scripts, and tells how many rounds will take so long.
    const TRIAL: u64 = 200;
    run(contender, tasks, TRIAL).await?;
    let trial = run(contender, tasks, TRIAL).await?;
    let rounds = (TRIAL as f64 * duration.as_secs_f64() / trial.as_secs_f64()).ceil() as u64;
    let took = run(contender, tasks, rounds).await?;
    Ok((rounds * tasks as u64) as f64 / took.as_secs_f64())
}
