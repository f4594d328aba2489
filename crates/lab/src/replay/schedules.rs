//! The scenarios that are nothing but steps, as schedules: `A=1@2` is user 1, who comes to process 2 as actor A.
//!
//! `A>looked` goes on to the first of such points, or as far as it gets; `A!looked` has to come there; `A+B.` go on to
//! their ends. `K:A` kills the process of A, and `P:A` stops it past the lease until A goes on, as in the schedules of a
//! game. From `row` to `free` the lab holds the row of the first voucher, and `A#` stops there. `over` is the time of the
//! lease of user 1: a watchdog that lives has renewed it, or it has ended; after that `B?` is to be served. `forced` ends
//! that lease on every server before its time. Where orders have to be paid, `A$2` is A's payment, of which process 2 is
//! told; after `due` it comes too late. `T@1` ends one order that is not paid, in process 1, and offers it in line; `E@2` is another process,
//! which ends all of them.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use super::locked_row::{LockedRow, stop_at_row};
use crate::Scheduler;
use crate::looks::LeaseEnd;
use crate::scheduler::{Actor, ActorState, Attempt, NodeIndex};
use crate::told::{Event, Witness};
use ladder::{Capability, LeaseKind, LockKind, Point, SEGMENTS, Scenario};

/// `*2` wants the second voucher, and `~` has a lease that ends soon.
const SCHEDULES: [(Scenario, &str); 18] = [
    (Scenario::LastOne, "stock:1 A=1@1 B=rival@1 A!looked B>looked A+B."),
    (
        Scenario::Herd,
        "stock:5 A=1@1 B=2@1 C=3@1 D=4@1 E=5@1 A!looked B>looked C>looked D>looked E>looked A+B+C+D+E.",
    ),
    (Scenario::OtherSegment, "stock:2 segments A=1@1 A. B=rival@1 B."),
    (Scenario::DoubleClick, "stock:2 A=1@1 B=1@1 A>counted B>counted A+B."),
    (Scenario::TwoNodes, "stock:2 A=1@1 B=1@2 A>counted B>counted A+B."),
    (Scenario::EarlyRelease, "stock:2 A=1@1 B=1@1 A!committing B>orders_counted A+B."),
    (Scenario::HolderDies, "stock:2 A=1@1~ B=1@2 A!locked K:A over B?"),
    (Scenario::DiesBetween, "stock:2 A=1@1~ B=1@2 A!acquiring K:A over B?"),
    (
        Scenario::SlowHolder,
        "stock:1 stock:2 A=1@1~ B=1@2*2 C=1@2*2 A!committing over B>door A. C>door B+C.",
    ),
    (Scenario::OutlivedLease, "stock:2 A=1@1~ B=1@2 A!orders_counted over B>door A+B."),
    // Nobody waits for the lease: whether it is still there at the comparison must not depend on how fast the work
    // before it was.
    (
        Scenario::StalledRelease,
        "stock:1 stock:2 A=1@1 B=1@2*2 C=1@2*2 A!releasing forced B>door A. C>door B+C.",
    ),
    (Scenario::PayAndExpire, "stock:1 A=1@1 A. due T@1 T!order_due A$2 A!paying A+T."),
    (Scenario::SoldAgain, "stock:1 A=1@1 A. due A$2 A!paying T@1 T>end B=2@1 B. A+T+B."),
    (Scenario::HalfExpired, "stock:1 A=1@1 A. due T@1 T!half_done K:T E@2 B=2@2 B."),
    (Scenario::ForgottenTimer, "stock:1 A=1@1 A. K:A due E@2 B=2@2 B."),
    (Scenario::TokenTwice, "stock:2 A=1@1 B=1@2 A!let_in B>let_in A+B."),
    (Scenario::DiesLetIn, "stock:2 A=1@1 B=1@2 A!let_in K:A B?"),
    (Scenario::PassedInLine, "stock:1 A=1@1 A. B=2@1 B. due T@1 T!first_in_line C=3@2 C>end T+C."),
];

