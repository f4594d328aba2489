//! One owner, more than one hold; one who waits.

use crate::lab::Stage;
use crate::lab::stage::{Buyer, Stop};
use crate::ladder::{Answer, Point};

/// The holder calls code that takes the same lock.
pub(super) async fn nested(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (wanted, on_the_way) = (stage.voucher(1).await?, stage.voucher(1).await?);
    let node = stage.node().await?;
    let a = stage.enter("A", node, Buyer::new(0, wanted).and(on_the_way)).await?;
    if stage.finish(a).await? == Stop::Waits {
        stage.broken("A waits for a lock that A itself holds");
    } else if stage.orders(on_the_way).await? == 0 {
        stage.broken("A is turned away by the lock that A itself holds");
    } else if stage.orders(wanted).await? == 0 {
        stage.broken("A cannot go on after the purchase made on the way");
    }
    Ok(())
}

/// The release falls between a waiter's miss and its subscription.
pub(super) async fn lost_wakeup(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let voucher = stage.voucher(2).await?;
    let nodes = [stage.node().await?, stage.node().await?];
    let a = stage.enter("A", nodes[0], Buyer::new(0, voucher)).await?;
    let b = stage.enter("B", nodes[1], Buyer::new(0, voucher)).await?;
    stage.until(a, Point::OrdersCounted).await?;
    stage.until(b, Point::Missed).await?;
    stage.finish(a).await?;
    stage.finish_all(&[b]).await?;
    match stage.answer(b) {
        Some(Stop::Done(Answer::Ordered(_) | Answer::AlreadyBought)) => {}
        _ => stage.broken("B slept through the release"),
    }
    Ok(())
}
