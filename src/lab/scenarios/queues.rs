//! What becomes of a purchase between the answer and the database.

use anyhow::{Context, bail};
use url::Url;

use super::servers::replicated;
use crate::lab::Scheduler;
use crate::lab::faults::{Fault, Proxy, RedisNode};
use crate::lab::lock_servers::LockServers;
use crate::lab::scheduler::{Actor, ActorPlan, NodeIndex, Stop};
use crate::ladder::{Answer, Point, Rung, Scenario, WorkTurn};
use crate::store::Redis;

/// The rung whose queue is in the memory of a process.
const IN_MEMORY: u32 = 20;

/// The rung that claims what a consumer left, and counts how often.
const DONE_RIGHT: u32 = 22;

/// The rung whose database decides.
const OUTBOX: u32 = 23;

/// Why a rung has no consumer to be killed.
const NO_CONSUMER: &str = "writes before it answers";

/// Whether a scenario is about what comes after the answer.
pub(super) const fn is_one(scenario: Scenario) -> bool {
    matches!(
        scenario,
        Scenario::UpdateIgnored
            | Scenario::RedisRestored
            | Scenario::DiesBeforeAck
            | Scenario::ConnectionLost
            | Scenario::OneConsumerName
            | Scenario::QueueFull
            | Scenario::FullQueueDies
            | Scenario::DiesBeforeWrite
            | Scenario::DiesWithLast
            | Scenario::PoisonEntry
            | Scenario::GroupFromNow
            | Scenario::StreamTrimmed
            | Scenario::RedisDies
            | Scenario::ReplicaLags
            | Scenario::PublishedTwice
    )
}

/// Why there is no such replay: "it …"; `None` where there is one.
pub(super) fn absent(scenario: Scenario, rung: &Rung) -> Option<&'static str> {
    if !rung.has_consumer() {
        return Some(NO_CONSUMER);
    }
    match (scenario, rung.number()) {
        (
            Scenario::DiesBeforeAck
            | Scenario::OneConsumerName
            | Scenario::PoisonEntry
            | Scenario::GroupFromNow
            | Scenario::StreamTrimmed,
            IN_MEMORY,
        ) => Some("has no stream"),
        (Scenario::RedisDies | Scenario::ReplicaLags, IN_MEMORY) => {
            Some("keeps its queue in the process, which dies with less")
        }
        (
            Scenario::DiesBeforeAck
            | Scenario::ConnectionLost
            | Scenario::OneConsumerName
            | Scenario::PoisonEntry,
            OUTBOX,
        ) => Some("writes no orders from its stream"),
        (Scenario::PublishedTwice, number) if number != OUTBOX => Some("has no relay"),
        _ => None,
    }
}

/// Plays `scenario`; what is left to be written is written afterwards.
pub(super) async fn play(scenario: Scenario, scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    match scenario {
        Scenario::UpdateIgnored => restored(scheduler, 2).await,
        Scenario::RedisRestored => restored(scheduler, 1).await,
        Scenario::DiesBeforeAck => dies_before_ack(scheduler).await,
        Scenario::ConnectionLost => connection_lost(scheduler).await,
        Scenario::OneConsumerName => one_consumer_name(scheduler).await,
        Scenario::QueueFull | Scenario::StreamTrimmed => more_than_fit(scheduler).await,
        Scenario::FullQueueDies => full_queue_dies(scheduler).await,
        Scenario::DiesBeforeWrite => dies_before_write(scheduler, 2).await,
        Scenario::DiesWithLast => dies_before_write(scheduler, 1).await,
        Scenario::PoisonEntry => poison_entry(scheduler).await,
        Scenario::GroupFromNow => group_from_now(scheduler).await,
        Scenario::RedisDies => redis_dies(scheduler).await,
        Scenario::ReplicaLags => replica_lags(scheduler).await,
        Scenario::PublishedTwice => published_twice(scheduler).await,
        other => bail!("{other} is not about a queue"),
    }
}

