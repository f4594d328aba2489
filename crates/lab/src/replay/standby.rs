//! The database has a standby, and its primary dies.

use sqlx::{AssertSqlSafe, PgPool};

use crate::Scheduler;
use crate::looks::until;
use crate::scheduler::Attempt;
use crate::told::Event;
use faults::{Fault, PostgresNode};
use ladder::{Capability, Point};

/// The primary dies before its standby has B's order, and the standby is promoted. A synchronous standby has to have an
/// order before its buyer is answered.
pub(super) async fn database_failover(
    scheduler: &mut Scheduler<'_>,
    is_synchronous: bool,
) -> anyhow::Result<()> {
    let home = scheduler.world.home();
    let mut primary = PostgresNode::primary_at(home).await?;
    let link = primary.proxy().await?;
    let standby = PostgresNode::standby_at(home, &link).await?;
    scheduler.make_database(primary.url()).await?;
    if is_synchronous {
        let name = PostgresNode::STANDBY;
        let set = format!("alter system set synchronous_standby_names = '{name}'");
        run(&scheduler.database, set).await?;
        run(&scheduler.database, "select pg_reload_conf()".to_owned()).await?;
        until_true(scheduler, "select bool_or(sync_state = 'sync') from pg_stat_replication")
            .await?;
    }
    scheduler.log.say(match is_synchronous {
        true => Event::HasSynchronousStandby,
        false => Event::HasAsynchronousStandby,
    });
    let voucher = scheduler.voucher(2).await?;
    let first = scheduler.node().await?;
    scheduler.buys("A", first, 0).await?;
    let arrived =
        "select bool_or(flush_lsn >= pg_current_wal_flush_lsn()) from pg_stat_replication";
    until_true(scheduler, arrived).await?;
    link.break_by(Fault::Down);
    until_true(scheduler, "select not exists (select from pg_stat_replication)").await?;
    scheduler.log.say(Event::StandbyCutOff);
    let b = scheduler.enter("B", first, Attempt::new(1, voucher)).await?;
    if is_synchronous {
        if !scheduler.rung.can(Capability::OneStep) {
            scheduler.must_reach(b, &[Point::Committing]).await?;
        }
        scheduler.set_out(b).await?;
        let waits = "select exists (select from pg_stat_activity where wait_event = 'SyncRep')";
        until_true(scheduler, waits).await?;
        scheduler.log.say(Event::WaitsForStandby { actor: "B" });
    } else {
        scheduler.finish_all(&[b]).await?;
    }
    primary.kill();
    scheduler.log.say(Event::PrimaryKilled);
    scheduler.kill(first).await?;
    standby.promote().await?;
    scheduler.use_database(standby.url()).await?;
    scheduler.log.say(Event::StandbyPromoted);
    // It lives until the judge has looked.
    scheduler.standby = Some(standby);
    let second = scheduler.node().await?;
    scheduler.log.say(Event::Started { process: second.number() });
    scheduler.buys("C", second, 2).await?;
    Ok(())
}

async fn run(database: &PgPool, statement: String) -> anyhow::Result<()> {
    sqlx::query(AssertSqlSafe(statement)).execute(database).await?;
    Ok(())
}

async fn until_true(scheduler: &Scheduler<'_>, question: &'static str) -> anyhow::Result<()> {
    let is_so = || async {
        let answer: Option<bool> =
            sqlx::query_scalar(question).fetch_one(&scheduler.database).await?;
        Ok(answer == Some(true))
    };
    until(question, is_so).await
}
