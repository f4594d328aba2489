//! Holders who die, and work that outlives its lease.

use anyhow::bail;

use crate::Scheduler;
use crate::leases::LeaseEnd;
use crate::scheduler::{Act, Attempt, NodeIndex};
use crate::told::{Event, Witness};
use ladder::{Answer, Capability, LeaseKind, LockKind, Point, Rung};

/// How far a second request gets: in, or to the lock's door.
pub(super) const IN_OR_AT_THE_DOOR: [Point; 2] = [Point::Missed, Point::OrdersCounted];

/// The holder is killed while it holds.
pub(super) async fn holder_dies(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    dies_at(scheduler, &[Point::Locked]).await
}

/// The holder is killed between the two commands of its acquire; after the only one, where there
/// is but one.
pub(super) async fn dies_between(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    dies_at(scheduler, &[Point::KeySet, Point::Locked]).await
}

async fn dies_at(scheduler: &mut Scheduler<'_>, points: &[Point]) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(2).await?;
    let (first, second) = (scheduler.node().await?, scheduler.node().await?);
    let a = scheduler.enter("A", first, Attempt::new(0, voucher).short()).await?;
    let b = scheduler.enter("B", second, Attempt::new(0, voucher)).await?;
    scheduler.must_reach(a, points).await?;
    scheduler.kill(first).await?;
    if scheduler.rung.lock == LockKind::Database {
        scheduler.until_disconnected(first).await?;
        scheduler.log.say(Event::DeadTransactionEnds);
    }
    let end = scheduler.lease_over(0).await?;
    scheduler.finish_all(&[b]).await?;
    if !scheduler.is_served(b) {
        scheduler.log.broken(Witness::locked_out(1, end == LeaseEnd::Never));
    }
    Ok(())
}

/// The work outlives the lease; a second enters for another voucher; the first gives back what
/// is not its own any more. Does a third get in, beside the second?
pub(super) async fn slow_holder(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    third_after(scheduler, Point::Committing, async |scheduler| {
        let end = scheduler.lease_over(0).await?;
        as_the_rung_has_it(scheduler, end)
    })
    .await
}

/// The holder pauses in its release, and its lease ends. Does a third get in?
pub(super) async fn stalled_release(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    // Not waited for: whether it is still there at the comparison must not depend on how fast the
    // work before it was.
    third_after(scheduler, Point::Releasing, async |scheduler| scheduler.end_lease(0).await).await
}

/// Watchdogs renew; the rungs before them let the lease end.
fn as_the_rung_has_it(scheduler: &Scheduler<'_>, end: LeaseEnd) -> anyhow::Result<()> {
    let renews = scheduler.rung.lease == LeaseKind::Renewed;
    let expected = if renews { LeaseEnd::Renewed } else { LeaseEnd::Ended };
    if end != expected {
        bail!("the lease was to be {expected:?}, and is {end:?}");
    }
    Ok(())
}

async fn third_after(
    scheduler: &mut Scheduler<'_>,
    stopped_at: Point,
    lease_ends: impl AsyncFnOnce(&mut Scheduler<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (slow, wanted) = (scheduler.voucher(1).await?, scheduler.voucher(2).await?);
    let nodes: [NodeIndex; 2] = [scheduler.node().await?, scheduler.node().await?];
    let buyer = Attempt::new(0, slow);
    let buyer = if stopped_at == Point::Releasing { buyer } else { buyer.short() };
    let a = scheduler.enter("A", nodes[0], buyer).await?;
    let b = scheduler.enter("B", nodes[1], Attempt::new(0, wanted)).await?;
    let c = scheduler.enter("C", nodes[1], Attempt::new(0, wanted)).await?;
    scheduler.must_reach(a, &[stopped_at]).await?;
    lease_ends(scheduler).await?;
    scheduler.until_first(b, &IN_OR_AT_THE_DOOR).await?;
    scheduler.finish(a).await?;
    scheduler.until_first(c, &IN_OR_AT_THE_DOOR).await?;
    scheduler.finish_all(&[b, c]).await
}

/// The work outlives the lease; a second enters while it goes on.
pub(super) async fn outlived_lease(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(2).await?;
    let nodes = [scheduler.node().await?, scheduler.node().await?];
    let a = scheduler.enter("A", nodes[0], Attempt::new(0, voucher).short()).await?;
    let b = scheduler.enter("B", nodes[1], Attempt::new(0, voucher)).await?;
    scheduler.must_reach(a, &[Point::OrdersCounted]).await?;
    let end = scheduler.lease_over(0).await?;
    as_the_rung_has_it(scheduler, end)?;
    scheduler.until_first(b, &IN_OR_AT_THE_DOOR).await?;
    scheduler.finish_all(&[a, b]).await
}

/// Where the rung has looked for the last time whether it may write, without the database.
fn last_check(rung: &Rung) -> Point {
    match rung.lease {
        _ if rung.can(Capability::Fence) => Point::Locked,
        LeaseKind::Renewed => Point::LastCheck,
        LeaseKind::NoLease | LeaseKind::Fixed => Point::OrdersCounted,
    }
}

/// The holder is stopped past its lease, after its last look at the lock, before its write.
pub(super) async fn paused_holder(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(2).await?;
    let (first, second) = (scheduler.node().await?, scheduler.node().await?);
    let a = scheduler.enter("A", first, Attempt::new(0, voucher).short()).await?;
    let b = scheduler.enter("B", second, Attempt::new(0, voucher)).await?;
    scheduler.must_reach(a, &[last_check(scheduler.rung)]).await?;
    scheduler.pause(first)?;
    if scheduler.rung.lease == LeaseKind::NoLease {
        if !matches!(scheduler.finish(b).await?, Act::Waits(_)) {
            bail!("B did not wait for the transaction of a stopped process");
        }
        scheduler.log.say(Event::WaitsForStopped { actor: "B", process: first.number() });
        scheduler.resume(first)?;
        return scheduler.finish_all(&[a, b]).await;
    }
    if scheduler.lease_over(0).await? != LeaseEnd::Ended {
        bail!("the lease of a stopped process was renewed");
    }
    scheduler.finish_all(&[b]).await?;
    if !matches!(scheduler.answer(b), Some(Act::Done(Answer::Ordered(_)))) {
        bail!("B did not buy while A was stopped");
    }
    scheduler.resume(first)?;
    let told = scheduler.finish(a).await?;
    // Were it not for the fence, A would only find that the user has an order.
    if scheduler.rung.can(Capability::Fence) && told != Act::LostLock {
        bail!("A was to be refused by the fence, and came to {told:?}");
    }
    Ok(())
}
