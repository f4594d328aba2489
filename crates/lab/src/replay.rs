//! One cell of the matrix: one scenario, played on one rung, judged.
//!
//! A scenario lets each actor run to its next pause point and no further, so it reproduces every time. It says what is
//! done, and leaves it to the judge what came of it. It must play on every rung: one rung lets a second actor through,
//! another has it wait, a third turns it away. `schedules` has those that are nothing but steps; the other modules
//! those that need more: servers that fail, rows that the lab locks, what comes later.

mod caches;
mod failing_consumers;
mod given_back;
mod locked_row;
mod orders_of_arrival;
mod owners;
mod payments;
mod production;
mod queues;
mod rates;
mod redis_losses;
mod retries;
mod schedules;
mod servers;
mod standby;

use std::ops::RangeInclusive;
use std::time::Instant;

use super::cell::{Cell, LadderPlace};
use super::judge::{Outcome, Verdict, judge};
use super::scheduler::Scheduler;
use super::world::World;
use ladder::{Capability, LeaseKind, LockKind, RUNGS, Rung, Scenario};

/// The scenarios of what comes after the answer, of payments and of caches, as the registry has them beside each other.
const OF_QUEUES: RangeInclusive<Scenario> = Scenario::UpdateIgnored..=Scenario::PublishedTwice;
const OF_PAYMENTS: RangeInclusive<Scenario> = Scenario::SoldAgain..=Scenario::UnknownOrder;
const OF_CACHES: RangeInclusive<Scenario> = Scenario::JustRestocked..=Scenario::LostDelete;

/// Why nobody waits for a release.
const TURNS_AWAY: &str = "turns a second request away, nobody waits";

/// Every cell there is: those that make sense.
pub fn cells() -> impl Iterator<Item = (&'static Rung, Scenario)> {
    RUNGS.iter().flat_map(|rung| {
        let scenarios = Scenario::ALL.iter().copied();
        scenarios
            .filter(|scenario| absent(*scenario, rung).is_none())
            .map(move |scenario| (rung, scenario))
    })
}

/// Plays a cell.
pub async fn replay(world: &World, rung: &'static Rung, scenario: Scenario) -> Cell {
    let begun = Instant::now();
    let (verdict, timeline) = match Scheduler::new(world, rung).await {
        Ok(mut scheduler) => {
            let verdict = match play(&mut scheduler, scenario).await {
                Ok(verdict) => verdict,
                Err(error) => Verdict::of_failure(&error),
            };
            (verdict, scheduler.strike().await)
        }
        Err(error) => (Verdict::of_failure(&error), Vec::new()),
    };
    Cell {
        of: LadderPlace { rung: rung.id, scenario, invariant: scenario.invariant() },
        claimed_errors: None,
        errors: None,
        claimed: if rung.claims_to_survive(scenario) { Outcome::Holds } else { Outcome::Breaks },
        observed: verdict.observed,
        witness: verdict.witness,
        elapsed_ms: begun.elapsed().as_millis() as u64,
        timeline,
    }
}

/// Where the scenario cannot be played to its end, the cell is unknown.
async fn play(scheduler: &mut Scheduler<'_>, scenario: Scenario) -> anyhow::Result<Verdict> {
    take_steps(scheduler, scenario).await?;
    // Where a server stays away, nobody can write later what was sold, or be asked.
    if scenario != Scenario::NodeDown {
        scheduler.settle().await?;
    }
    match scheduler.failure() {
        Some(why) => Ok(Verdict::unknown(why)),
        None => judge(scheduler, scenario.invariant()).await,
    }
}

async fn take_steps(scheduler: &mut Scheduler<'_>, scenario: Scenario) -> anyhow::Result<()> {
    let in_batches = scheduler.rung.can(Capability::OneStep) && !OF_QUEUES.contains(&scenario);
    if let Some(schedule) = schedules::of(scenario, in_batches) {
        return schedules::play(scheduler, schedule).await;
    }
    match scenario {
        Scenario::NodeDown => servers::node_down(scheduler).await,
        Scenario::DatabaseFailover => standby::database_failover(scheduler, false).await,
        Scenario::SynchronousFailover => standby::database_failover(scheduler, true).await,
        _ if in_batches => production::play(scenario, scheduler).await,
        Scenario::GivenBackTogether => given_back::given_back_together(scheduler).await,
        Scenario::Nested => owners::nested(scheduler).await,
        Scenario::LostWakeup => owners::lost_wakeup(scheduler).await,
        Scenario::PausedHolder => owners::paused_holder(scheduler).await,
        Scenario::ResentRelease => servers::resent_release(scheduler).await,
        Scenario::Failover => servers::failover(scheduler).await,
        Scenario::Amnesia => servers::amnesia(scheduler).await,
        Scenario::ClockJump => servers::clock_jump(scheduler).await,
        Scenario::AnswerLost => retries::answer_lost(scheduler).await,
        Scenario::WindowEdge => rates::window_edge(scheduler).await,
        Scenario::ClockAhead => rates::clock_ahead(scheduler).await,
        Scenario::OtherOrder => orders_of_arrival::other_order(scheduler).await,
        Scenario::LatePayment => payments::late_payment(scheduler).await,
        Scenario::UnknownOrder => payments::unknown_order(scheduler).await,
        cached if OF_CACHES.contains(&cached) => caches::play(cached, scheduler).await,
        queued => queues::play(queued, scheduler).await,
    }
}

