//! Many buyers, one stock.

use crate::Scheduler;
use crate::scheduler::Attempt;
use crate::told::Event;
use ladder::{Capability, Point, SEGMENTS};

/// Where the rungs have looked at the stock, or at the orders, and not written yet; or, where they
/// do not look, have written and not committed; or, where Redis decides, have taken there.
const LOOKED: [Point; 4] =
    [Point::StockRead, Point::OrdersCounted, Point::Committing, Point::TakenInRedis];

/// Two buyers both see the last voucher.
pub(super) async fn last_one(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(1).await?;
    let node = scheduler.node().await?;
    let a = scheduler.enter("A", node, Attempt::new(0, voucher)).await?;
    // Where the stock is in segments, somebody whose segment is the same.
    let rival = if scheduler.rung.can(Capability::Segments) { SEGMENTS } else { 1 };
    let b = scheduler.enter("B", node, Attempt::new(rival, voucher)).await?;
    scheduler.must_reach(a, &LOOKED).await?;
    scheduler.until_first(b, &LOOKED).await?;
    scheduler.finish_all(&[a, b]).await
}

/// Many buyers all read the same stock before any of them writes.
pub(super) async fn herd(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    const HERD: [&str; 5] = ["A", "B", "C", "D", "E"];
    let voucher = scheduler.voucher(HERD.len() as i32).await?;
    let node = scheduler.node().await?;
    let mut buyers = Vec::new();
    for (user, name) in (0..).zip(HERD) {
        buyers.push(scheduler.enter(name, node, Attempt::new(user, voucher)).await?);
    }
    scheduler.must_reach(buyers[0], &LOOKED).await?;
    for buyer in &buyers[1..] {
        scheduler.until_first(*buyer, &LOOKED).await?;
    }
    scheduler.finish_all(&buyers).await
}

/// A buyer takes the one voucher of a segment; the next one of the same segment comes, and another
/// segment has the other voucher.
pub(super) async fn other_segment(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(2).await?;
    let node = scheduler.node().await?;
    scheduler.log.say(Event::Segments { segments: SEGMENTS });
    scheduler.buys("A", node, 0).await?;
    scheduler.buys("B", node, SEGMENTS).await?;
    Ok(())
}
