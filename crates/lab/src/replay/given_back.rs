//! Vouchers that come back to their segments.

use anyhow::Context;
use tokio::time::timeout;

use crate::Scheduler;
use crate::scheduler::{Act, Actor, Attempt, NodeIndex, PATIENCE};
use crate::told::{Event, Witness};
use ladder::{Point, SEGMENTS};
use std::time::Duration;

/// How long the lab listens before it asks PostgreSQL.
const LISTEN_FOR: Duration = Duration::from_millis(1);

/// A sweep cancels two orders in one transaction, and gives their vouchers back to the second segment and to the first,
/// while D goes from the first to the second.
pub(super) async fn given_back_together(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    // Two in the first segment and in the second, one in each other.
    let voucher = scheduler.voucher(i32::try_from(SEGMENTS)? + 2).await?;
    let node = scheduler.node().await?;
    let a = scheduler.buys("A", node, SEGMENTS).await?;
    let b = scheduler.buys("B", node, 1).await?;
    let orders = [scheduler.order_of(b)?, scheduler.order_of(a)?];
    let c = scheduler.enter("C", node, Attempt::new(0, voucher)).await?;
    let d = scheduler.enter("D", node, Attempt::new(2 * SEGMENTS, voucher)).await?;
    scheduler.must_reach(c, &[Point::Committing]).await?;
    scheduler.finish(d).await?;
    let mut sweep = scheduler.database.begin().await?;
    // So that it is the buyer that finds the circle.
    let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut *sweep).await?;
    sqlx::query("set local deadlock_timeout = '20s'").execute(&mut *sweep).await?;
    sqlx::query("set local statement_timeout = '25s'").execute(&mut *sweep).await?;
    for (segment, (actor, order)) in [2, 1].into_iter().zip(["B", "A"].into_iter().zip(orders)) {
        scheduler.log.say(Event::SweepGivesBack { actor, segment });
        sqlx::query(
            "update orders set status = 4, cancelled_at = now(), cancelled_by = 3 where id = $1",
        )
        .bind(order)
        .execute(&mut *sweep)
        .await?;
        sqlx::query(
            "update stock_segments set stock = stock + 1 where voucher_id = $1 and segment = $2",
        )
        .bind(voucher)
        .bind(segment)
        .execute(&mut *sweep)
        .await?;
        if segment == 2 {
            scheduler.finish(c).await?;
            if waits_for(scheduler, d, node, pid).await? {
                scheduler.log.say(Event::WaitsForSweep { actor: "D" });
            }
        }
    }
    sweep.commit().await?;
    scheduler.log.say(Event::SweepCommits);
    if let Act::Failed(_) = scheduler.finish(d).await? {
        scheduler.may_fail(d);
        scheduler.log.broken(Witness::InACircle { buyer: "D" });
    }
    Ok(())
}

/// Whether the actor comes to wait for this session; else it has come to an end.
async fn waits_for(
    scheduler: &mut Scheduler<'_>,
    actor: Actor,
    node: NodeIndex,
    pid: i32,
) -> anyhow::Result<bool> {
    let name = scheduler.actors[actor.0].name;
    let looking = async {
        while !scheduler.nodes[node.0].says_something(name, LISTEN_FOR).await? {
            let is_blocked = sqlx::query_scalar(
                "select exists (select from pg_stat_activity
                                where starts_with(application_name, $1)
                                  and $2 = any (pg_blocking_pids(pid)))",
            );
            let is_blocked = is_blocked.bind(&scheduler.application).bind(pid);
            if is_blocked.fetch_one(&scheduler.database).await? {
                return anyhow::Ok(true);
            }
        }
        Ok(false)
    };
    timeout(PATIENCE, looking).await.with_context(|| format!("{name} neither waits nor ends"))?
}
