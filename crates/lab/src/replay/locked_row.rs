//! The row of a voucher, locked by the lab: a stop for purchases that have no pause points, because they go into batches
//! (the production strategy, which is not shaped for the lab, and r23b).

use anyhow::bail;
use sqlx::{Postgres, Transaction};

use crate::Scheduler;
use crate::scheduler::{Act, Actor};
use crate::told::Event;

/// The lock.
pub(super) struct LockedRow(Transaction<'static, Postgres>);

impl LockedRow {
    pub(super) async fn hold(scheduler: &mut Scheduler<'_>, voucher: i64) -> anyhow::Result<Self> {
        // In production an order does not wait for as long as the lab may hold the row.
        let longer = "alter function sell set lock_timeout = '30s';
                      alter function sell_many set lock_timeout = '30s'";
        sqlx::raw_sql(longer).execute(&scheduler.database).await?;
        let mut transaction = scheduler.database.begin().await?;
        sqlx::query("select from seckill_vouchers where voucher_id = $1 for update")
            .bind(voucher)
            .execute(&mut *transaction)
            .await?;
        scheduler.log.say(Event::LabLocksRow);
        Ok(Self(transaction))
    }

    pub(super) async fn let_go(self, scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
        self.0.rollback().await?;
        scheduler.log.say(Event::LabFreesRow);
        Ok(())
    }
}

/// The actor has the lock of its user, and its statement waits for the row.
pub(super) async fn stop_at_row(scheduler: &mut Scheduler<'_>, actor: Actor) -> anyhow::Result<()> {
    if !matches!(scheduler.finish(actor).await?, Act::Waits(_)) {
        bail!("{} did not stop at the row", scheduler.actors[actor.0].name);
    }
    scheduler.until_blocked().await?;
    // A buyer who waits for too long is told that the outcome is unknown; the books are not.
    scheduler.may_fail(actor);
    Ok(())
}
