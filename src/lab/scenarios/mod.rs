//! The schedules of the scenarios, and where they make no sense.
//!
//! A schedule lets each actor run to its next pause point and no further, so it reproduces
//! every time. It says what is done, and leaves it to the judge what came of it. It must play
//! on every rung: one rung lets a second actor through, another has it wait, a third turns it
//! away.

mod clicks;
mod leases;
mod owners;
mod production;
mod servers;
mod stock;

use super::stage::Stage;
use crate::ladder::{Lock, Rung, Scenario};

/// Why nobody is asked to bear the loss of a server.
const ONE_SERVER: &str = "has one lock server, and does not promise that it may be missing";

/// The rung that is the production strategy.
const PRODUCTION: u32 = 19;

/// Plays `scenario`.
///
/// # Errors
/// When it could not be played to its end: the cell is unknown.
pub async fn play(scenario: Scenario, stage: &mut Stage<'_>) -> anyhow::Result<()> {
    if stage.rung.number() == PRODUCTION {
        return production::play(scenario, stage).await;
    }
    match scenario {
        Scenario::LastOne => stock::last_one(stage).await,
        Scenario::Herd => stock::herd(stage).await,
        Scenario::DoubleClick => clicks::double_click(stage).await,
        Scenario::TwoNodes => clicks::two_nodes(stage).await,
        Scenario::EarlyRelease => clicks::early_release(stage).await,
        Scenario::HolderDies => leases::holder_dies(stage).await,
        Scenario::DiesBetween => leases::dies_between(stage).await,
        Scenario::SlowHolder => leases::slow_holder(stage).await,
        Scenario::OutlivedLease => leases::outlived_lease(stage).await,
        Scenario::StalledRelease => leases::stalled_release(stage).await,
        Scenario::Nested => owners::nested(stage).await,
        Scenario::LostWakeup => owners::lost_wakeup(stage).await,
        Scenario::PausedHolder => leases::paused_holder(stage).await,
        Scenario::ResentRelease => servers::resent_release(stage).await,
        Scenario::NodeDown => servers::node_down(stage).await,
        Scenario::Failover => servers::failover(stage).await,
        Scenario::Amnesia => servers::amnesia(stage).await,
        Scenario::ClockJump => servers::clock_jump(stage).await,
    }
}

/// Why `scenario` makes no sense on `rung`: "it …"; `None` where it does.
pub fn absent(scenario: Scenario, rung: &Rung) -> Option<&'static str> {
    let number = rung.number();
    let unless = |applies: bool, reason: &'static str| (!applies).then_some(reason);
    let has_lease =
        matches!(rung.lock, Lock::Redis(_) | Lock::ZooKeeper) && rung.id != "r08a_setnx";
    if number == PRODUCTION {
        return production::absent(scenario);
    }
    if rung.lock == Lock::None {
        let of_stock =
            [Scenario::LastOne, Scenario::Herd, Scenario::DoubleClick, Scenario::TwoNodes];
        return unless(of_stock.contains(&scenario), "takes no lock");
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
            (8..=12).contains(&number) && has_lease,
            "takes its lock and the lease in one step, or has no lease",
        ),
        Scenario::SlowHolder | Scenario::OutlivedLease | Scenario::PausedHolder => {
            unless(has_lease, "has no lease that the work could outlive")
        }
        Scenario::StalledRelease => unless(
            matches!(rung.lock, Lock::Redis(_)) && number >= 10,
            "compares nothing before it deletes",
        ),
        Scenario::LostWakeup => {
            unless(has_lease && number >= 13, "turns a second request away, nobody waits")
        }
        Scenario::ResentRelease => unless(
            matches!(rung.lock, Lock::Redis(1)) && number >= 12,
            "has no second hold, or gives it back on each of its servers as r13 does on one",
        ),
        Scenario::NodeDown => unless(matches!(rung.lock, Lock::Redis(2..)), ONE_SERVER),
        Scenario::Failover | Scenario::Amnesia => {
            unless(matches!(rung.lock, Lock::Redis(_)), "has no lock in Redis")
        }
        Scenario::ClockJump => unless(
            has_lease && rung.lock != Lock::ZooKeeper,
            "has no lease that the clock of a Redis could end",
        ),
    }
}
