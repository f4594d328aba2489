//! A consumer dies, or fails, with an entry in hand.

use anyhow::{Context, bail};
use url::Url;

use crate::Scheduler;
use crate::scheduler::{Act, NodeIndex};
use crate::told::{Event, Witness};
use faults::{Fault, Proxy};
use ladder::{Answer, Capability, Point, WorkTurn};

/// A consumer dies with an entry in hand; a second process goes on, and nothing goes wrong there.
pub(super) async fn dies_before_write(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let second = dies_with_entry(scheduler, 2).await?;
    if scheduler.rung.can(Capability::GiveUp) {
        voucher_is_given_back(scheduler, second).await?;
    }
    Ok(())
}

/// As [`dies_before_write`], and nothing else is in stock.
pub(super) async fn dies_with_last(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    dies_with_entry(scheduler, 1).await.map(drop)
}

/// The next consumer dies with that entry, too, and the third one gives it up.
pub(super) async fn given_up(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let second = dies_with_entry(scheduler, 1).await?;
    gives_up(scheduler, second).await.map(drop)
}

async fn dies_with_entry(scheduler: &mut Scheduler<'_>, stock: i32) -> anyhow::Result<NodeIndex> {
    scheduler.voucher(stock).await?;
    let first = scheduler.node().await?;
    scheduler.buys("A", first, 0).await?;
    scheduler.works_to(first, Point::EntryRead).await?;
    scheduler.kill(first).await?;
    scheduler.until_disconnected(first).await?;
    let second = scheduler.node().await?;
    scheduler.buys("B", second, 1).await?;
    Ok(second)
}

async fn gives_up(scheduler: &mut Scheduler<'_>, second: NodeIndex) -> anyhow::Result<NodeIndex> {
    let (third, stop) = dies_again(scheduler, second, Point::EntryRead).await?;
    match stop {
        Act::Worked(WorkTurn::PutAside) => Ok(third),
        other => bail!("A's entry was to be given up, and came to {other:?}"),
    }
}

/// Where an entry is given up its voucher is on sale again: A's user finds it, and nobody after that.
async fn voucher_is_given_back(
    scheduler: &mut Scheduler<'_>,
    second: NodeIndex,
) -> anyhow::Result<()> {
    let third = gives_up(scheduler, second).await?;
    scheduler.log.say(Event::OrderFailed { actor: "A", again: "C" });
    let again = scheduler.buys("C", third, 0).await?;
    let answer = scheduler.answer(again);
    if answer != Some(&Act::Done(Answer::Accepted)) {
        scheduler.log.broken(Witness::GivenBackToNobody { buyer: "A" });
    }
    let late = scheduler.buys("D", third, 2).await?;
    if scheduler.answer(late) != Some(&Act::Done(Answer::SoldOut)) {
        scheduler.log.broken(Witness::GivenBackTwice { buyer: "A" });
    }
    Ok(())
}

/// The next consumer claims the entry, and dies at `point`; a third one claims it.
async fn dies_again(
    scheduler: &mut Scheduler<'_>,
    second: NodeIndex,
    point: Point,
) -> anyhow::Result<(NodeIndex, Act)> {
    scheduler.a_minute_passes().await?;
    scheduler.works_to(second, point).await?;
    scheduler.kill(second).await?;
    scheduler.a_minute_passes().await?;
    let third = scheduler.node().await?;
    let turn = scheduler.turn(third).await?;
    Ok((third, scheduler.finish(turn).await?))
}

/// A consumer dies between its commit and its acknowledgement. Later something goes wrong
/// elsewhere.
pub(super) async fn dies_before_ack(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(3).await?;
    let first = scheduler.node().await?;
    scheduler.buys("A", first, 0).await?;
    scheduler.works_to(first, Point::Acknowledging).await?;
    scheduler.kill(first).await?;
    let mut last = scheduler.node().await?;
    if scheduler.rung.can(Capability::GiveUp) {
        last = dies_before_ack_again(scheduler, last).await?;
    }
    scheduler.buys("B", last, 1).await?;
    fails_to_write(scheduler, last).await
}

/// The next consumer dies there, too; a third one finds an entry that was delivered too often, and
/// an order.
async fn dies_before_ack_again(
    scheduler: &mut Scheduler<'_>,
    second: NodeIndex,
) -> anyhow::Result<NodeIndex> {
    let (third, stop) = dies_again(scheduler, second, Point::Acknowledging).await?;
    match stop {
        Act::Worked(WorkTurn::Settled(Answer::Ordered(_))) => {}
        other => {
            scheduler.log.broken(Witness::OtherEnd { buyer: "A", stop: format!("{other:?}") });
        }
    }
    Ok(third)
}

/// A consumer takes an entry, and its connection to the database is ended before the commit.
async fn fails_to_write(scheduler: &mut Scheduler<'_>, node: NodeIndex) -> anyhow::Result<()> {
    let turn = scheduler.works_to(node, Point::Committing).await?;
    let ended: i64 = sqlx::query_scalar(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity
         where datname = current_database() and state = 'idle in transaction'",
    )
    .fetch_one(&scheduler.database)
    .await?;
    if ended != 1 {
        bail!("one connection was to be ended, and {ended} were");
    }
    scheduler.log.say(Event::ConnectionEnded);
    match scheduler.finish(turn).await? {
        Act::Failed(_) => Ok(()),
        other => bail!("a commit without a connection came to {other:?}"),
    }
}

/// The answer to a commit is lost: it was done, and the consumer cannot know.
pub(super) async fn connection_lost(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(2).await?;
    let mut plan = scheduler.node_plan()?;
    let network = behind_proxy(&mut plan.database_url).await?;
    let node = scheduler.start_node(&plan).await?;
    scheduler.buys("A", node, 0).await?;
    let turn = scheduler.works_to(node, Point::Committing).await?;
    network.break_by(Fault::LoseAnswer);
    scheduler.log.say(Event::CommitUnheard);
    match scheduler.finish(turn).await? {
        Act::Failed(_) => {}
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
pub(super) async fn one_consumer_name(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(3).await?;
    let (first, second) = (scheduler.node().await?, scheduler.node().await?);
    scheduler.buys("A", first, 0).await?;
    let slow = scheduler.works_to(first, Point::EntryRead).await?;
    scheduler.buys("B", second, 1).await?;
    fails_to_write(scheduler, second).await?;
    let again = scheduler.turn(second).await?;
    scheduler.finish(again).await?;
    scheduler.finish(slow).await?;
    Ok(())
}