/// A buyer comes, and is answered.
async fn buys(
    scheduler: &mut Scheduler<'_>,
    name: &'static str,
    node: NodeIndex,
    user: i64,
) -> anyhow::Result<Actor> {
    let voucher = *scheduler.vouchers.first().context("nothing is on sale")?;
    let buyer = scheduler.enter(name, node, ActorPlan::new(user, voucher)).await?;
    scheduler.finish(buyer).await?;
    Ok(buyer)
}

/// The consumer of `node` goes on to `point`, and stays there.
async fn works_to(
    scheduler: &mut Scheduler<'_>,
    node: NodeIndex,
    point: Point,
) -> anyhow::Result<Actor> {
    let turn = scheduler.turn(node).await?;
    scheduler.must_reach(turn, &[point]).await?;
    Ok(turn)
}

/// The process dies before it has written any of what it sold.
async fn full_queue_dies(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(2).await?;
    let first = scheduler.node().await?;
    buys(scheduler, "A", first, 0).await?;
    buys(scheduler, "B", first, 1).await?;
    scheduler.kill(first).await?;
    scheduler.node().await?;
    scheduler.say("process 2 starts");
    Ok(())
}

/// A consumer dies with an entry in hand; a second process goes on, and nothing goes wrong there.
async fn dies_before_write(scheduler: &mut Scheduler<'_>, stock: i32) -> anyhow::Result<()> {
    scheduler.voucher(stock).await?;
    let first = scheduler.node().await?;
    buys(scheduler, "A", first, 0).await?;
    works_to(scheduler, first, Point::EntryRead).await?;
    scheduler.kill(first).await?;
    scheduler.until_disconnected(first).await?;
    let second = scheduler.node().await?;
    buys(scheduler, "B", second, 1).await?;
    Ok(())
}

/// A consumer dies between its commit and its acknowledgement. Later something goes wrong
/// elsewhere.
async fn dies_before_ack(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(3).await?;
    let first = scheduler.node().await?;
    buys(scheduler, "A", first, 0).await?;
    works_to(scheduler, first, Point::Acknowledging).await?;
    scheduler.kill(first).await?;
    let mut last = scheduler.node().await?;
    if scheduler.rung.number() == DONE_RIGHT {
        last = dies_before_ack_again(scheduler, last).await?;
    }
    buys(scheduler, "B", last, 1).await?;
    fails_to_write(scheduler, last).await
}

/// The next consumer dies there, too; a third one finds an entry that was delivered too often, and
/// an order.
async fn dies_before_ack_again(
    scheduler: &mut Scheduler<'_>,
    second: NodeIndex,
) -> anyhow::Result<NodeIndex> {
    scheduler.a_minute_passes().await?;
    works_to(scheduler, second, Point::Acknowledging).await?;
    scheduler.kill(second).await?;
    scheduler.a_minute_passes().await?;
    let third = scheduler.node().await?;
    let turn = scheduler.turn(third).await?;
    match scheduler.finish(turn).await? {
        Stop::Worked(WorkTurn::Settled(Answer::Ordered(_))) => {}
        other => scheduler.broken(format!("A has an order, and its entry came to {other:?}")),
    }
    Ok(third)
}

/// A consumer takes an entry, and its connection to the database is ended before the commit.
async fn fails_to_write(scheduler: &mut Scheduler<'_>, node: NodeIndex) -> anyhow::Result<()> {
    let turn = works_to(scheduler, node, Point::Committing).await?;
    let ended: i64 = sqlx::query_scalar(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity
         where datname = current_database() and state = 'idle in transaction'",
    )
    .fetch_one(&scheduler.database)
    .await?;
    if ended != 1 {
        bail!("one connection was to be ended, and {ended} were");
    }
    scheduler.say("the connection of this transaction is ended (pg_terminate_backend)");
    match scheduler.finish(turn).await? {
        Stop::Failed(_) => Ok(()),
        other => bail!("a commit without a connection came to {other:?}"),
    }
}

