//! The PostgreSQL handle: commits that wait for the disk, and connections that are of no use.

use std::time::Duration;

use faults::{Fault, Proxy};
use futures_util::FutureExt;
use futures_util::future::try_join_all;
use private_stores::Servers;
use seckill::model::{Clock, OrderId, SystemClock};
use seckill::purchase::{PurchasesOptions, Strategy};
use seckill::store::statements::Work;
use seckill::store::{Database, DatabaseSession, StoreError, entries};
use sqlx::{Connection, Executor, PgConnection};
use tokio::sync::Barrier;

use testkit::servers::ended;
use testkit::shop::world::{World, user};
use testkit::wait::{eventually, must};

/// A world whose PostgreSQL writes its log to disk when somebody waits for that, and hardly
/// otherwise; by default nobody waits. It has ten users.
async fn lazy_world() -> (Servers, World) {
    let servers = testkit::servers::own_of(false, true).await;
    let database_url = servers.database_url().unwrap().to_owned();
    let mut connection = PgConnection::connect(&database_url).await.unwrap();
    connection.execute("alter system set wal_writer_delay = '10s'").await.unwrap();
    connection.execute("alter system set synchronous_commit = off").await.unwrap();
    connection.execute("select pg_reload_conf()").await.unwrap();
    connection.close().await.unwrap();
    let database = Database::new(&database_url).unwrap();
    database.migrate().await.unwrap();
    let world = World { database_url, database, ..World::new().await };
    world.clock.set(SystemClock.now());
    world.users(10).await;
    (servers, world)
}

/// How long the log is, and how much of it is on disk, in bytes.
async fn log(connection: &mut PgConnection) -> (i64, i64) {
    let log = sqlx::query_as(
        "select (pg_current_wal_insert_lsn() - '0/0')::bigint,
                (pg_current_wal_flush_lsn() - '0/0')::bigint",
    );
    log.fetch_one(connection).await.unwrap()
}

/// Every strategy commits synchronously.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_on_disk_when_its_buyer_is_told() {
    let (servers, world) = lazy_world().await;
    for &strategy in Strategy::ALL {
        let voucher = world.voucher(10).await.id;
        let options = PurchasesOptions { strategy, ..world.options() };
        let shop = world.purchases(options).await;
        let mut connection = PgConnection::connect(&world.database_url).await.unwrap();
        for number in 1..=10 {
            let (before, _) = log(&mut connection).await;
            assert_eq!(shop.buy(user(number), voucher).await.unwrap().code(), "ordered");
            let (_, on_disk) = log(&mut connection).await;
            assert!(on_disk > before, "{on_disk} is before the commit, which is after {before}");
        }
        connection.close().await.unwrap();
        shop.shutdown().await;
    }
    world.database.close().await;
    ended(servers).await;
}

#[tokio::test]
async fn a_connection_on_which_work_was_broken_off_is_closed_and_the_next_one_works() {
    let world = World::new().await;
    let mut first = 0;
    let broken_off = world.database.run(async |session| {
        first = pid(session).await?;
        sqlx::query("select pg_sleep(600)").execute(session).await?;
        Ok(())
    });
    tokio::select! {
        done = broken_off => panic!("{done:?}"),
        () = world.until_one_sleeps() => {}
    }
    assert!(first > 0);
    for _ in 0..20 {
        let next = world.database.run(async |session| Ok(pid(session).await?)).await.unwrap();
        assert!(next > 0 && next != first);
    }
    let failed = world.database.run(async |connection| {
        sqlx::query("select nothing").execute(connection).await?;
        Ok(())
    });
    assert!(matches!(failed.await, Err(StoreError::Defect { .. })));
    world.database.close().await;
}

