//! The same scenarios for the rung that is the production strategy. It has no pause points:
//! production code is not written for the lab. So the lab holds the voucher's row, on which every
//! purchase must stop, and lets go of it when all actors are where they have to be.

use anyhow::bail;
use sqlx::{Postgres, Transaction};

use super::ONE_SERVER;
use super::servers::replicated;
use crate::lab::Stage;
use crate::lab::lock_servers::LockServers;
use crate::lab::stage::{Actor, Buyer, Node, Stop};
use crate::ladder::{Answer, Scenario};

/// The row of a voucher, locked by the lab.
struct Row(Transaction<'static, Postgres>);

impl Row {
    async fn hold(stage: &mut Stage<'_>, voucher: i64) -> anyhow::Result<Self> {
        // In production an order does not wait for as long as the lab may hold the row.
        let signature = "place_orders(bigint, bigint[], bigint[], timestamptz[])";
        let longer = format!("alter function {signature} set lock_timeout = '30s'");
        sqlx::raw_sql(sqlx::AssertSqlSafe(longer)).execute(&stage.database).await?;
        let mut transaction = stage.database.begin().await?;
        sqlx::query("select from seckill_vouchers where voucher_id = $1 for update")
            .bind(voucher)
            .execute(&mut *transaction)
            .await?;
        stage.say("the lab locks the voucher's row");
        Ok(Self(transaction))
    }

    async fn let_go(self, stage: &mut Stage<'_>) -> anyhow::Result<()> {
        self.0.rollback().await?;
        stage.say("the lab lets go of the row");
        Ok(())
    }
}

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
        Scenario::LostWakeup => Some("turns a second request away, nobody waits"),
        Scenario::NodeDown => Some(ONE_SERVER),
        _ => Some("has no pause points inside the lock, which is that of r13"),
    }
}

/// Plays `scenario`.
pub(super) async fn play(scenario: Scenario, stage: &mut Stage<'_>) -> anyhow::Result<()> {
    match scenario {
        Scenario::LastOne => crowd(stage, 1, &["A", "B"]).await,
        Scenario::Herd => crowd(stage, 5, &["A", "B", "C", "D", "E"]).await,
        Scenario::DoubleClick => {
            let node = stage.node().await?;
            twice(stage, [node, node]).await
        }
        Scenario::TwoNodes => {
            let nodes = [stage.node().await?, stage.node().await?];
            twice(stage, nodes).await
        }
        Scenario::HolderDies => holder_dies(stage).await,
        Scenario::PausedHolder => paused_holder(stage).await,
        Scenario::Failover => failover(stage).await,
        Scenario::Amnesia | Scenario::ClockJump => forgotten(stage, scenario).await,
        other => bail!("{other} is not played on this rung"),
    }
}

/// All of them want one before any of them has it.
async fn crowd(stage: &mut Stage<'_>, stock: i32, names: &[&'static str]) -> anyhow::Result<()> {
    let voucher = stage.voucher(stock).await?;
    let node = stage.node().await?;
    let row = Row::hold(stage, voucher).await?;
    let mut actors = Vec::new();
    for (user, name) in (0..).zip(names) {
        let actor = stage.enter(name, node, Buyer::new(user, voucher)).await?;
        // A buyer who waits for too long is told that the outcome is unknown; the books are not.
        stage.may_fail(actor);
        actors.push(actor);
    }
    // The first one leads a batch of one; whoever comes meanwhile is the next batch.
    stage.finish(actors[0]).await?;
    for (user, actor) in (1..).zip(&actors[1..]) {
        stage.set_out(*actor).await?;
        // An actor that has the lock waits for the batch.
        stage.until_locked(user).await?;
    }
    row.let_go(stage).await?;
    stage.finish_all(&actors[..1]).await?;
    stage.finish_all(&actors[1..]).await?;
    let together: i64 = sqlx::query_scalar(
        "select count(*) - count(distinct xmin::text) from orders where voucher_id = $1",
    )
    .bind(voucher)
    .fetch_one(&stage.database)
    .await?;
    if stock > 1 && together == 0 {
        bail!("no two orders were committed together");
    }
    Ok(())
}

