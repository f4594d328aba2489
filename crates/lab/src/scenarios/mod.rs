//! The schedules of the scenarios, and where they make no sense.
//!
//! A schedule lets each actor run to its next pause point and no further, so it reproduces
//! every time. It says what is done, and leaves it to the judge what came of it. It must play
//! on every rung: one rung lets a second actor through, another has it wait, a third turns it
//! away.

mod caches;
mod clicks;
mod failing_consumers;
mod leases;
mod owners;
mod payments;
mod production;
mod queues;
mod redis_losses;
mod retries;
mod servers;
mod stock;

use super::scheduler::Scheduler;
use ladder::{Capability, LeaseKind, LockKind, Rung, Scenario};

/// Why nobody waits for a release.
const TURNS_AWAY: &str = "turns a second request away, nobody waits";

/// Plays `scenario`. Where it cannot be played to its end, the cell is unknown.
pub(crate) async fn play(scenario: Scenario, scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    if scenario == Scenario::NodeDown {
        // The server stays away: nobody can write later what was sold, or be asked.
        return servers::node_down(scheduler).await;
    }
    if scheduler.rung.can(Capability::OneStep) && !queues::is_one(scenario) {
        production::play(scenario, scheduler).await?;
        return scheduler.settle().await;
    }
    match scenario {
        Scenario::LastOne => stock::last_one(scheduler).await,
        Scenario::Herd => stock::herd(scheduler).await,
        Scenario::OtherSegment => stock::other_segment(scheduler).await,
        Scenario::DoubleClick => clicks::double_click(scheduler).await,
        Scenario::TwoNodes => clicks::two_nodes(scheduler).await,
        Scenario::EarlyRelease => clicks::early_release(scheduler).await,
        Scenario::HolderDies => leases::holder_dies(scheduler).await,
        Scenario::DiesBetween => leases::dies_between(scheduler).await,
        Scenario::SlowHolder => leases::slow_holder(scheduler).await,
        Scenario::OutlivedLease => leases::outlived_lease(scheduler).await,
        Scenario::StalledRelease => leases::stalled_release(scheduler).await,
        Scenario::Nested => owners::nested(scheduler).await,
        Scenario::LostWakeup => owners::lost_wakeup(scheduler).await,
        Scenario::PausedHolder => leases::paused_holder(scheduler).await,
        Scenario::ResentRelease => servers::resent_release(scheduler).await,
        Scenario::Failover => servers::failover(scheduler).await,
        Scenario::Amnesia => servers::amnesia(scheduler).await,
        Scenario::ClockJump => servers::clock_jump(scheduler).await,
        Scenario::AnswerLost => retries::answer_lost(scheduler).await,
        cached if caches::is_one(cached) => caches::play(cached, scheduler).await,
        of_payments if payments::is_one(of_payments) => {
            payments::play(of_payments, scheduler).await
        }
        queued => queues::play(queued, scheduler).await,
    }?;
    scheduler.settle().await
}

/// Why `scenario` makes no sense on `rung`: "it …"; `None` where it does.
pub fn absent(scenario: Scenario, rung: &Rung) -> Option<&'static str> {
    let unless = |applies: bool, reason: &'static str| (!applies).then_some(reason);
    let has_lease = rung.lease != LeaseKind::NoLease;
    let of_stock = [Scenario::LastOne, Scenario::Herd, Scenario::DoubleClick, Scenario::TwoNodes];
    if payments::is_one(scenario) {
        return payments::absent(rung);
    }
    if queues::is_one(scenario) {
        return queues::absent(scenario, rung);
    }
    if scenario == Scenario::NodeDown {
        return no_lock_server(rung);
    }
    if caches::is_one(scenario) {
        return caches::absent(scenario, rung);
    }
    if scenario == Scenario::AnswerLost {
        return unless(rung.can(Capability::Retried), "has clients that send nothing again");
    }
    if scenario == Scenario::OtherSegment {
        return unless(rung.can(Capability::Segments), "keeps its stock in one row");
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
        LockKind::NoLock if rung.can(Capability::Cache) => None,
        LockKind::NoLock | LockKind::Mutex => Some("has no lock server"),
        LockKind::Database => Some("has no lock server but the database that it sells from"),
    }
}
