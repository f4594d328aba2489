//! What came of one schedule: which promises it broke.

use serde::Serialize;

use crate::judge::{Books, broken_promises};
use crate::scheduler::Scheduler;
use crate::told::Witness;
use ladder::Invariant;

/// A promise that a schedule broke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenBySchedule {
    /// The promise.
    pub invariant: Invariant,
    /// What shows it.
    pub witness: Witness,
}

/// Judges what the database holds against what every buyer was told.
pub(super) async fn judge_schedule(
    scheduler: &Scheduler<'_>,
    voucher: i64,
) -> anyhow::Result<Vec<BrokenBySchedule>> {
    let books = Books::of(scheduler, voucher).await?;
    let broken = broken_promises(scheduler, &books).into_iter();
    Ok(broken.map(|(invariant, witness)| BrokenBySchedule { invariant, witness }).collect())
}
