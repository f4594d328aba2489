//! Servers that take long to reach PostgreSQL: because each connection is slow to make, because there is none for a
//! while at the start, or because a connection pooler has none to give.

use std::time::Duration;

use faults::{Fault, Proxy};
use nix::sys::signal::Signal;
use seckill::purchase::Strategy;
use seckill::store::StoreError;

use super::crowd::What;
use super::stage::Stage;
use testkit::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_connections_are_slow_to_make_starts_sells_and_recovers() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    // Longer than a purchase waits, and than any request does.
    for (buyer, seconds) in [(1, 1), (3, 3)] {
        let proxy = Proxy::before_postgres(&stage.database_url).await.unwrap();
        proxy.slow_down(Duration::from_secs(seconds));
        let mut node = stage.node_by(proxy.url()).await;
        stage.served(&node, buyer).await;
        proxy.break_by(Fault::Down);
        eventually("it notices", async || {
            stage.buy(node.address, buyer + 1).await == What::Unavailable
        })
        .await;
        proxy.break_by(Fault::None);
        stage.served(&node, buyer + 1).await;
        node.send(Signal::SIGTERM);
        assert!(node.ended().await.success());
    }
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_waits_for_a_database_that_cannot_be_reached_at_its_start() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    let proxy = Proxy::before_postgres(&stage.database_url).await.unwrap();
    // Where connections are never made, it says where it listens when the limit for one is over.
    for (buyer, fault) in [(1, Fault::Hold), (2, Fault::Down)] {
        proxy.break_by(fault);
        let node = stage.node_by(proxy.url()).await;
        assert_eq!(stage.get(node.address, "/readyz").await.0, 503);
        if fault == Fault::Down {
            assert_eq!(stage.get(node.address, "/healthz").await.0, 200);
            assert_eq!(stage.get(node.address, "/api/vouchers").await.0, 503);
            assert_eq!(stage.buy(node.address, buyer).await, What::Unavailable);
        }
        proxy.break_by(Fault::None);
        stage.served(&node, buyer).await;
        assert_eq!(stage.get(node.address, "/readyz").await.0, 200);
    }
    // One that is told to end while it waits ends at once, in good order.
    proxy.break_by(Fault::Down);
    let mut waiting = stage.node_by(proxy.url()).await;
    waiting.send(Signal::SIGTERM);
    assert!(waiting.ended().await.success());
    stage.end().await;
}

/// An `ErrorResponse` with the fields that poolers send: none of them says where in the code of a server it was written.
fn of_pooler(severity: &str, code: &str, message: &str) -> Vec<u8> {
    let fields = format!("S{severity}\0V{severity}\0C{code}\0M{message}\0\0");
    let length = i32::try_from(fields.len() + 4).unwrap();
    [b"E", &length.to_be_bytes()[..], fields.as_bytes()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_has_no_server_is_waited_for_and_costs_a_503() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    for (first, severity, code, message) in [
        // PgCat, Supavisor, and one that does not end the session by its words.
        (1, "FATAL", "58000", "could not get connection from the pool"),
        (11, "FATAL", "XX000", "Max client connections reached"),
        (21, "ERROR", "XX000", "Unable to check out process from the pool due to timeout"),
    ] {
        let proxy = Proxy::before_postgres(&stage.database_url).await.unwrap();
        let words = of_pooler(severity, code, message);
        proxy.answer_itself(words.clone());
        let node = stage.node_by(proxy.url()).await;
        assert_eq!(stage.get(node.address, "/readyz").await.0, 503);
        proxy.break_by(Fault::None);
        stage.served(&node, first).await;

        proxy.answer_itself(words);
        // More than there are connections.
        for buyer in first + 1..first + 10 {
            assert_eq!(stage.buy(node.address, buyer).await, What::Unavailable, "{code}");
            for path in ["/api/orders", "/api/orders/1"] {
                assert_eq!(
                    stage.get(node.address, path).await.1,
                    What::Unavailable,
                    "{code} {path}"
                );
            }
        }
        proxy.break_by(Fault::None);
        stage.served(&node, first + 1).await;
    }
    stage.end().await;
}

/// A disk that fails, or a defect: no waiting mends it.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_codes_of_a_server_are_defects() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    for code in ["58000", "58030", "XX000"] {
        let raise = format!("do $$ begin raise exception 'x' using errcode = '{code}'; end $$");
        let answer = sqlx::raw_sql(sqlx::AssertSqlSafe(raise)).execute(&stage.pool).await;
        let error = StoreError::from(answer.unwrap_err());
        assert!(!error.retry_may_help(), "{code}: {error}");
    }
    stage.end().await;
}
