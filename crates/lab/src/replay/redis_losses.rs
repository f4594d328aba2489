//! Redis loses what it has acknowledged.

use super::servers::replicated;
use crate::Scheduler;
use crate::lock_servers::LockServers;
use crate::scheduler::NodeIndex;
use crate::told::Event;
use faults::RedisNode;
use ladder::Capability;

/// Redis comes back from a snapshot that is older than B's purchase, and `user` buys.
pub(super) async fn restored(scheduler: &mut Scheduler<'_>, user: i64) -> anyhow::Result<()> {
    scheduler.servers = LockServers::fresh(scheduler.world, 1).await?;
    scheduler.voucher(2).await?;
    let first = scheduler.node().await?;
    scheduler.buys("A", first, 0).await?;
    scheduler.works_until_idle(first).await?;
    scheduler.servers.nodes[0].command::<()>(&["SAVE"]).await?;
    scheduler.log.say(Event::Snapshot);
    scheduler.buys("B", first, 1).await?;
    scheduler.works_until_idle(first).await?;
    scheduler.kill(first).await?;
    scheduler.servers.nodes[0].restart().await?;
    scheduler.log.say(Event::FromSnapshot);
    let second = scheduler.node().await?;
    scheduler.buys("C", second, user).await?;
    Ok(())
}

/// A's purchase is what Redis loses; where the database decides, its relay has published it.
async fn sold_to_redis(scheduler: &mut Scheduler<'_>, node: NodeIndex) -> anyhow::Result<()> {
    scheduler.buys("A", node, 0).await?;
    if scheduler.rung.can(Capability::Relay) {
        let turn = scheduler.turn(node).await?;
        scheduler.finish(turn).await?;
    }
    Ok(())
}

/// A power cut: what Redis acknowledged after its last `fsync` is gone.
pub(super) async fn redis_dies(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let everysec = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let node = RedisNode::start(&everysec).await?;
    scheduler.servers = LockServers::default();
    scheduler.servers.redis_urls.push(node.url());
    scheduler.servers.nodes.push(node);
    scheduler.voucher(2).await?;
    let first = scheduler.node().await?;
    let on_disk = scheduler.servers.nodes[0].log_on_disk()?;
    scheduler.log.say(Event::LogOnDisk);
    sold_to_redis(scheduler, first).await?;
    scheduler.kill(first).await?;
    scheduler.log.say(Event::LogCut { actor: "A" });
    scheduler.servers.nodes[0].lose_power(on_disk)?;
    scheduler.servers.nodes[0].restart().await?;
    scheduler.log.say(Event::PowerCut);
    scheduler.node().await?;
    Ok(())
}

/// The Redis master dies before its replica has the entry, and the replica is promoted.
pub(super) async fn replica_lags(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(2).await?;
    let pair = replicated(scheduler).await?;
    let first = scheduler.node().await?;
    pair.cut(scheduler).await?;
    sold_to_redis(scheduler, first).await?;
    scheduler.kill(first).await?;
    pair.promote(scheduler).await?;
    scheduler.node().await?;
    // The replica serves until the promises are judged.
    scheduler.servers.nodes.push(pair.into_replica());
    Ok(())
}