async fn twice(stage: &mut Stage<'_>, nodes: [Node; 2]) -> anyhow::Result<()> {
    let voucher = stage.voucher(2).await?;
    let (row, a) = in_the_middle(stage, nodes[0], voucher).await?;
    let b = stage.enter("B", nodes[1], Buyer::new(0, voucher)).await?;
    stage.finish(b).await?;
    row.let_go(stage).await?;
    stage.finish_all(&[a, b]).await
}

/// A has the lock, and its statement waits for the row.
async fn in_the_middle(
    stage: &mut Stage<'_>,
    node: Node,
    voucher: i64,
) -> anyhow::Result<(Row, Actor)> {
    let row = Row::hold(stage, voucher).await?;
    let a = stage.enter("A", node, Buyer::new(0, voucher)).await?;
    if stage.finish(a).await? != Stop::Waits {
        bail!("A did not stop at the row");
    }
    // A buyer who waits for too long is told that the outcome is unknown; the books are not.
    stage.may_fail(a);
    Ok((row, a))
}

async fn holder_dies(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let voucher = stage.voucher(2).await?;
    let (first, second) = (stage.node().await?, stage.node().await?);
    let (row, _) = in_the_middle(stage, first, voucher).await?;
    stage.kill(first).await?;
    stage.lease_over(0).await?;
    // What A sent before it died is done now.
    row.let_go(stage).await?;
    let b = stage.enter("B", second, Buyer::new(0, voucher)).await?;
    stage.finish_all(&[b]).await?;
    match stage.answer(b) {
        Some(Stop::Done(Answer::Ordered(_) | Answer::AlreadyBought)) => {}
        _ => stage.broken("user 1 is locked out though the lease has ended"),
    }
    Ok(())
}

async fn paused_holder(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let voucher = stage.voucher(2).await?;
    let (first, second) = (stage.node().await?, stage.node().await?);
    let (row, a) = in_the_middle(stage, first, voucher).await?;
    stage.pause(first)?;
    stage.lease_over(0).await?;
    let b = stage.enter("B", second, Buyer::new(0, voucher)).await?;
    stage.may_fail(b);
    if stage.finish(b).await? != Stop::Waits {
        bail!("B did not get the lock");
    }
    row.let_go(stage).await?;
    stage.finish_all(&[b]).await?;
    stage.resume(first)?;
    stage.finish_all(&[a]).await
}

async fn failover(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let voucher = stage.voucher(2).await?;
    let pair = replicated(stage).await?;
    let first = stage.node().await?;
    pair.cut(stage).await?;
    let (row, a) = in_the_middle(stage, first, voucher).await?;
    pair.promote(stage).await?;
    let second = stage.node().await?;
    meet(stage, row, a, second, voucher).await
}

async fn forgotten(stage: &mut Stage<'_>, scenario: Scenario) -> anyhow::Result<()> {
    let voucher = stage.voucher(2).await?;
    stage.servers = LockServers::fresh(1).await?;
    let nodes = [stage.node().await?, stage.node().await?];
    let (row, a) = in_the_middle(stage, nodes[0], voucher).await?;
    if scenario == Scenario::Amnesia {
        stage.servers.nodes[0].restart_empty().await?;
        stage.say("Redis 1 is restarted, and is empty");
    } else {
        stage.expire(0, 0).await?;
        stage.say("the clock of Redis 1 leaps past the lease");
    }
    meet(stage, row, a, nodes[1], voucher).await
}

/// B gets the lock that A still holds, and both stand before the row.
async fn meet(
    stage: &mut Stage<'_>,
    row: Row,
    a: Actor,
    node: Node,
    voucher: i64,
) -> anyhow::Result<()> {
    let b = stage.enter("B", node, Buyer::new(0, voucher)).await?;
    stage.may_fail(b);
    if stage.finish(b).await? != Stop::Waits {
        bail!("B did not get the lock");
    }
    row.let_go(stage).await?;
    stage.finish_all(&[a, b]).await
}
