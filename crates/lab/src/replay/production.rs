//! The scenarios for the rungs whose purchases go into batches, as far as no schedule says them: a crowd that makes a
//! batch, and servers that fail.

use anyhow::bail;

use super::TURNS_AWAY;
use super::locked_row::{LockedRow, stop_at_row};
use super::servers::replicated;
use crate::Scheduler;
use crate::lock_servers::LockServers;
use crate::scheduler::{Actor, Attempt, NodeIndex};
use crate::told::Event;
use ladder::Scenario;

/// Why there is no such replay: "it …"; `None` where there is one.
pub(super) fn absent(scenario: Scenario) -> Option<&'static str> {
    match scenario {
        Scenario::LastOne
        | Scenario::Herd
        | Scenario::DoubleClick
        | Scenario::TwoNodes
        | Scenario::HolderDies
        | Scenario::Failover
        | Scenario::Amnesia
        | Scenario::ClockJump
        | Scenario::PausedHolder => None,
        Scenario::Nested => Some("buys nothing on the way"),
        Scenario::LostWakeup => Some(TURNS_AWAY),
        _ => Some("has no pause points inside the lock, which is that of r13d"),
    }
}

/// Plays `scenario`.
pub(super) async fn play(scenario: Scenario, scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    match scenario {
        Scenario::LastOne => crowd(scheduler, 1, &["A", "B"]).await,
        Scenario::Herd => crowd(scheduler, 5, &["A", "B", "C", "D", "E"]).await,
        Scenario::Failover => failover(scheduler).await,
        Scenario::Amnesia | Scenario::ClockJump => forgotten(scheduler, scenario).await,
        other => bail!("{other} is not played on this rung"),
    }
}

/// All of them want one before any of them has it.
async fn crowd(
    scheduler: &mut Scheduler<'_>,
    stock: i32,
    names: &[&'static str],
) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(stock).await?;
    let node = scheduler.node().await?;
    let row = LockedRow::hold(scheduler, voucher).await?;
    let mut actors = Vec::new();
    for (user, name) in (0..).zip(names) {
        let actor = scheduler.enter(name, node, Attempt::new(user, voucher)).await?;
        // A buyer who waits for too long is told that the outcome is unknown; the books are not.
        scheduler.may_fail(actor);
        actors.push(actor);
    }
    // The first one leads a batch of one; those that come meanwhile are the next batch.
    scheduler.finish(actors[0]).await?;
    scheduler.until_blocked().await?;
    for (user, actor) in (1..).zip(&actors[1..]) {
        if scheduler.rung.waits_for_batch() {
            // Says itself that it waits.
            scheduler.finish(*actor).await?;
            continue;
        }
        scheduler.set_out(*actor).await?;
        // An actor that has the lock waits for the batch.
        scheduler.until_locked(user).await?;
    }
    row.let_go(scheduler).await?;
    scheduler.finish_all(&actors[..1]).await?;
    scheduler.finish_all(&actors[1..]).await?;
    let together: i64 = sqlx::query_scalar(
        "select count(*) - count(distinct xmin::text) from orders where voucher_id = $1",
    )
    .bind(voucher)
    .fetch_one(&scheduler.database)
    .await?;
    if stock > 1 && together == 0 {
        bail!("no two orders were committed together");
    }
    Ok(())
}

/// A has the lock, and its statement waits for the row.
async fn in_the_middle(
    scheduler: &mut Scheduler<'_>,
    node: NodeIndex,
    voucher: i64,
) -> anyhow::Result<(LockedRow, Actor)> {
    let row = LockedRow::hold(scheduler, voucher).await?;
    let a = scheduler.enter("A", node, Attempt::new(0, voucher)).await?;
    stop_at_row(scheduler, a).await?;
    Ok((row, a))
}

async fn failover(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(2).await?;
    let pair = replicated(scheduler).await?;
    let first = scheduler.node().await?;
    pair.cut(scheduler).await?;
    let (row, a) = in_the_middle(scheduler, first, voucher).await?;
    pair.promote(scheduler).await?;
    let second = scheduler.node().await?;
    meet(scheduler, row, a, second, voucher).await
}

async fn forgotten(scheduler: &mut Scheduler<'_>, scenario: Scenario) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(2).await?;
    scheduler.servers = LockServers::fresh(scheduler.world, 1).await?;
    let nodes = [scheduler.node().await?, scheduler.node().await?];
    let (row, a) = in_the_middle(scheduler, nodes[0], voucher).await?;
    if scenario == Scenario::Amnesia {
        scheduler.servers.nodes[0].restart_empty().await?;
        scheduler.log.say(Event::RedisEmpty { redis: 1 });
    } else {
        scheduler.expire(0, 0).await?;
        scheduler.log.say(Event::ClockLeaps { redis: 1 });
    }
    meet(scheduler, row, a, nodes[1], voucher).await
}

/// B gets the lock that A still holds, and both stand before the row.
async fn meet(
    scheduler: &mut Scheduler<'_>,
    row: LockedRow,
    a: Actor,
    node: NodeIndex,
    voucher: i64,
) -> anyhow::Result<()> {
    let b = scheduler.enter("B", node, Attempt::new(0, voucher)).await?;
    stop_at_row(scheduler, b).await?;
    row.let_go(scheduler).await?;
    scheduler.finish_all(&[a, b]).await
}
