//! What becomes of a lock when a server that keeps it dies, forgets, or has a wrong clock.

use anyhow::{Context, bail};

use super::owners::last_check;
use super::schedules::IN_OR_AT_THE_DOOR;
use crate::Scheduler;
use crate::lock_servers::LockServers;
use crate::looks::until;
use crate::scheduler::{Act, Actor, Attempt};
use crate::told::{Event, FailedPart, Witness};
use faults::{Fault, Proxy, RedisNode};
use ladder::{Answer, Capability, LockKind, Point};

/// Where the server that is down is at fault; a failure of anything else proves nothing.
const LOCK_FAILURES: [FailedPart; 4] =
    [FailedPart::Lock, FailedPart::Redis, FailedPart::ZooKeeper, FailedPart::Purchase];

/// One of the lock's servers is down: can anyone still buy?
pub(super) async fn node_down(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(1).await?;
    scheduler.servers.none_shared(scheduler.world, scheduler.rung).await?;
    let node = scheduler.node().await?;
    // Short, as ZooKeeper is asked in vain for as long as a session may last.
    let a = scheduler.enter("A", node, Attempt::new(0, voucher).short()).await?;
    let gone = scheduler.servers.kill_last()?;
    scheduler.log.say(Event::ServerKilled { server: gone.clone() });
    scheduler.may_fail(a);
    scheduler.finish_all(&[a]).await?;
    match scheduler.answer(a) {
        Some(Act::Done(Answer::Ordered(_))) => {}
        Some(Act::Failed(failure)) if LOCK_FAILURES.contains(&failure.part) => {
            scheduler.log.broken(Witness::ServerDown { server: gone });
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
pub(super) async fn replicated(scheduler: &mut Scheduler<'_>) -> anyhow::Result<Pair> {
    scheduler.servers = LockServers::fresh(scheduler.world, count(scheduler)).await?;
    let replica = RedisNode::start_at(scheduler.world.home()).await?;
    let link = Proxy::start(&scheduler.servers.nodes[0].socket_url()).await?;
    replica.replica_at(link.port()).await?;
    Ok(Pair { replica, link })
}

impl Pair {
    /// The replica alone, which goes on.
    pub(super) fn into_replica(self) -> RedisNode {
        self.replica
    }

    pub(super) async fn cut(&self, scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
        self.link.break_by(Fault::Down);
        self.replica.until_cut_off().await?;
        scheduler.log.say(Event::LinkCut);
        Ok(())
    }

    /// The master dies, and the replica is what processes find that start from now on.
    pub(super) async fn promote(&self, scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
        scheduler.servers.nodes[0].process.kill();
        scheduler.log.say(Event::MasterKilled);
        self.replica.promote().await?;
        scheduler.log.say(Event::ReplicaPromoted);
        scheduler.servers.redis_urls[0] = self.replica.url();
        Ok(())
    }
}

/// The master dies before its replica has heard of the lock, and the replica is promoted.
pub(super) async fn failover(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(2).await?;
    let pair = replicated(scheduler).await?;
    let first = scheduler.node().await?;
    let a = scheduler.enter("A", first, Attempt::new(0, voucher)).await?;
    pair.cut(scheduler).await?;
    held_by_as_few_as_possible(scheduler, a).await?;
    pair.promote(scheduler).await?;
    let second = scheduler.node().await?;
    let b = scheduler.enter("B", second, Attempt::new(0, voucher)).await?;
    // It writes, and then finds nobody to give the lock back to.
    scheduler.may_fail(a);
    meet(scheduler, a, b).await
}

/// A server of the lock restarts with an empty memory. A lock that is told of it when its connection ends looks no
/// more: A has looked for the last time before.
pub(super) async fn amnesia(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let (a, b) = one_of_two_holds(scheduler).await?;
    if last_check(scheduler.rung) == Point::LastCheck {
        scheduler.must_reach(a, &[Point::LastCheck]).await?;
    }
    let forgets = scheduler.servers.nodes.len().min(2) - 1;
    scheduler.servers.nodes[forgets].restart_empty().await?;
    scheduler.log.say(Event::RedisEmpty { redis: forgets + 1 });
    scheduler.may_fail(a);
    meet(scheduler, a, b).await
}

/// The clock of a server of the lock leaps past the lease.
pub(super) async fn clock_jump(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let (a, b) = one_of_two_holds(scheduler).await?;
    let leaps = scheduler.servers.nodes.len().min(2) - 1;
    scheduler.expire(0, leaps).await?;
    scheduler.log.say(Event::ClockLeaps { redis: leaps + 1 });
    meet(scheduler, a, b).await
}

/// A and B come to a process each, and A holds the lock.
async fn one_of_two_holds(scheduler: &mut Scheduler<'_>) -> anyhow::Result<(Actor, Actor)> {
    let voucher = scheduler.voucher(2).await?;
    scheduler.servers = LockServers::fresh(scheduler.world, count(scheduler)).await?;
    let nodes = [scheduler.node().await?, scheduler.node().await?];
    let a = scheduler.enter("A", nodes[0], Attempt::new(0, voucher)).await?;
    let b = scheduler.enter("B", nodes[1], Attempt::new(0, voucher)).await?;
    held_by_as_few_as_possible(scheduler, a).await?;
    Ok((a, b))
}

/// A takes the lock, on a bare majority where the rung is content with that: the last server is down
/// for a moment. All that becomes of the lock's servers begins so, with one of those that granted it.
async fn held_by_as_few_as_possible(scheduler: &mut Scheduler<'_>, a: Actor) -> anyhow::Result<()> {
    let bare_majority = scheduler.rung.can(Capability::Majority);
    let last = scheduler.servers.nodes.len() - 1;
    if bare_majority {
        scheduler.servers.nodes[last].process.kill();
        scheduler.log.say(Event::RedisDown { redis: last + 1 });
    }
    scheduler.must_reach(a, &[Point::OrdersCounted]).await?;
    if bare_majority {
        scheduler.servers.nodes[last].restart().await?;
        scheduler.log.say(Event::RedisUp { redis: last + 1 });
    }
    Ok(())
}

/// B comes while A is about to write.
async fn meet(scheduler: &mut Scheduler<'_>, a: Actor, b: Actor) -> anyhow::Result<()> {
    if let Act::At(Point::OrdersCounted, _) = scheduler.until_first(b, &IN_OR_AT_THE_DOOR).await? {
        // B first: A, which was in first, is late.
        return scheduler.finish_all(&[b, a]).await;
    }
    scheduler.finish_all(&[a, b]).await
}

/// The reply to a release is lost, and it is sent again, while the holder has two holds.
pub(super) async fn resent_release(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let (wanted, on_the_way) = (scheduler.voucher(3).await?, scheduler.voucher(2).await?);
    scheduler.servers = LockServers::fresh(scheduler.world, 1).await?;
    let direct = scheduler.servers.redis_urls.clone();
    let proxy = Proxy::start(&scheduler.servers.nodes[0].socket_url()).await?;
    scheduler.servers.redis_urls = vec![proxy.url().to_owned()];
    let first = scheduler.node().await?;
    scheduler.servers.redis_urls = direct;
    let second = scheduler.node().await?;
    // Somebody else before, so that Redis knows the scripts: the reply that is lost must be
    // the one to the release.
    let w = scheduler.enter("W", first, Attempt::new(1, wanted).and(on_the_way)).await?;
    scheduler.finish_all(&[w]).await?;
    let a = scheduler.enter("A", first, Attempt::new(0, wanted).and(on_the_way)).await?;
    let b = scheduler.enter("B", second, Attempt::new(0, wanted)).await?;
    scheduler.must_reach(a, &[Point::Releasing]).await?;
    let before = scripts_run(scheduler).await?;
    proxy.break_by(Fault::LoseAnswer);
    scheduler.log.say(Event::ReplyWillBeLost { actor: "A" });
    scheduler.must_reach(a, &[Point::InnerDone]).await?;
    let is_resent = || async { Ok(scripts_run(scheduler).await? >= before + 2) };
    until("the release was not sent again", is_resent).await?;
    scheduler.log.say(Event::ReleasedTwice);
    scheduler.must_reach(a, &[Point::OrdersCounted]).await?;
    scheduler.until_first(b, &IN_OR_AT_THE_DOOR).await?;
    scheduler.finish_all(&[a, b]).await
}

/// How many scripts the first server has run.
async fn scripts_run(scheduler: &Scheduler<'_>) -> anyhow::Result<u64> {
    let stats =
        scheduler.servers.nodes[0].field(&["INFO", "commandstats"], "cmdstat_evalsha").await?;
    let calls = stats.split(',').find_map(|stat| stat.strip_prefix("calls="));
    calls.unwrap_or("0").parse().context("Redis counts strangely")
}

fn count(scheduler: &Scheduler<'_>) -> usize {
    match scheduler.rung.lock {
        LockKind::Redis(count) => count,
        LockKind::ZooKeeper | LockKind::Stream => 1,
        LockKind::NoLock | LockKind::Database | LockKind::Mutex => 1,
    }
}