/// The answer to a commit is lost: it was done, and the consumer cannot know.
async fn connection_lost(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(2).await?;
    let mut plan = scheduler.node_plan()?;
    let network = behind_proxy(&mut plan.database_url).await?;
    let node = scheduler.start_node(&plan).await?;
    buys(scheduler, "A", node, 0).await?;
    let turn = works_to(scheduler, node, Point::Committing).await?;
    network.break_by(Fault::LoseAnswer);
    scheduler.say("the database will commit, and its answer be lost");
    match scheduler.finish(turn).await? {
        Stop::Failed(_) => {}
        other => bail!("a commit without an answer came to {other:?}"),
    }
    // The consumer will connect again.
    scheduler.servers.networks.push(network);
    Ok(())
}

/// Puts a network that can break before the database at `url`.
async fn behind_proxy(url: &mut String) -> anyhow::Result<Proxy> {
    let mut parsed = Url::parse(url)?;
    let port = parsed.port().unwrap_or(5432);
    let directory = parsed.query_pairs().find(|(name, _)| name == "host");
    let proxy = match directory {
        Some((_, directory)) if directory.starts_with('/') => {
            Proxy::before_socket(format!("{directory}/.s.PGSQL.{port}").into()).await?
        }
        _ => {
            let host = parsed.host_str().context("the database has no address")?;
            Proxy::before(&format!("{host}:{port}")).await?
        }
    };
    parsed.set_query(None);
    parsed.set_host(Some("127.0.0.1"))?;
    // Refused only for a URL without a host.
    let _ = parsed.set_port(Some(proxy.port()));
    *url = parsed.into();
    Ok(proxy)
}

/// One process has an entry in hand; another one fails, and looks through what is pending.
async fn one_consumer_name(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(3).await?;
    let (first, second) = (scheduler.node().await?, scheduler.node().await?);
    buys(scheduler, "A", first, 0).await?;
    let slow = works_to(scheduler, first, Point::EntryRead).await?;
    buys(scheduler, "B", second, 1).await?;
    fails_to_write(scheduler, second).await?;
    let again = scheduler.turn(second).await?;
    scheduler.finish(again).await?;
    scheduler.finish(slow).await?;
    Ok(())
}

/// An entry that can never be written comes first.
async fn poison_entry(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(2).await?;
    let node = scheduler.node().await?;
    let redis = Redis::new(&scheduler.servers.redis_urls[0])?;
    let mut add = redis::cmd("XADD");
    add.arg(scheduler.stream()).arg("*").arg("order").arg("none");
    redis.query::<()>(&add).await?;
    scheduler.say("an entry is in the stream that is no order");
    buys(scheduler, "A", node, 0).await?;
    Ok(())
}

/// A buyer comes before the group of consumers is made.
async fn group_from_now(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(2).await?;
    let mut plan = scheduler.node_plan()?;
    plan.consumer = false;
    let first = scheduler.start_node(&plan).await?;
    buys(scheduler, "A", first, 0).await?;
    let second = scheduler.node().await?;
    scheduler.say("the consumers are started, and make their group");
    buys(scheduler, "B", second, 1).await?;
    Ok(())
}

/// Six buy, and the queue has five places. A seventh finds nothing left.
async fn more_than_fit(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    const BUYERS: [&str; 7] = ["A", "B", "C", "D", "E", "F", "G"];
    let voucher = scheduler.voucher(6).await?;
    let node = scheduler.node().await?;
    for (user, name) in (0..).zip(BUYERS) {
        let buyer = scheduler.enter(name, node, ActorPlan::new(user, voucher)).await?;
        // There may be no room.
        scheduler.may_fail(buyer);
        scheduler.finish(buyer).await?;
    }
    Ok(())
}

