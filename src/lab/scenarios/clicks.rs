//! One user, two requests.

use crate::lab::Stage;
use crate::lab::stage::{Buyer, Node};
use crate::ladder::Point;

/// Where a rung has counted the user's orders; or, where the database counts, has written and not
/// committed. One that does not count at all runs through: a second request is sold to anyway.
const COUNTED: [Point; 2] = [Point::OrdersCounted, Point::Committing];

/// One user, two requests at once, one process.
pub(super) async fn double_click(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let node = stage.node().await?;
    twice(stage, [node, node]).await
}

/// One user, one request to each of two processes.
pub(super) async fn two_nodes(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let nodes = [stage.node().await?, stage.node().await?];
    twice(stage, nodes).await
}

/// Both look before either writes, where they are let in together.
async fn twice(stage: &mut Stage<'_>, nodes: [Node; 2]) -> anyhow::Result<()> {
    let voucher = stage.voucher(2).await?;
    let a = stage.enter("A", nodes[0], Buyer::new(0, voucher)).await?;
    let b = stage.enter("B", nodes[1], Buyer::new(0, voucher)).await?;
    stage.until_first(a, &COUNTED).await?;
    stage.until_first(b, &COUNTED).await?;
    stage.finish_all(&[a, b]).await
}

/// The second request enters when the first has given back the lock: before its commit, where
/// the rung does it in that order.
pub(super) async fn early_release(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let voucher = stage.voucher(2).await?;
    let node = stage.node().await?;
    let a = stage.enter("A", node, Buyer::new(0, voucher)).await?;
    let b = stage.enter("B", node, Buyer::new(0, voucher)).await?;
    stage.must_reach(a, &[Point::Committing]).await?;
    stage.until(b, Point::OrdersCounted).await?;
    stage.finish_all(&[a, b]).await
}
