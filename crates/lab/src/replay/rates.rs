//! Limits of the rate, and a user who sends many requests.

use std::time::Duration;

use crate::Scheduler;
use crate::node_process::NodePlan;
use crate::scheduler::NodeIndex;
use crate::told::Event;
use ladder::{QueueKeys, WINDOW};
use redis_link::Redis;

/// One request begins a window; two come near its end, three at the beginning of the next, and one when the rate has
/// added one more.
pub(super) async fn window_edge(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(2).await?;
    let node = scheduler.node().await?;
    buy(scheduler, node, &["A"]).await?;
    seconds_pass(scheduler, 50).await?;
    buy(scheduler, node, &["B", "C"]).await?;
    seconds_pass(scheduler, 10).await?;
    buy(scheduler, node, &["D", "E", "F"]).await?;
    seconds_pass(scheduler, 20).await?;
    buy(scheduler, node, &["G"]).await
}

/// The same user goes to a process, and to another one whose clock is a window ahead.
pub(super) async fn clock_ahead(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(2).await?;
    let right = scheduler.node().await?;
    let plan = NodePlan { clock_ahead: WINDOW, ..scheduler.node_plan()? };
    let ahead = scheduler.start_node(&plan).await?;
    scheduler.log.say(Event::ClockAhead { process: ahead.number(), seconds: WINDOW.as_secs() });
    buy(scheduler, right, &["A", "B", "C"]).await?;
    buy(scheduler, ahead, &["D", "E", "F"]).await
}

/// The first user comes once with each of these names, and goes on to its end.
async fn buy(
    scheduler: &mut Scheduler<'_>,
    node: NodeIndex,
    names: &[&'static str],
) -> anyhow::Result<()> {
    for name in names {
        scheduler.buys(name, node, 0).await?;
    }
    Ok(())
}

/// Time passes for what counts the first user's requests: a counter lives so much less, a bucket was filled so much
/// earlier.
async fn seconds_pass(scheduler: &mut Scheduler<'_>, seconds: u64) -> anyhow::Result<()> {
    let redis = Redis::new(&scheduler.servers.redis_urls[0])?;
    let key = QueueKeys::with_prefix(&scheduler.key_prefix).rate(scheduler.first_user);
    let passed = Duration::from_secs(seconds);
    let passed_ms = i64::try_from(passed.as_millis())?;
    if redis.query::<String>(redis::cmd("TYPE").arg(&key)).await? == "hash" {
        let earlier = redis::cmd("HINCRBY").arg(&key).arg("at").arg(-passed_ms).to_owned();
        redis.query::<i64>(&earlier).await?;
    }
    let left_ms: i64 = redis.query(redis::cmd("PTTL").arg(&key)).await?;
    redis.query::<i64>(redis::cmd("PEXPIRE").arg(&key).arg(left_ms - passed_ms)).await?;
    scheduler.passed += passed;
    scheduler.log.say(Event::SecondsPass { seconds });
    Ok(())
}