/// The schedules of rungs whose purchases go into batches and have no pause points.
const IN_BATCHES: [(Scenario, &str); 4] = [
    (Scenario::DoubleClick, "stock:2 row A=1@1 A# B=1@1 B>end free A+B."),
    (Scenario::TwoNodes, "stock:2 row A=1@1 A# B=1@2 B>end free A+B."),
    // What A sent before it died is done when the row is free.
    (Scenario::HolderDies, "stock:2 row A=1@1 A# K:A over free B=1@2 B?"),
    (Scenario::PausedHolder, "stock:2 row A=1@1 A# P:A B=1@2 B# free B. A."),
];

/// How far a second request gets: in, or to the lock's door.
pub(super) const IN_OR_AT_THE_DOOR: [Point; 2] = [Point::Missed, Point::OrdersCounted];

/// Points of which each rung has one, and points by their own names.
fn points(name: &str) -> anyhow::Result<Vec<Point>> {
    Ok(match name {
        // Where the rungs have looked at the stock, or at the orders, and not written yet; or, where they do not look,
        // have written and not committed; or, where Redis decides, have taken there, or were let in; or are about to enter.
        "looked" => vec![
            Point::StockRead,
            Point::OrdersCounted,
            Point::Committing,
            Point::TakenInRedis,
            Point::LetIn,
            Point::Entering,
        ],
        // The same of the user's orders. A rung that does not count at all runs through: a second request is sold to
        // anyway.
        "counted" => vec![
            Point::OrdersCounted,
            Point::Committing,
            Point::TakenInRedis,
            Point::LetIn,
            Point::Entering,
        ],
        // Between the two commands that take a lock; after the only one, where there is but one.
        "acquiring" => vec![Point::KeySet, Point::Locked],
        "door" => IN_OR_AT_THE_DOOR.to_vec(),
        // A payment handler has looked at the order, or has written and not committed.
        "paying" => vec![Point::UnpaidRead, Point::Settling],
        // What ends an order has done the first of two steps; or, where it has but one, has not committed it.
        "half_done" => vec![Point::Cancelled, Point::Cancelling],
        "end" => Vec::new(),
        point => vec![point.parse()?],
    })
}

/// The schedule of `scenario`; `None` where a scenario is more than steps.
pub(super) fn of(scenario: Scenario, in_batches: bool) -> Option<&'static str> {
    let schedules = if in_batches { &IN_BATCHES[..] } else { &SCHEDULES };
    schedules.iter().find(|(known, _)| *known == scenario).map(|(_, schedule)| *schedule)
}

/// Plays a schedule.
pub(super) async fn play(
    scheduler: &mut Scheduler<'_>,
    schedule: &'static str,
) -> anyhow::Result<()> {
    let mut actors = BTreeMap::new();
    // What is not a lock has no lease that could end.
    let mut end = match scheduler.rung.lock {
        LockKind::NoLock => LeaseEnd::Never,
        _ => LeaseEnd::Ended,
    };
    let (mut row, mut stopped) = (None, None);
    for word in schedule.split(' ') {
        let (name, sign, rest) = match word.find(['=', '!', '>', '#', ':', '?', '$', '@', '.']) {
            Some(at) => (&word[..at], &word[at..=at], &word[at + 1..]),
            None => (word, "", ""),
        };
        let actor = |name: &str| actors.get(name).copied().with_context(|| format!("no {name}"));
        match (name, sign) {
            ("stock", ":") => {
                scheduler.voucher(rest.parse()?).await?;
            }
            ("segments", _) => scheduler.log.say(Event::Segments { segments: SEGMENTS }),
            (name, "=") => {
                actors.insert(name, enter(scheduler, name, rest).await?);
            }
            (name, "!") => scheduler.must_reach(actor(name)?, &points(rest)?).await?,
            (name, ">") => {
                scheduler.until_first(actor(name)?, &points(rest)?).await?;
            }
            ("row", _) => row = Some(LockedRow::hold(scheduler, scheduler.vouchers[0]).await?),
            (name, "#") => stop_at_row(scheduler, actor(name)?).await?,
            ("free", _) => row.take().context("nobody holds it")?.let_go(scheduler).await?,
            ("P", ":") => stopped = Some(pause(scheduler, actor(rest)?).await?),
            ("K", ":") => kill(scheduler, actor(rest)?).await?,
            (name, "?") => {
                scheduler.finish_all(&[actor(name)?]).await?;
                if !scheduler.is_served(actor(name)?) {
                    scheduler.log.broken(Witness::locked_out(1, end == LeaseEnd::Never));
                }
            }
            ("forced", _) => scheduler.end_lease(0).await?,
            ("due", _) => scheduler.time_to_pay_passes(scheduler.vouchers[0]).await?,
            (name, "$") => {
                let (order, node) =
                    (scheduler.order_of(actor(name)?)?, process(scheduler, rest).await?);
                actors.insert(name, scheduler.pays(name, node, order).await?);
            }
            ("E", "@") => {
                let node = process(scheduler, rest).await?;
                scheduler.log.say(Event::StartedToExpire { process: node.number() });
                scheduler.expires_until_idle(node, scheduler.vouchers[0]).await?;
            }
            (name, "@") => {
                let node = process(scheduler, rest).await?;
                actors.insert(name, scheduler.expires(node, scheduler.vouchers[0]).await?);
            }
            ("over", _) => end = lease_is_over(scheduler).await?,
            (names, ".") => {
                let all = names.split('+').map(actor).collect::<anyhow::Result<Vec<_>>>()?;
                let of_stopped = |node: &mut NodeIndex| {
                    all.iter().any(|actor| scheduler.actors[actor.0].node == node.0)
                };
                if let Some(node) = stopped.take_if(of_stopped) {
                    scheduler.resume(node)?;
                }
                scheduler.finish_all(&all).await?;
            }
            _ => bail!("{word:?} is no word of a schedule"),
        }
    }
    Ok(())
}

