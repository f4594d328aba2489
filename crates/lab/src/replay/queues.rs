//! What becomes of a purchase between the answer and the database.

use anyhow::bail;

use super::{failing_consumers, redis_losses};
use crate::Scheduler;
use crate::node_process::FEW_PLACES;
use crate::scheduler::{Act, NodeIndex};
use crate::told::{Event, FailedPart, Failure, Witness};
use ladder::{Capability, Point, QueueKeys, Rung, Scenario};
use redis_link::Redis;

/// One buyer for each place in a queue.
const BUYERS: [&str; FEW_PLACES] = ["A", "B", "C", "D", "E"];

/// Why a rung has no consumer to be killed.
const NO_CONSUMER: &str = "writes before it answers";

/// Why none of its entries comes to grief in a stream.
const NO_STREAM: &str = "has no stream";

/// Why none of its orders comes to grief in a stream.
const WRITES_NONE: &str = "writes no orders from its stream";

/// Why there is no such replay: "it …"; `None` where there is one.
pub(super) fn absent(scenario: Scenario, rung: &Rung) -> Option<&'static str> {
    if !rung.has_consumer() {
        return Some(NO_CONSUMER);
    }
    let in_memory = rung.can(Capability::QueueInMemory);
    let writes_orders = !rung.decides_in_database();
    let unless = |applies: bool, reason: &'static str| (!applies).then_some(reason);
    match scenario {
        Scenario::GroupFromNow | Scenario::StreamTrimmed => unless(!in_memory, NO_STREAM),
        Scenario::DiesBeforeAck
        | Scenario::OneConsumerName
        | Scenario::PoisonEntry
        | Scenario::PoisonWithLast => {
            unless(!in_memory, NO_STREAM).or(unless(writes_orders, WRITES_NONE))
        }
        Scenario::ConnectionLost => unless(writes_orders, WRITES_NONE),
        Scenario::StockReloaded | Scenario::SoldAfterReload => {
            unless(writes_orders, "keeps no stock in Redis")
        }
        Scenario::RedisDies | Scenario::ReplicaLags => {
            unless(!in_memory, "keeps its queue in the process, which dies with less")
        }
        // A stream is filled by `stream_trimmed`.
        Scenario::QueueFull => unless(in_memory, "has no queue that turns anybody away"),
        Scenario::GivenUp => unless(rung.can(Capability::GiveUp), "gives no entry up"),
        Scenario::PublishedTwice => unless(!writes_orders, "has no relay"),
        _ => None,
    }
}

/// Plays `scenario`; what is left to be written is written afterwards.
pub(super) async fn play(scenario: Scenario, scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    match scenario {
        Scenario::UpdateIgnored => redis_losses::restored(scheduler, 2).await,
        Scenario::RedisRestored => redis_losses::restored(scheduler, 1).await,
        Scenario::DiesBeforeAck => failing_consumers::dies_before_ack(scheduler).await,
        Scenario::ConnectionLost => failing_consumers::connection_lost(scheduler).await,
        Scenario::OneConsumerName => failing_consumers::one_consumer_name(scheduler).await,
        Scenario::QueueFull => queue_full(scheduler).await,
        Scenario::FullQueueDies => full_queue_dies(scheduler).await,
        Scenario::DiesBeforeWrite => failing_consumers::dies_before_write(scheduler).await,
        Scenario::DiesWithLast => failing_consumers::dies_with_last(scheduler).await,
        Scenario::GivenUp => failing_consumers::given_up(scheduler).await,
        Scenario::PoisonEntry => poison_entry(scheduler, 2).await.map(drop),
        Scenario::PoisonWithLast => poison_with_last(scheduler).await,
        Scenario::GroupFromNow => group_from_now(scheduler).await,
        Scenario::StreamTrimmed => stream_trimmed(scheduler).await,
        Scenario::StockReloaded | Scenario::SoldAfterReload => stock_reloaded(scheduler).await,
        Scenario::RedisDies => redis_losses::redis_dies(scheduler).await,
        Scenario::ReplicaLags => redis_losses::replica_lags(scheduler).await,
        Scenario::PublishedTwice => published_twice(scheduler).await,
        other => bail!("{other} is not about a queue"),
    }
}