/// To make a session anew costs a busy server more than what was asked of it, and on Citus much more.
#[tokio::test]
async fn a_session_serves_on_after_the_refusal_of_one_request_and_is_closed_after_any_other_failure()
 {
    let world = World::new().await;
    let pool = world.database.purchases();
    for (code, message, serves_on) in [
        ("55P03", "another session holds the row", true),
        ("57014", "the statement took too long", true),
        ("40001", "another session was faster", true),
        ("40P01", "two sessions wait for each other", true),
        ("XX000", "failure on connection marked as essential: a:1", true),
        ("XX000", "postmaster was shut down, exiting", false),
        ("XX000", "cache lookup failed for function 1", false),
        ("25006", "the session takes no writes", false),
        ("22003", "a defect", false),
    ] {
        let words =
            format!("do $$ begin raise exception '{message}' using errcode = '{code}'; end $$");
        for is_transaction in [false, true] {
            let mut asked = 0;
            let mut ask = async |session: &mut DatabaseSession| {
                asked = pid(session).await?;
                sqlx::raw_sql(sqlx::AssertSqlSafe(words.as_str())).execute(session).await?;
                Ok(())
            };
            let answer = if is_transaction {
                Work::transaction(Duration::from_secs(10), pool).run(ask).await
            } else {
                world.database.run(async |session| Ok(ask(session).await?)).await
            };
            let error = answer.unwrap_err();
            // After what Citus says of a server that died nobody knows.
            let is_unknown = code == "XX000" && !message.starts_with("cache");
            assert_eq!(error.outcome_unknown(), is_unknown, "{message}");
            assert_eq!(error.is_about_one_worker(), is_unknown && serves_on, "{message}");
            // The pool gives its sessions out in turn.
            eventually(message, async || {
                if serves_on {
                    let serves = world.database.run(async |session| Ok(pid(session).await?));
                    serves.await.unwrap() == asked
                } else {
                    let lives = "select exists (select from pg_stat_activity where pid = $1)";
                    let lives = sqlx::query_scalar::<_, bool>(lives).bind(asked);
                    !lives.fetch_one(world.database.pool()).await.unwrap()
                }
            })
            .await;
        }
    }
    world.database.close().await;
}

async fn pid(session: &mut DatabaseSession) -> sqlx::Result<i32> {
    sqlx::query_scalar("select pg_backend_pid()").fetch_one(session).await
}

#[tokio::test]
async fn a_connection_that_does_not_come_back_keeps_nobody_from_closing() {
    let world = World::new().await;
    // As one of the pool's own attempts to reach a server that is gone, which go on for minutes.
    let held = world.database.purchases().acquire().await.unwrap();
    must("the handle is closed", world.database.close()).await;
    drop(held);
}

/// A firewall forgets a connection between the last answer and the pool's question whether it lives, and tells neither side.
/// Found by chaos: all readers' places were lost for good, and with them the workers.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_fall_silent_while_they_are_given_back_leave_their_places() {
    let world = World::new().await;
    let proxy = Proxy::before_postgres(&world.database_url).await.unwrap();
    let database = Database::new(proxy.url()).unwrap();
    let count = database.purchases().options().get_max_connections();
    let all_have_one = Barrier::new(count as usize);
    let uses = (0..count).map(|_| {
        database.run(async |session: &mut DatabaseSession| {
            session.ping().await?;
            all_have_one.wait().await;
            proxy.break_by(Fault::Deaf);
            Ok(())
        })
    });
    must("each has a connection", try_join_all(uses)).await.unwrap();
    proxy.break_by(Fault::None);
    assert!(must("the places are free", database.has_all_connections()).await);
}

/// The worker that draws and offers goes on within seconds, whatever became of its connection. Found by chaos: it waited for ten
/// minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_draw_and_offers_end_soon_after_their_connection_falls_silent() {
    let world = World::new().await;
    let voucher = world.voucher_with_line(1).await.id;
    let proxy = Proxy::before_postgres(&world.database_url).await.unwrap();
    let database = Database::new(proxy.url()).unwrap();
    let ids: Vec<OrderId> = (1..=256).map(|id| OrderId::new(id).unwrap()).collect();
    let draw = async || entries::draw_entries(database.pool(), voucher, 100).await.map(drop);
    let offer = async || entries::offer(database.pool(), voucher, &ids, false).await.map(drop);
    for (what, ended) in [
        ("the draw", async { draw().await }.boxed()),
        ("the offers", async { offer().await }.boxed()),
    ] {
        must(
            "there is a connection",
            entries::find_due(database.pool(), world.clock.now(), &[], 1),
        )
        .await
        .unwrap();
        proxy.break_by(Fault::Deaf);
        assert!(must(what, ended).await.is_err());
        proxy.break_by(Fault::None);
    }
    draw().await.unwrap();
}
