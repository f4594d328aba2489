//! Holders who die, and work that outlives its lease.

use anyhow::bail;

use crate::lab::Stage;
use crate::lab::leases::LeaseEnd;
use crate::lab::stage::{Buyer, Node, Stop};
use crate::ladder::{Answer, Point};

/// How far a second request gets: in, or to the lock's door.
pub(super) const IN_OR_AT_THE_DOOR: [Point; 2] = [Point::Missed, Point::OrdersCounted];

/// The holder is killed while it holds.
pub(super) async fn holder_dies(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    dies_at(stage, &[Point::Locked]).await
}

/// The holder is killed between the two commands of its acquire; after the only one, where there
/// is but one.
pub(super) async fn dies_between(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    dies_at(stage, &[Point::KeySet, Point::Locked]).await
}

async fn dies_at(stage: &mut Stage<'_>, points: &[Point]) -> anyhow::Result<()> {
    let voucher = stage.voucher(2).await?;
    let (first, second) = (stage.node().await?, stage.node().await?);
    let a = stage.enter("A", first, Buyer::new(0, voucher).short()).await?;
    let b = stage.enter("B", second, Buyer::new(0, voucher)).await?;
    stage.must_reach(a, points).await?;
    stage.kill(first).await?;
    let end = stage.lease_over(0).await?;
    stage.finish_all(&[b]).await?;
    match stage.answer(b) {
        Some(Stop::Done(Answer::Ordered(_) | Answer::AlreadyBought)) => {}
        _ if end == LeaseEnd::Never => stage.broken("user 1 is locked out for ever"),
        _ => stage.broken("user 1 is locked out though the lease has ended"),
    }
    Ok(())
}

/// The work outlives the lease; a second enters for another voucher; the first gives back what
/// is not its own any more. Does a third get in, beside the second?
pub(super) async fn slow_holder(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    third_after(stage, Point::Committing, async |stage| {
        let end = stage.lease_over(0).await?;
        as_the_rung_has_it(stage, end)
    })
    .await
}

/// The holder pauses in its release, and its lease ends. Does a third get in?
pub(super) async fn stalled_release(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    // Not waited for: whether it is still there at the comparison must not depend on how fast the
    // work before it was.
    third_after(stage, Point::Releasing, async |stage| stage.end_lease(0).await).await
}

/// Watchdogs renew; the rungs before them let the lease end.
fn as_the_rung_has_it(stage: &Stage<'_>, end: LeaseEnd) -> anyhow::Result<()> {
    let expected = if stage.renews() { LeaseEnd::Renewed } else { LeaseEnd::Ended };
    if end != expected {
        bail!("the lease was to be {expected:?}, and is {end:?}");
    }
    Ok(())
}

async fn third_after(
    stage: &mut Stage<'_>,
    stopped_at: Point,
    lease_ends: impl AsyncFnOnce(&mut Stage<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (slow, wanted) = (stage.voucher(1).await?, stage.voucher(2).await?);
    let nodes: [Node; 2] = [stage.node().await?, stage.node().await?];
    let buyer = Buyer::new(0, slow);
    let buyer = if stopped_at == Point::Releasing { buyer } else { buyer.short() };
    let a = stage.enter("A", nodes[0], buyer).await?;
    let b = stage.enter("B", nodes[1], Buyer::new(0, wanted)).await?;
    let c = stage.enter("C", nodes[1], Buyer::new(0, wanted)).await?;
    stage.must_reach(a, &[stopped_at]).await?;
    lease_ends(stage).await?;
    stage.until_first(b, &IN_OR_AT_THE_DOOR).await?;
    stage.finish(a).await?;
    stage.until_first(c, &IN_OR_AT_THE_DOOR).await?;
    stage.finish_all(&[b, c]).await
}

/// The work outlives the lease; a second enters while it goes on.
pub(super) async fn outlived_lease(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let voucher = stage.voucher(2).await?;
    let nodes = [stage.node().await?, stage.node().await?];
    let a = stage.enter("A", nodes[0], Buyer::new(0, voucher).short()).await?;
    let b = stage.enter("B", nodes[1], Buyer::new(0, voucher)).await?;
    stage.must_reach(a, &[Point::OrdersCounted]).await?;
    let end = stage.lease_over(0).await?;
    as_the_rung_has_it(stage, end)?;
    stage.until_first(b, &IN_OR_AT_THE_DOOR).await?;
    stage.finish_all(&[a, b]).await
}

/// The holder is stopped past its lease, after its last look at the lock, before its write.
pub(super) async fn paused_holder(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let voucher = stage.voucher(2).await?;
    let (first, second) = (stage.node().await?, stage.node().await?);
    let a = stage.enter("A", first, Buyer::new(0, voucher).short()).await?;
    let b = stage.enter("B", second, Buyer::new(0, voucher)).await?;
    stage.must_reach(a, &[stage.last_check()]).await?;
    stage.pause(first)?;
    if stage.lease_over(0).await? != LeaseEnd::Ended {
        bail!("the lease of a stopped process was renewed");
    }
    stage.finish_all(&[b]).await?;
    if !matches!(stage.answer(b), Some(Stop::Done(Answer::Ordered(_)))) {
        bail!("B did not buy while A was stopped");
    }
    stage.resume(first)?;
    stage.finish(a).await?;
    Ok(())
}
