//! PostgreSQL or Redis goes away in the middle of a sale, and comes back.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use private_stores::Server;

use super::crowd::{Crowd, What};
use super::sale::USERS;
use super::stage::{SOLD_BY, Stage};
use testkit::processes::Node;
use testkit::servers;
use testkit::wait::eventually;

/// Long enough for every pause and memory of the node to run out.
const OUTAGE: Duration = Duration::from_millis(2500);

/// What needs the database says 503, and nothing hangs.
async fn the_rest_of_the_api_says_so(stage: &Stage, node: &Node) {
    let voucher = format!("/api/vouchers/{}", stage.voucher);
    for path in ["/api/vouchers", "/api/orders", "/api/orders/1", "/api/me", &voucher] {
        // What is remembered of the voucher may be answered for a second.
        eventually("the API says that it is unavailable", async || {
            let (status, what) = stage.get(node.address, path).await;
            assert!(what == What::Unavailable || status == 200, "{path}: {status} {what:?}");
            status == 503
        })
        .await;
    }
}

/// What does not need Redis goes on; what does says 503; nothing hangs.
async fn the_rest_of_the_api_tells_the_truth(stage: &Stage, node: &Node) {
    let voucher = format!("/api/vouchers/{}", stage.voucher);
    for path in ["/api/vouchers", &voucher, "/api/orders"] {
        assert_eq!(stage.get(node.address, path).await.0, 200, "{path}");
    }
    let phone = serde_json::json!({"phone": "13800000000"});
    let url = format!("http://{}/api/login-codes", node.address);
    let code = stage.client.post(url).json(&phone).send().await;
    assert_eq!(super::crowd::read(code).await, What::Unavailable);
}

/// Until the signal is taken back, or the server started again, buyers are told 503 and nothing hangs; then the sale
/// goes on, and no order is lost.
async fn goes_away(server: Server, signal: Signal) {
    for strategy in SOLD_BY {
        // A killed database keeps what it has said.
        let durable = (server, signal) == (Server::Postgres, Signal::SIGKILL);
        let mut stage = Stage::on(servers::own_of(true, durable).await, strategy, USERS).await;
        let nodes = [stage.node().await, stage.node().await];
        let crowd = Crowd::buying(&stage, &nodes).await;

        let fault = Instant::now();
        stage.signal(server, signal);
        crowd.refusals_after(fault).await;
        // No other node could do better.
        for path in ["/healthz", "/readyz"] {
            assert_eq!(stage.get(nodes[0].address, path).await.0, 200, "{path}");
        }
        match server {
            Server::Postgres => the_rest_of_the_api_says_so(&stage, &nodes[0]).await,
            Server::Redis => the_rest_of_the_api_tells_the_truth(&stage, &nodes[0]).await,
        }
        crowd.refusals_after(fault + OUTAGE).await;
        match signal {
            Signal::SIGKILL => stage.restart(server),
            _ => stage.signal(server, Signal::SIGCONT),
        }
        crowd.orders_after(Instant::now(), 200).await;

        crowd.settle(&stage, &[]).await;
        // Locks that were granted to nobody while Redis woke up were given back, or ran out.
        eventually("no lock is left", async || stage.locked().is_empty()).await;
        stage.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_database_costs_buyers_a_503_and_no_order() {
    goes_away(Server::Postgres, Signal::SIGKILL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_database_costs_buyers_a_503_and_no_order() {
    goes_away(Server::Postgres, Signal::SIGSTOP).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_redis_costs_buyers_a_503_and_no_order() {
    goes_away(Server::Redis, Signal::SIGKILL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_redis_costs_buyers_a_503_and_no_order() {
    goes_away(Server::Redis, Signal::SIGSTOP).await;
}
