//! An owner with more than one hold; one that is stopped; an actor that waits.

use anyhow::{Context, bail};
use futures_util::future::select_all;
use tokio::time::timeout;

use crate::Scheduler;
use crate::looks::LeaseEnd;
use crate::scheduler::{Act, Attempt, PATIENCE};
use crate::told::{Event, Witness};
use faults::{Fault, Proxy};
use ladder::{Answer, Capability, LeaseKind, LockKind, Point, Rung};

/// The holder calls code that takes the same lock.
pub(super) async fn nested(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let (wanted, on_the_way) = (scheduler.voucher(1).await?, scheduler.voucher(1).await?);
    let node = scheduler.node().await?;
    let a = scheduler.enter("A", node, Attempt::new(0, wanted).and(on_the_way)).await?;
    if matches!(scheduler.finish(a).await?, Act::Waits(_)) {
        scheduler.log.broken(Witness::WaitsForItself { buyer: "A" });
    } else if orders(scheduler, on_the_way).await? == 0 {
        scheduler.log.broken(Witness::RefusedByItself { buyer: "A" });
    } else if orders(scheduler, wanted).await? == 0 {
        scheduler.log.broken(Witness::StuckOnTheWay { buyer: "A" });
    }
    Ok(())
}

async fn orders(scheduler: &Scheduler<'_>, voucher: i64) -> anyhow::Result<i64> {
    let count = sqlx::query_scalar("select count(*) from orders where voucher_id = $1");
    Ok(count.bind(voucher).fetch_one(&scheduler.database).await?)
}

/// The release falls between a waiter's miss and its subscription.
pub(super) async fn lost_wakeup(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(2).await?;
    let first = scheduler.node().await?;
    let mut proxies = Vec::new();
    for url in &mut scheduler.servers.redis_urls {
        let proxy = Proxy::start(url).await?;
        *url = proxy.url().to_owned();
        proxies.push(proxy);
    }
    let second = scheduler.node().await?;
    let a = scheduler.enter("A", first, Attempt::new(0, voucher)).await?;
    let b = scheduler.enter("B", second, Attempt::new(0, voucher)).await?;
    scheduler.must_reach(a, &[Point::OrdersCounted]).await?;
    scheduler.must_reach(b, &[Point::Missed]).await?;
    if scheduler.rung.lock != LockKind::ZooKeeper {
        // The connection on which B is to hear of the release is a new one, held up on its way.
        for proxy in &proxies {
            proxy.break_by(Fault::Hold);
        }
        scheduler.set_out(b).await?;
        let held = proxies.iter().map(|proxy| Box::pin(proxy.until_held()));
        let held = timeout(PATIENCE, select_all(held)).await;
        held.context("B never asked to be told of the release")?;
        scheduler.log.say(Event::SubscriptionHeld { actor: "B" });
    }
    scheduler.finish(a).await?;
    for proxy in &proxies {
        proxy.break_by(Fault::None);
    }
    scheduler.finish_all(&[b]).await?;
    if !scheduler.is_served(b) {
        scheduler.log.broken(Witness::SleptThroughRelease { buyer: "B" });
    }
    Ok(())
}

/// Where the rung has looked for the last time whether it may write, without the database.
pub(super) fn last_check(rung: &Rung) -> Point {
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
