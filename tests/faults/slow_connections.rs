//! Servers that take long to reach PostgreSQL: because each connection is slow to make, because there is none for a
//! while at the start, or because the password changes.

use std::path::Path;
use std::time::Duration;

use faults::{Fault, Proxy};
use nix::sys::signal::Signal;
use seckill::purchase::Strategy;
use url::Url;

use super::crowd::What;
use super::stage::Stage;
use testkit::processes::Node;
use testkit::wait::eventually;

async fn proxy_before(stage: &Stage) -> Proxy {
    let url = Url::parse(&stage.database_url).unwrap();
    let host = url.query_pairs().find(|(name, _)| name == "host").unwrap().1.into_owned();
    Proxy::before_socket(Path::new(&host).join(".s.PGSQL.5432")).await.unwrap()
}

async fn node_through(stage: &Stage, proxy: &Proxy) -> Node {
    let url = format!("postgres://postgres@{}/seckill?sslmode=disable", proxy.address());
    let listen = ([127, 0, 0, 1], 0).into();
    Node::start(&mut stage.serve(listen, &url, &stage.redis_url)).await
}

async fn status(stage: &Stage, node: &Node, path: &str) -> u16 {
    let url = format!("http://{}{path}", node.address);
    stage.client.get(url).send().await.unwrap().status().as_u16()
}

async fn sells(stage: &Stage, node: &Node, buyer: i64) {
    eventually("it sells", async || {
        matches!(stage.buy(node.address, buyer).await, What::Ordered(_) | What::AlreadyBought(_))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_connections_are_slow_to_make_starts_sells_and_recovers() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    // Longer than a purchase waits, and than any request does.
    for (buyer, seconds) in [(1, 1), (3, 3)] {
        let proxy = proxy_before(&stage).await;
        proxy.slow_down(Duration::from_secs(seconds));
        let mut node = node_through(&stage, &proxy).await;
        sells(&stage, &node, buyer).await;
        proxy.break_by(Fault::Down);
        eventually("it notices", async || {
            stage.buy(node.address, buyer + 1).await == What::Unavailable
        })
        .await;
        proxy.break_by(Fault::None);
        sells(&stage, &node, buyer + 1).await;
        node.send(Signal::SIGTERM);
        assert!(node.ended().await.success());
    }
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_connections_are_never_made_is_not_ready_until_they_are() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    let proxy = proxy_before(&stage).await;
    proxy.break_by(Fault::Hold);
    // It says where it listens when the limit for a connection is over.
    let node = node_through(&stage, &proxy).await;
    assert_eq!(status(&stage, &node, "/readyz").await, 503);
    proxy.break_by(Fault::None);
    sells(&stage, &node, 1).await;
    assert_eq!(status(&stage, &node, "/readyz").await, 200);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_waits_for_a_database_that_cannot_be_reached_at_its_start() {
    let stage = Stage::new(Strategy::GroupCommit).await;
    let proxy = proxy_before(&stage).await;
    proxy.break_by(Fault::Down);
    let node = node_through(&stage, &proxy).await;
    for (path, expected) in [("/healthz", 200), ("/readyz", 503), ("/api/vouchers", 503)] {
        assert_eq!(status(&stage, &node, path).await, expected, "{path}");
    }
    assert_eq!(stage.buy(node.address, 1).await, What::Unavailable);
    proxy.break_by(Fault::None);
    sells(&stage, &node, 1).await;
    assert_eq!(status(&stage, &node, "/readyz").await, 200);
    // One that is told to end while it waits ends at once, in good order.
    proxy.break_by(Fault::Down);
    let mut waiting = node_through(&stage, &proxy).await;
    waiting.send(Signal::SIGTERM);
    assert!(waiting.ended().await.success());
    stage.end().await;
}
