//! A cache before the database, and an operator who puts more on sale.

use anyhow::bail;

use crate::Scheduler;
use crate::node_process::Task;
use crate::scheduler::{Actor, Attempt, NodeIndex};
use crate::told::Event;
use ladder::{Capability, Point, QueueKeys, Rung, Scenario};
use redis_link::Redis;

/// Why there is no such replay: "it …"; `None` where there is one.
pub(super) fn absent(scenario: Scenario, rung: &Rung) -> Option<&'static str> {
    if !rung.can(Capability::Cache) {
        return Some("has no cache before its database");
    }
    let deletes_again = rung.can(Capability::DeleteAgain);
    (matches!(scenario, Scenario::LostDelete | Scenario::UntoldCache) && !deletes_again)
        .then_some("deletes before the write, and not again")
}

/// Plays `scenario`: the only voucher is sold, the operator adds one while B reads, and C comes later.
pub(super) async fn play(scenario: Scenario, scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(1).await?;
    let first = scheduler.node().await?;
    let mut last = first;
    scheduler.buys("A", first, 0).await?;
    // B finds nothing cached.
    if pass_time(scheduler, voucher, true).await? {
        scheduler.log.say(Event::MinutePasses);
    }
    let b = scheduler.enter("B", first, Attempt::new(1, voucher)).await?;
    let operator = operator(scheduler, first, voucher).await?;
    match scenario {
        Scenario::StaleRefill => {
            // One who deletes only afterwards has written by then, and B is in time to see it.
            scheduler.until_first(operator, &[Point::CacheDeleted, Point::StockAdded]).await?;
            scheduler.finish(b).await?;
            scheduler.finish(operator).await?;
        }
        Scenario::LateRefill | Scenario::JustRestocked => {
            scheduler.must_reach(b, &[Point::StockRead]).await?;
            scheduler.finish(operator).await?;
            scheduler.finish(b).await?;
        }
        Scenario::LostDelete | Scenario::UntoldCache => {
            last = scheduler.node().await?;
            scheduler.must_reach(b, &[Point::StockRead]).await?;
            scheduler.must_reach(operator, &[Point::StockAdded]).await?;
            scheduler.finish(b).await?;
            scheduler.kill(first).await?;
        }
        other => bail!("{other} is not about a cache"),
    }
    let is_over = !matches!(scenario, Scenario::JustRestocked | Scenario::UntoldCache);
    pass_time(scheduler, voucher, is_over).await?;
    if is_over {
        scheduler.log.say(Event::MinutePasses);
    }
    scheduler.buys("C", last, 2).await?;
    Ok(())
}

/// One who is about to put one more on sale.
async fn operator(
    scheduler: &mut Scheduler<'_>,
    node: NodeIndex,
    voucher: i64,
) -> anyhow::Result<Actor> {
    const NAME: &str = "O";
    let operator = scheduler.add(NAME, node, Task::Restock(voucher, 1)).await?;
    scheduler.log.note(NAME, Event::WantsToRestock);
    Ok(operator)
}

/// What has a time to live in the cache has lived; or its time stands still, however long the next steps take. What has
/// none stays. Whether there was anything.
async fn pass_time(scheduler: &Scheduler<'_>, voucher: i64, is_over: bool) -> anyhow::Result<bool> {
    let redis = Redis::new(&scheduler.servers.redis_urls[0])?;
    let keys = QueueKeys::with_prefix(&scheduler.key_prefix);
    let mut found = false;
    for key in [keys.stock(voucher), keys.sold_out(voucher)] {
        if redis.query::<i64>(redis::cmd("PTTL").arg(&key)).await? > 0 {
            let left_ms = if is_over { 0 } else { 60_000 };
            redis.query::<()>(redis::cmd("PEXPIRE").arg(&key).arg(left_ms)).await?;
            found = true;
        }
    }
    Ok(found)
}
