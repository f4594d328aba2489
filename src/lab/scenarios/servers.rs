//! What becomes of a lock when a server that keeps it dies, forgets, or has a wrong clock.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{sleep, timeout};

use super::leases::IN_OR_AT_THE_DOOR;
use crate::lab::Stage;
use crate::lab::faults::{Fault, Proxy, RedisNode};
use crate::lab::lock_servers::LockServers;
use crate::lab::stage::{Actor, Buyer, PATIENCE, Stop};
use crate::ladder::{Answer, Lock, Point};

/// How often a server is asked.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The rung that is content with a majority.
const MAJORITY: u32 = 15;

/// One of the lock's nodes is down: can anyone still buy?
pub(super) async fn node_down(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let voucher = stage.voucher(1).await?;
    let node = stage.node().await?;
    let a = stage.enter("A", node, Buyer::new(0, voucher)).await?;
    let last = stage.servers.nodes.last_mut().context("the rung has no servers of its own")?;
    last.kill();
    let count = stage.servers.nodes.len();
    stage.say(format!("Redis {count} of {count} is killed (SIGKILL)"));
    stage.may_fail(a);
    match stage.finish(a).await? {
        Stop::Done(Answer::Ordered(_)) => {}
        // As `RungError` says it: a failure of anything else proves nothing.
        Stop::Failed(error) if error.starts_with("the lock: ") => {
            stage.broken("one server of the lock is down, and nobody can buy");
        }
        other => bail!("A was to fail at the lock, and came to {other:?}"),
    }
    Ok(())
}

/// A master among the lock's servers, the first, and its replica.
pub(super) struct Pair {
    replica: RedisNode,
    link: Proxy,
}

/// Gives the first of the lock's servers a replica that is in step.
pub(super) async fn replicated(stage: &mut Stage<'_>) -> anyhow::Result<Pair> {
    stage.servers = LockServers::fresh(count(stage)).await?;
    let replica = RedisNode::start(&[]).await?;
    let link = Proxy::start(&stage.servers.nodes[0].socket_url()).await?;
    replica.replica_at(link.port()).await?;
    Ok(Pair { replica, link })
}

impl Pair {
    pub(super) async fn cut(&self, stage: &mut Stage<'_>) -> anyhow::Result<()> {
        self.link.break_by(Fault::Down);
        self.replica.until_cut_off().await?;
        stage.say("the link from the master to its replica is cut");
        Ok(())
    }

    /// The master dies, and the replica is what processes find that start from now on.
    pub(super) async fn promote(&self, stage: &mut Stage<'_>) -> anyhow::Result<()> {
        stage.servers.nodes[0].kill();
        stage.say("the master is killed (SIGKILL)");
        self.replica.promote().await?;
        stage.say("the replica is promoted");
        stage.servers.redis_urls[0] = self.replica.url();
        Ok(())
    }
}

/// The master dies before its replica has heard of the lock, and the replica is promoted.
pub(super) async fn failover(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let voucher = stage.voucher(2).await?;
    let pair = replicated(stage).await?;
    let first = stage.node().await?;
    let a = stage.enter("A", first, Buyer::new(0, voucher)).await?;
    pair.cut(stage).await?;
    stage.must_reach(a, &[Point::OrdersCounted]).await?;
    pair.promote(stage).await?;
    let second = stage.node().await?;
    let b = stage.enter("B", second, Buyer::new(0, voucher)).await?;
    // It writes, and then finds nobody to give the lock back to.
    stage.may_fail(a);
    meet(stage, a, b).await
}

/// A server of the lock restarts with an empty memory.
pub(super) async fn amnesia(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (a, b) = held_by_as_few_as_possible(stage).await?;
    let forgets = stage.servers.nodes.len().min(2) - 1;
    stage.servers.nodes[forgets].restart_empty().await?;
    stage.say(format!("Redis {} is restarted, and is empty", forgets + 1));
    stage.may_fail(a);
    meet(stage, a, b).await
}