/// Redis comes back from a snapshot that is older than B's purchase, and `user` buys.
async fn restored(scheduler: &mut Scheduler<'_>, user: i64) -> anyhow::Result<()> {
    scheduler.servers = LockServers::fresh(scheduler.world, 1).await?;
    scheduler.voucher(2).await?;
    let first = scheduler.node().await?;
    buys(scheduler, "A", first, 0).await?;
    writes(scheduler, first).await?;
    scheduler.servers.nodes[0].command::<()>(&["SAVE"]).await?;
    scheduler.say("Redis writes a snapshot (SAVE)");
    buys(scheduler, "B", first, 1).await?;
    writes(scheduler, first).await?;
    scheduler.kill(first).await?;
    scheduler.servers.nodes[0].restart().await?;
    scheduler.say("Redis is killed (SIGKILL), and started again from its snapshot");
    let second = scheduler.node().await?;
    buys(scheduler, "C", second, user).await?;
    Ok(())
}

/// The consumer of `node` takes turns until there is nothing to do.
async fn writes(scheduler: &mut Scheduler<'_>, node: NodeIndex) -> anyhow::Result<()> {
    loop {
        let turn = scheduler.turn(node).await?;
        match scheduler.finish(turn).await? {
            Stop::Worked(WorkTurn::Idle) => return Ok(()),
            Stop::Worked(_) => {}
            other => bail!("the consumer was to write, and came to {other:?}"),
        }
    }
}

/// A's purchase is what Redis loses; where the database decides, its relay has published it.
async fn sold_to_redis(scheduler: &mut Scheduler<'_>, node: NodeIndex) -> anyhow::Result<()> {
    buys(scheduler, "A", node, 0).await?;
    if scheduler.rung.number() == OUTBOX {
        let turn = scheduler.turn(node).await?;
        scheduler.finish(turn).await?;
    }
    Ok(())
}

/// A power cut: what Redis acknowledged after its last `fsync` is gone.
async fn redis_dies(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let everysec = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let node = RedisNode::start(&everysec).await?;
    scheduler.servers = LockServers::default();
    scheduler.servers.redis_urls.push(node.url());
    scheduler.servers.nodes.push(node);
    scheduler.voucher(2).await?;
    let first = scheduler.node().await?;
    let on_disk = scheduler.servers.nodes[0].log_on_disk()?;
    scheduler.say("Redis has written its log to the disk (appendfsync everysec)");
    sold_to_redis(scheduler, first).await?;
    scheduler.kill(first).await?;
    scheduler.servers.nodes[0].lose_power(on_disk)?;
    scheduler.servers.nodes[0].restart().await?;
    scheduler.say("the power is cut: Redis starts again with what was on its disk");
    scheduler.node().await?;
    Ok(())
}

/// The Redis master dies before its replica has the entry, and the replica is promoted.
async fn replica_lags(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
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

/// The relay is killed between publishing and marking.
async fn published_twice(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(2).await?;
    let first = scheduler.node().await?;
    buys(scheduler, "A", first, 0).await?;
    works_to(scheduler, first, Point::Published).await?;
    scheduler.kill(first).await?;
    scheduler.until_disconnected(first).await?;
    let second = scheduler.node().await?;
    scheduler.say("process 2 starts");
    writes(scheduler, second).await?;
    let (payments, mails): (i64, i64) = sqlx::query_as(
        "select (select count(*) from payments where order_id = orders.id),
                (select count(*) from mails where order_id = orders.id)
         from orders where voucher_id = $1",
    )
    .bind(voucher)
    .fetch_one(&scheduler.database)
    .await?;
    scheduler.say(format!("payments begun: {payments}; mails sent: {mails}"));
    // The two consumers that the story is about: one is idempotent, one is not.
    if mails != 2 {
        bail!("the mail was to be sent twice, and was sent {mails} times");
    }
    if payments != 1 {
        scheduler.broken(format!("an order was paid for {payments} times"));
    }
    Ok(())
}