/// `1@2*2~`: user 1 comes to process 2 for the second voucher, with a lease that ends soon.
async fn enter(
    scheduler: &mut Scheduler<'_>,
    name: &'static str,
    buyer: &str,
) -> anyhow::Result<Actor> {
    let (buyer, is_short) = buyer.strip_suffix('~').map_or((buyer, false), |buyer| (buyer, true));
    let (buyer, voucher) = buyer.split_once('*').unwrap_or((buyer, "1"));
    let (user, number) = buyer.split_once('@').context("nobody comes to a process")?;
    let user = match user {
        // Where the stock is in segments, somebody whose segment is the same.
        "rival" if scheduler.rung.can(Capability::Segments) => SEGMENTS,
        "rival" => 1,
        user => user.parse::<i64>()? - 1,
    };
    let attempt = Attempt::new(user, scheduler.vouchers[voucher.parse::<usize>()? - 1]);
    let node = process(scheduler, number).await?;
    scheduler.enter(name, node, if is_short { attempt.short() } else { attempt }).await
}

/// The process of this number, from 1; it is started when it is first named.
async fn process(scheduler: &mut Scheduler<'_>, number: &str) -> anyhow::Result<NodeIndex> {
    let node = NodeIndex(number.parse::<usize>()? - 1);
    while scheduler.nodes.len() <= node.0 {
        scheduler.node().await?;
    }
    Ok(node)
}

/// The process of an actor is killed, and PostgreSQL has noticed.
async fn kill(scheduler: &mut Scheduler<'_>, actor: Actor) -> anyhow::Result<()> {
    let node = NodeIndex(scheduler.actors[actor.0].node);
    scheduler.kill(node).await?;
    scheduler.until_disconnected(node).await?;
    if scheduler.rung.lock == LockKind::Database {
        scheduler.log.say(Event::DeadTransactionEnds);
    }
    Ok(())
}

/// The process of an actor is stopped, and the lease of user 1 ends.
async fn pause(scheduler: &mut Scheduler<'_>, actor: Actor) -> anyhow::Result<NodeIndex> {
    let node = NodeIndex(scheduler.actors[actor.0].node);
    scheduler.pause(node)?;
    scheduler.lease_over(0).await?;
    Ok(node)
}

/// Watchdogs that live renew; otherwise the lease ends, where there is one.
async fn lease_is_over(scheduler: &mut Scheduler<'_>) -> anyhow::Result<LeaseEnd> {
    let is_dead = scheduler.count(|record| record.state == ActorState::Killed) > 0;
    let is_kept = scheduler.rung.lease == LeaseKind::Renewed && !is_dead;
    let end = scheduler.lease_over(0).await?;
    if (end == LeaseEnd::Renewed) != is_kept {
        bail!("the lease came to {end:?}");
    }
    Ok(end)
}
