//! A cache before the database, and an operator who puts more on sale.

use anyhow::bail;

use crate::Scheduler;
use crate::node_process::Task;
use crate::scheduler::{Actor, Attempt, NodeIndex};
use crate::told::Event;
use ladder::{Capability, Point, QueueKeys, Rung, Scenario};
use redisson_lock::connection::Redis;

/// Why there is no such replay: "it …"; `None` where there is one.
pub(super) fn absent(scenario: Scenario, rung: &Rung) -> Option<&'static str> {
    if !rung.can(Capability::Cache) {
        return Some("has no cache before its database");
    }
    let deletes_again = rung.can(Capability::DeleteAgain);
    (scenario == Scenario::LostDelete && !deletes_again)
        .then_some("deletes before the write, and not again")
}

/// Plays `scenario`: the only voucher is sold, the operator adds one while B reads, and C comes later.
pub(super) async fn play(scenario: Scenario, scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(1).await?;
    let first = scheduler.node().await?;
    let mut last = first;
    scheduler.buys("A", first, 0).await?;
    let b = scheduler.enter("B", first, Attempt::new(1, voucher)).await?;
    let operator = operator(scheduler, first, voucher).await?;
    match scenario {
        Scenario::StaleRefill => {
            // One who deletes only afterwards has written by then, and B is in time to see it.
            scheduler.until_first(operator, &[Point::CacheDeleted, Point::StockAdded]).await?;
            scheduler.finish(b).await?;
            scheduler.finish(operator).await?;
        }
        Scenario::LateRefill => {
            scheduler.must_reach(b, &[Point::StockRead]).await?;
            scheduler.finish(operator).await?;
            scheduler.finish(b).await?;
        }
        Scenario::LostDelete => {
            scheduler.must_reach(b, &[Point::StockRead]).await?;
            scheduler.must_reach(operator, &[Point::StockAdded]).await?;
            scheduler.finish(b).await?;
            scheduler.kill(first).await?;
            last = scheduler.node().await?;
        }
        other => bail!("{other} is not about a cache"),
    }
    cached_entries_expire(scheduler, voucher).await?;
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

/// What has a time to live in the cache has lived; what has none stays.
async fn cached_entries_expire(scheduler: &mut Scheduler<'_>, voucher: i64) -> anyhow::Result<()> {
    let redis = Redis::new(&scheduler.servers.redis_urls[0])?;
    let keys = QueueKeys::with_prefix(&scheduler.key_prefix);
    for key in [keys.stock(voucher), keys.sold_out(voucher)] {
        if redis.query::<i64>(redis::cmd("PTTL").arg(&key)).await? > 0 {
            redis.query::<()>(redis::cmd("DEL").arg(&key)).await?;
        }
    }
    scheduler.log.say(Event::MinutePasses);
    Ok(())
}
