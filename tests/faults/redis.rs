//! Redis goes away in the middle of a sale, and comes back.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use private_stores::Server;

use super::crowd::{Crowd, What, figures, in_progress, only};
use super::stage::{SOLD_BY, Stage};
use testkit::processes::Node;

/// Long enough for every pause and memory of the node to run out.
const OUTAGE: Duration = Duration::from_millis(2500);

/// What does not need Redis goes on; what does says 503; nothing hangs.
async fn the_rest_of_the_api_tells_the_truth(stage: &Stage, node: &Node) {
    let voucher = format!("/api/vouchers/{}", stage.voucher);
    for path in ["/healthz", "/api/vouchers", &voucher, "/api/orders"] {
        assert_eq!(stage.get(node.address, path).await.0, 200, "{path}");
    }
    // No other node could do better.
    let (status, ready) = stage.get(node.address, "/readyz").await;
    assert_eq!(status, 200, "{ready:?}");
    let phone = serde_json::json!({"phone": "13800000000"});
    let url = format!("http://{}/api/login-codes", node.address);
    let code = stage.client.post(url).json(&phone).send().await;
    assert_eq!(super::crowd::read(code).await, What::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_redis_costs_buyers_a_503_and_no_order() {
    for strategy in SOLD_BY {
        let mut stage = Stage::new(strategy).await;
        let nodes = [stage.node().await, stage.node().await];
        let crowd = Crowd::start(&stage, &[nodes[0].address, nodes[1].address]);
        crowd.orders_after(Instant::now(), 200).await;

        let fault = Instant::now();
        stage.signal(Server::Redis, Signal::SIGKILL);
        crowd.refusals_after(fault).await;
        the_rest_of_the_api_tells_the_truth(&stage, &nodes[0]).await;
        crowd.refusals_after(fault + OUTAGE).await;
        stage.restart(Server::Redis);
        let mended = Instant::now();
        crowd.orders_after(mended, 200).await;

        let answers = crowd.go_home().await;
        figures("Redis killed", &answers, fault, mended);
        only(&answers, &[What::Unavailable, in_progress()]);
        stage.settle(&answers).await;
        stage.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_redis_costs_buyers_a_503_and_no_order() {
    for strategy in SOLD_BY {
        let stage = Stage::new(strategy).await;
        let nodes = [stage.node().await, stage.node().await];
        let crowd = Crowd::start(&stage, &[nodes[0].address, nodes[1].address]);
        crowd.orders_after(Instant::now(), 200).await;

        let fault = Instant::now();
        stage.signal(Server::Redis, Signal::SIGSTOP);
        crowd.refusals_after(fault).await;
        the_rest_of_the_api_tells_the_truth(&stage, &nodes[0]).await;
        crowd.refusals_after(fault + OUTAGE).await;
        stage.signal(Server::Redis, Signal::SIGCONT);
        let mended = Instant::now();
        crowd.orders_after(mended, 200).await;

        let answers = crowd.go_home().await;
        figures("Redis paused", &answers, fault, mended);
        only(&answers, &[What::Unavailable, in_progress()]);
        stage.settle(&answers).await;
        // Locks that were granted to nobody while it woke up were given back, or ran out.
        testkit::wait::eventually("no lock is left", async || stage.locked().is_empty()).await;
        stage.end().await;
    }
}
