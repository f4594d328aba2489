//! What happens to the rungs: the schedules, and where they make no sense.
//!
//! A schedule lets each actor run to its next pause point and no further, so it reproduces
//! every time. It says what is done, and leaves it to the judge what came of it. It must play
//! on every rung: where one rung lets a second actor through, another has him wait, a third
//! turns him away.

mod clicks;
mod stock;

use anyhow::bail;

use super::stage::Stage;
use crate::ladder::{Lock, Rung, Scenario};

/// Plays `scenario`.
///
/// # Errors
/// When it could not be played to its end: the cell is unknown.
pub async fn play(scenario: Scenario, stage: &mut Stage<'_>) -> anyhow::Result<()> {
    match scenario {
        Scenario::LastOne => stock::last_one(stage).await,
        Scenario::Herd => stock::herd(stage).await,
        Scenario::DoubleClick => clicks::double_click(stage).await,
        Scenario::TwoNodes => clicks::two_nodes(stage).await,
        Scenario::EarlyRelease => clicks::early_release(stage).await,
        _ => bail!("not there yet"),
    }
}

/// Why `scenario` makes no sense on `rung`; `None` where it does.
pub fn absent(scenario: Scenario, rung: &Rung) -> Option<&'static str> {
    match scenario {
        Scenario::LastOne | Scenario::Herd | Scenario::DoubleClick | Scenario::TwoNodes => None,
        Scenario::EarlyRelease => (rung.lock == Lock::None).then_some("takes no lock"),
        _ => Some("not there yet"),
    }
}