/// Scenarios of rungs that can something, and what is said of the others.
const OF_CAPABILITIES: [(&[Scenario], Capability, &str); 7] = [
    (&[Scenario::AnswerLost], Capability::Retried, "has clients that send nothing again"),
    (&[Scenario::WindowEdge, Scenario::ClockAhead], Capability::Rate, "counts nobody's requests"),
    (
        &[Scenario::TokenTwice, Scenario::DiesLetIn],
        Capability::Token,
        "gives nobody an admission token",
    ),
    (
        &[Scenario::DatabaseFailover, Scenario::SynchronousFailover],
        Capability::Standby,
        "is played with a database that has no standby",
    ),
    (
        &[Scenario::OtherSegment, Scenario::GivenBackTogether],
        Capability::Segments,
        "keeps its stock in one row",
    ),
    (&[Scenario::OtherOrder], Capability::Race, "is not asked who wins"),
    (&[Scenario::PassedInLine], Capability::Line, "has no line"),
];

/// Why `scenario` makes no sense on `rung`: "it …"; `None` where it does.
pub fn absent(scenario: Scenario, rung: &Rung) -> Option<&'static str> {
    let unless = |applies: bool, reason: &'static str| (!applies).then_some(reason);
    let has_lease = rung.lease != LeaseKind::NoLease;
    let of_stock = [Scenario::LastOne, Scenario::Herd, Scenario::DoubleClick, Scenario::TwoNodes];
    if OF_PAYMENTS.contains(&scenario) {
        return unless(rung.can(Capability::Expire), "has no orders that have to be paid");
    }
    if let Some((_, needed, reason)) = OF_CAPABILITIES.iter().find(|of| of.0.contains(&scenario)) {
        return unless(rung.can(*needed), reason);
    }
    if OF_QUEUES.contains(&scenario) {
        return queues::absent(scenario, rung);
    }
    if scenario == Scenario::NodeDown {
        return no_lock_server(rung);
    }
    if OF_CACHES.contains(&scenario) {
        return caches::absent(scenario, rung);
    }
    if matches!(rung.lock, LockKind::NoLock | LockKind::Stream) {
        return unless(of_stock.contains(&scenario), "takes no lock");
    }
    if rung.can(Capability::OneStep) {
        return production::absent(scenario);
    }
    match scenario {
        Scenario::LastOne
        | Scenario::Herd
        | Scenario::DoubleClick
        | Scenario::TwoNodes
        | Scenario::EarlyRelease
        | Scenario::HolderDies
        | Scenario::Nested => None,
        Scenario::DiesBetween => unless(
            rung.lease == LeaseKind::Fixed,
            "takes its lock and the lease in one step, or has no lease",
        ),
        Scenario::SlowHolder | Scenario::OutlivedLease | Scenario::PausedHolder => {
            // A lock that ends with its holder's transaction does not end while that is stopped.
            let of_transaction =
                rung.lock == LockKind::Database && scenario == Scenario::PausedHolder;
            unless(has_lease || of_transaction, "has no lease that the work could outlive")
        }
        Scenario::StalledRelease => {
            unless(rung.can(Capability::CheckOwner), "compares nothing before it deletes")
        }
        Scenario::LostWakeup => unless(rung.can(Capability::Wait), TURNS_AWAY)
            .or(unless(has_lease, "wakes its waiters by no message that could be lost")),
        Scenario::ResentRelease => unless(
            rung.lock == LockKind::Redis(1) && rung.can(Capability::Reenter),
            "has no second hold, or gives it back on each of its servers as r13d does on one",
        ),
        Scenario::Failover | Scenario::Amnesia => {
            unless(matches!(rung.lock, LockKind::Redis(_)), "has no lock in Redis")
        }
        Scenario::ClockJump => unless(
            has_lease && rung.lock != LockKind::ZooKeeper,
            "has no lease that the clock of a Redis could end",
        ),
        queued => queues::absent(queued, rung),
    }
}

/// Why none of its lock's servers can be down: "it …".
fn no_lock_server(rung: &Rung) -> Option<&'static str> {
    match rung.lock {
        LockKind::Redis(_) | LockKind::ZooKeeper | LockKind::Stream => None,
        // Its Redis is asked before the database.
        LockKind::NoLock if rung.asks_redis_first() => None,
        LockKind::NoLock | LockKind::Mutex => Some("has no lock server"),
        LockKind::Database => Some("has no lock server but the database that it sells from"),
    }
}