/// The clock of a server of the lock leaps past the lease.
pub(super) async fn clock_jump(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (a, b) = held_by_as_few_as_possible(stage).await?;
    let leaps = stage.servers.nodes.len().min(2) - 1;
    stage.expire(0, leaps).await?;
    stage.say(format!("the clock of Redis {} leaps past the lease", leaps + 1));
    meet(stage, a, b).await
}

/// A holds the lock, on a bare majority where the rung is content with that: the last server is
/// down for a moment.
async fn held_by_as_few_as_possible(stage: &mut Stage<'_>) -> anyhow::Result<(Actor, Actor)> {
    let voucher = stage.voucher(2).await?;
    stage.servers = LockServers::fresh(count(stage)).await?;
    let nodes = [stage.node().await?, stage.node().await?];
    let a = stage.enter("A", nodes[0], Buyer::new(0, voucher)).await?;
    let b = stage.enter("B", nodes[1], Buyer::new(0, voucher)).await?;
    let bare_majority = stage.rung.number() == MAJORITY;
    let last = stage.servers.nodes.len() - 1;
    if bare_majority {
        stage.servers.nodes[last].kill();
        stage.say(format!("Redis {} is down", last + 1));
    }
    stage.must_reach(a, &[Point::OrdersCounted]).await?;
    if bare_majority {
        stage.servers.nodes[last].restart().await?;
        stage.say(format!("Redis {} is up again", last + 1));
    }
    Ok((a, b))
}

/// B comes while A is about to write.
async fn meet(stage: &mut Stage<'_>, a: Actor, b: Actor) -> anyhow::Result<()> {
    if let Stop::At(Point::OrdersCounted) = stage.until_first(b, &IN_OR_AT_THE_DOOR).await? {
        // B first: who was in first is late.
        return stage.finish_all(&[b, a]).await;
    }
    stage.finish_all(&[a, b]).await
}

/// The reply to a release is lost, and it is sent again, while the holder has two holds.
pub(super) async fn resent_release(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (wanted, on_the_way) = (stage.voucher(3).await?, stage.voucher(2).await?);
    stage.servers = LockServers::fresh(1).await?;
    let direct = stage.servers.redis_urls.clone();
    let proxy = Proxy::start(&stage.servers.nodes[0].socket_url()).await?;
    stage.servers.redis_urls = vec![proxy.url().to_owned()];
    let first = stage.node().await?;
    stage.servers.redis_urls = direct;
    let second = stage.node().await?;
    // Somebody else before, so that Redis knows the scripts: the reply that is lost must be
    // the one to the release.
    let w = stage.enter("W", first, Buyer::new(1, wanted).and(on_the_way)).await?;
    stage.finish_all(&[w]).await?;
    let a = stage.enter("A", first, Buyer::new(0, wanted).and(on_the_way)).await?;
    let b = stage.enter("B", second, Buyer::new(0, wanted)).await?;
    stage.must_reach(a, &[Point::Releasing]).await?;
    let before = scripts_run(stage).await?;
    proxy.break_by(Fault::LoseAnswer);
    stage.say("the reply to A's next command will be lost");
    stage.must_reach(a, &[Point::InnerDone]).await?;
    let resent = async {
        while scripts_run(stage).await? < before + 2 {
            sleep(LOOK_EVERY).await;
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, resent).await.context("the release was not sent again")??;
    stage.say("the release has arrived twice");
    stage.must_reach(a, &[Point::OrdersCounted]).await?;
    stage.until_first(b, &IN_OR_AT_THE_DOOR).await?;
    stage.finish_all(&[a, b]).await
}

/// How many scripts the first server has run.
async fn scripts_run(stage: &Stage<'_>) -> anyhow::Result<u64> {
    let stats = stage.servers.nodes[0].field(&["INFO", "commandstats"], "cmdstat_evalsha").await?;
    let calls = stats.split(',').find_map(|stat| stat.strip_prefix("calls="));
    calls.unwrap_or("0").parse().context("Redis counts strangely")
}

fn count(stage: &Stage<'_>) -> usize {
    match stage.rung.lock {
        Lock::Redis(count) => count,
        Lock::None | Lock::Mutex | Lock::ZooKeeper => 1,
    }
}
