//! One user, two requests.

use crate::Scheduler;
use crate::scheduler::{Attempt, NodeIndex};
use ladder::Point;

/// Where a rung has counted the user's orders; or, where the database counts, has written and not
/// committed; or, where Redis decides, has taken there. One that does not count at all runs
/// through: a second request is sold to anyway.
const COUNTED: [Point; 3] = [Point::OrdersCounted, Point::Committing, Point::TakenInRedis];

/// One user, two requests at once, one process.
pub(super) async fn double_click(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let node = scheduler.node().await?;
    twice(scheduler, [node, node]).await
}

/// One user, one request to each of two processes.
pub(super) async fn two_nodes(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let nodes = [scheduler.node().await?, scheduler.node().await?];
    twice(scheduler, nodes).await
}

/// Both look before either writes, where they are let in together.
async fn twice(scheduler: &mut Scheduler<'_>, nodes: [NodeIndex; 2]) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(2).await?;
    let a = scheduler.enter("A", nodes[0], Attempt::new(0, voucher)).await?;
    let b = scheduler.enter("B", nodes[1], Attempt::new(0, voucher)).await?;
    scheduler.until_first(a, &COUNTED).await?;
    scheduler.until_first(b, &COUNTED).await?;
    scheduler.finish_all(&[a, b]).await
}

/// The second request enters when the first has given back the lock: before its commit, where
/// the rung does it in that order.
pub(super) async fn early_release(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(2).await?;
    let node = scheduler.node().await?;
    let a = scheduler.enter("A", node, Attempt::new(0, voucher)).await?;
    let b = scheduler.enter("B", node, Attempt::new(0, voucher)).await?;
    scheduler.must_reach(a, &[Point::Committing]).await?;
    scheduler.until(b, Point::OrdersCounted).await?;
    scheduler.finish_all(&[a, b]).await
}
