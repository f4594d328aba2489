//! The standby of the lab, while somebody reads there what its primary has removed.

use faults::PostgresNode;
use sqlx::{Connection, Executor, PgConnection};
use testkit::wait::eventually;

async fn count(reader: &mut PgConnection) -> i64 {
    sqlx::query_scalar("select count(*) from things").fetch_one(reader).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_waits_for_a_reader_also_while_it_is_promoted() {
    let mut primary = PostgresNode::primary_at(None).await.unwrap();
    let mut writer = PgConnection::connect(primary.url()).await.unwrap();
    // A standby has its primary's settings. With these it breaks off at once what is in its way.
    for settings in ["max_standby_streaming_delay = 0", "max_standby_archive_delay = 0"] {
        writer.execute(sqlx::AssertSqlSafe(format!("alter system set {settings}"))).await.unwrap();
    }
    let table = "create table things as select generate_series(1, 1000) as id";
    writer.execute(table).await.unwrap();
    let link = primary.proxy().await.unwrap();
    let standby = PostgresNode::standby_at(None, &link).await.unwrap();
    let mut observer = PgConnection::connect(standby.url()).await.unwrap();
    let mut reader = PgConnection::connect(standby.url()).await.unwrap();
    reader.execute("begin isolation level repeatable read").await.unwrap();
    assert_eq!(count(&mut reader).await, 1000);

    // Its rows are removed twice, the second time behind what the replay waits at.
    for half in ["id <= 500", "id <= 900"] {
        let delete = format!("delete from things where {half}");
        writer.execute(sqlx::AssertSqlSafe(delete)).await.unwrap();
        writer.execute("vacuum things").await.unwrap();
    }
    let arrived = "select coalesce(bool_or(flush_lsn >= pg_current_wal_flush_lsn()), false)
        from pg_stat_replication";
    eventually("the standby has it all", async || {
        sqlx::query_scalar(arrived).fetch_one(&mut writer).await.unwrap()
    })
    .await;
    let waits = "select exists (select from pg_stat_activity
        where backend_type = 'startup' and wait_event = 'RecoveryConflictSnapshot')";
    eventually("the replay waits for the reader", async || {
        assert_eq!(count(&mut reader).await, 1000);
        sqlx::query_scalar(waits).fetch_one(&mut observer).await.unwrap()
    })
    .await;

    primary.kill();
    let reads_on = async {
        assert_eq!(count(&mut reader).await, 1000);
        reader.execute("commit").await.unwrap();
    };
    let (promoted, ()) = tokio::join!(standby.promote(), reads_on);
    promoted.unwrap();
    let replays =
        sqlx::query_scalar::<_, bool>("select pg_is_in_recovery()").fetch_one(&mut observer);
    assert!(!replays.await.unwrap());
    assert_eq!(count(&mut reader).await, 100);
}
