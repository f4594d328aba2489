//! Servers that take long to reach PostgreSQL: because each connection is slow to make, because there is none for a
//! while at the start, or because the password changes.

use std::time::Duration;

use faults::{Fault, Proxy};
use nix::sys::signal::Signal;
use seckill::purchase::Strategy;

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
