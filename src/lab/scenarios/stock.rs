//! Many buyers, one stock.

use crate::lab::Stage;
use crate::lab::stage::Buyer;
use crate::ladder::Point;

/// Where the rungs have looked at the stock, or at the orders, and not written yet; or, where they
/// do not look, have written and not committed.
const LOOKED: [Point; 3] = [Point::StockRead, Point::OrdersCounted, Point::Committing];

/// Two buyers both see the last voucher.
pub(super) async fn last_one(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let voucher = stage.voucher(1).await?;
    let node = stage.node().await?;
    let a = stage.enter("A", node, Buyer::new(0, voucher)).await?;
    let b = stage.enter("B", node, Buyer::new(1, voucher)).await?;
    stage.must_reach(a, &LOOKED).await?;
    stage.until_first(b, &LOOKED).await?;
    stage.finish_all(&[a, b]).await
}

/// Many buyers all read the same stock before any of them writes.
pub(super) async fn herd(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    const HERD: [&str; 5] = ["A", "B", "C", "D", "E"];
    let voucher = stage.voucher(HERD.len() as i32).await?;
    let node = stage.node().await?;
    let mut buyers = Vec::new();
    for (user, name) in (0..).zip(HERD) {
        buyers.push(stage.enter(name, node, Buyer::new(user, voucher)).await?);
    }
    stage.must_reach(buyers[0], &LOOKED).await?;
    for buyer in &buyers[1..] {
        stage.until_first(*buyer, &LOOKED).await?;
    }
    stage.finish_all(&buyers).await
}
