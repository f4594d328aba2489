//! The schedules of a walk, several at a time, each by a runner of its own.

use anyhow::bail;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::walk::{Branch, Walk, default_choice};
use crate::game::{Schedule, Step};

/// Plays one schedule, step by step.
pub(super) trait Runner {
    /// The steps that can be taken now: those of the actors first. None when no actor can go on.
    async fn possible(&self) -> anyhow::Result<Vec<Step>>;

    /// Takes a step.
    async fn take(&mut self, step: Step) -> anyhow::Result<()>;
}

/// Takes the steps of `prefix`, and default choices after them. `branches` also has what was done before
/// a step that failed.
pub(super) async fn play_prefix(
    runner: &mut impl Runner,
    prefix: &[Step],
    branches: &mut Vec<Branch<Step>>,
) -> anyhow::Result<()> {
    let mut before = Vec::new();
    loop {
        let possible = runner.possible().await?;
        let planned = prefix.get(before.len()).copied();
        let Some(chosen) = planned.or_else(|| default_choice(&possible, &before)) else {
            return Ok(());
        };
        let is_possible = possible.contains(&chosen);
        before.push(chosen);
        if !is_possible {
            bail!("the last step of {} was not possible", Schedule(before));
        }
        branches.push(Branch { possible, chosen });
        runner.take(chosen).await?;
    }
}

/// Plays what the walk asks for until it asks for nothing more, and returns the runners. `heard` is told
/// of each schedule, in the order in which they end, with how many more are known of.
pub(super) async fn play_all<R, P>(
    mut idle: Vec<R>,
    mut walk: Walk<Step>,
    play: impl AsyncFn(&mut R, &[Step]) -> anyhow::Result<P>,
    branches: impl Fn(&P) -> &[Branch<Step>],
    mut heard: impl FnMut(P, usize),
) -> anyhow::Result<Vec<R>> {
    let play = &play;
    let mut busy = FuturesUnordered::new();
    loop {
        while let Some(mut runner) = idle.pop() {
            let Some(prefix) = walk.next() else {
                idle.push(runner);
                break;
            };
            busy.push(async move {
                let played = play(&mut runner, &prefix).await;
                (runner, prefix, played)
            });
        }
        let Some((runner, prefix, played)) = busy.next().await else { break };
        let played = played?;
        walk.played(prefix.len(), branches(&played));
        heard(played, walk.open() + busy.len());
        idle.push(runner);
    }
    drop(busy);
    Ok(idle)
}