/// As many buy as a queue has places.
async fn fill(scheduler: &mut Scheduler<'_>, stock: usize) -> anyhow::Result<NodeIndex> {
    scheduler.voucher(i32::try_from(stock)?).await?;
    let node = scheduler.node().await?;
    for (user, name) in (0..).zip(BUYERS) {
        scheduler.buys(name, node, user).await?;
    }
    Ok(node)
}

/// There is no room for the last buyer, and nothing left for one who comes later.
async fn queue_full(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let node = fill(scheduler, FEW_PLACES + 1).await?;
    let last = scheduler.buys("F", node, 5).await?;
    if let Some(Act::Failed(Failure { part: FailedPart::Queue, .. })) = scheduler.answer(last) {
        scheduler.may_fail(last);
    }
    scheduler.buys("G", node, 6).await?;
    Ok(())
}

/// A stream keeps as many entries as a queue has places, and one more buys.
async fn stream_trimmed(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let node = fill(scheduler, FEW_PLACES + 1).await?;
    scheduler.buys("F", node, 5).await?;
    Ok(())
}

/// The process dies before it has written any of what it sold.
async fn full_queue_dies(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let first = fill(scheduler, FEW_PLACES).await?;
    scheduler.kill(first).await?;
    let second = scheduler.node().await?;
    scheduler.log.say(Event::Started { process: second.number() });
    Ok(())
}

/// An entry that can never be written comes first.
async fn poison_entry(scheduler: &mut Scheduler<'_>, stock: i32) -> anyhow::Result<NodeIndex> {
    scheduler.voucher(stock).await?;
    let node = scheduler.node().await?;
    let redis = Redis::new(&scheduler.servers.redis_urls[0])?;
    let mut add = redis::cmd("XADD");
    add.arg(scheduler.stream()).arg("*").arg("order").arg("none");
    redis.query::<()>(&add).await?;
    scheduler.log.say(Event::NoOrderInStream);
    scheduler.buys("A", node, 0).await?;
    Ok(node)
}

/// The same, A has bought the last voucher, and B comes too late.
async fn poison_with_last(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let node = poison_entry(scheduler, 1).await?;
    scheduler.buys("B", node, 1).await?;
    Ok(())
}

/// A buyer comes before the group of consumers is made.
async fn group_from_now(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(2).await?;
    let mut plan = scheduler.node_plan()?;
    plan.consumer = false;
    let first = scheduler.start_node(&plan).await?;
    scheduler.buys("A", first, 0).await?;
    let second = scheduler.node().await?;
    scheduler.log.say(Event::ConsumersStart);
    scheduler.buys("B", second, 1).await?;
    Ok(())
}

/// An operator loads the stock from the database into Redis, which had sold what is not written yet.
async fn stock_reloaded(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(1).await?;
    let node = scheduler.node().await?;
    scheduler.buys("A", node, 0).await?;
    let stock: i32 = sqlx::query_scalar("select stock from seckill_vouchers where voucher_id = $1")
        .bind(voucher)
        .fetch_one(&scheduler.database)
        .await?;
    let redis = Redis::new(&scheduler.servers.redis_urls[0])?;
    let key = QueueKeys::with_prefix(&scheduler.key_prefix).stock(voucher);
    redis.query::<()>(redis::cmd("SET").arg(key).arg(stock)).await?;
    scheduler.log.say(Event::StockLoaded { stock });
    scheduler.buys("B", node, 1).await?;
    Ok(())
}

/// The relay is killed between publishing and marking.
async fn published_twice(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(2).await?;
    let first = scheduler.node().await?;
    scheduler.buys("A", first, 0).await?;
    scheduler.works_to(first, Point::Published).await?;
    scheduler.kill(first).await?;
    scheduler.until_disconnected(first).await?;
    let second = scheduler.node().await?;
    scheduler.log.say(Event::Started { process: second.number() });
    scheduler.works_until_idle(second).await?;
    let (payments, mails): (i64, i64) = sqlx::query_as(
        "select (select count(*) from payments_begun where order_id = orders.id),
                (select count(*) from mails where order_id = orders.id)
         from orders where voucher_id = $1",
    )
    .bind(voucher)
    .fetch_one(&scheduler.database)
    .await?;
    scheduler.log.say(Event::FollowedUp { payments, mails });
    // The two consumers that the story is about: one is idempotent, one is not.
    if mails != 2 {
        bail!("the mail was to be sent twice, and was sent {mails} times");
    }
    if payments != 1 {
        scheduler.log.broken(Witness::PaidForTwice { payments });
    }
    Ok(())
}
