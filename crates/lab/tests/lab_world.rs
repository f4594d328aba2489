//! The lab's scratch databases on a server that takes its time, and a world that is closed.

use std::time::Duration;

use faults::{Fault, Proxy};
use ladder::LockKind;
use seckill_lab::{World, cells, replay};
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;

use crate::kept::{has_lock_of, new_lab};

/// The first connection to a new database takes longer than a buyer's may: the lab asks again.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_database_that_keeps_its_first_connection_waiting_is_asked_again() {
    let (postgres, redis) = testkit::servers::urls().await;
    let network = Proxy::before_postgres(&postgres).await.unwrap();
    let slow = format!("{}&application_name=slow", network.url());

    // No database can be made meanwhile: so the connections that are held are those to the new one.
    let mut others = PgConnection::connect(&postgres).await.unwrap();
    let mut locking = others.begin().await.unwrap();
    sqlx::raw_sql("lock table pg_database in share mode").execute(&mut *locking).await.unwrap();
    let opening = tokio::spawn(World::open(Some(slow), Some(redis)));
    let makes = "select exists (select from pg_stat_activity
        where application_name = 'slow' and wait_event_type = 'Lock')";
    let mut seen = PgConnection::connect(&postgres).await.unwrap();
    while !sqlx::query_scalar::<_, bool>(makes).fetch_one(&mut seen).await.unwrap() {
        tokio::task::yield_now().await;
    }
    network.break_by(Fault::Hold);
    locking.commit().await.unwrap();
    // The second one comes when the first was given up.
    for _ in 0..2 {
        timeout(Duration::from_secs(60), network.until_held()).await.unwrap();
    }
    network.break_by(Fault::None);
    opening.await.unwrap().unwrap().close().await.unwrap();
}

/// The other tests drop theirs: see `kept`.
#[tokio::test(flavor = "multi_thread")]
async fn a_lab_with_a_zookeeper_is_closed() {
    let (rung, scenario) = cells().find(|(rung, _)| rung.lock == LockKind::ZooKeeper).unwrap();
    if !has_lock_of(rung) {
        return;
    }
    let lab = new_lab().await;
    let cell = replay(&lab, rung, scenario).await;
    assert!(!cell.is_wrong(), "{cell:?}");
    assert!(lab.zookeeper_version().await.is_some());
    lab.close().await.unwrap();
}
