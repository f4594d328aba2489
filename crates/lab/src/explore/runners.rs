//! The schedules of a walk, several at a time, each by a runner of its own.

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::schedule::ExploreStep;
use super::walk::{Branch, Walk};

/// Plays what the walk asks for until it asks for nothing more, and returns the runners. `heard` is told
/// of each schedule, in the order in which they end, with how many more are known of.
///
/// # Errors
/// The first of `play`; what the other runners were about is dropped.
pub(super) async fn play_all<R, P>(
    mut idle: Vec<R>,
    mut walk: Walk<ExploreStep>,
    play: impl AsyncFn(&mut R, &[ExploreStep]) -> anyhow::Result<P>,
    branches: impl Fn(&P) -> &[Branch<ExploreStep>],
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
