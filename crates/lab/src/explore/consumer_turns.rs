//! What becomes of all that is left for the consumers at the end of a schedule.

use super::run::ScheduleRunner;
use super::verdict::BrokenBySchedule;
use ladder::Invariant;

impl ScheduleRunner<'_> {
    /// After the last step: the consumers that live do what is left, and buyers ask again.
    pub(super) async fn promises_not_kept(&mut self) -> anyhow::Result<Vec<BrokenBySchedule>> {
        self.driver.scheduler.settle().await?;
        let broken = self.driver.scheduler.breaches().iter().map(|witness| BrokenBySchedule {
            invariant: Invariant::NoBrokenPromise,
            witness: witness.clone(),
        });
        Ok(broken.collect())
    }
}
