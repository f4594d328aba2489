//! Nodes that use different servers of one Citus.

use std::time::Instant;

use seckill::purchase::Strategy;

use super::citus::Citus;
use crate::faults::crowd::Crowd;
use crate::faults::sale::{MANY_USERS, Sale};
use testkit::redis_nodes::Node as RedisServer;
use testkit::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn each_worker_is_the_coordinator_of_some_nodes() {
    let Some(mut cluster) = Citus::distributed(2).await else { return };
    let redis = RedisServer::start(&[]).await;
    let urls = (&*cluster.coordinator.url(), &*redis.url());
    let sale = Sale::open(urls, Strategy::GroupCommit, MANY_USERS).await;
    let of_voucher = cluster.worker_of(sale.voucher.get()).await;
    let other = 1 - of_voucher;
    let node_of = async |worker: usize| sale.at(&cluster.workers[worker].url()).node().await;
    let nodes = [node_of(of_voucher).await, node_of(other).await];
    // Of its buyers every second one asks the other node.
    let crowd = Crowd::start(&sale, &nodes);
    let all_sell = async || {
        let now = Instant::now();
        let all = async || crowd.first_orders_after(now).iter().all(Option::is_some);
        eventually("both nodes sell", all).await;
    };
    all_sell().await;
    // Neither uses the coordinator, and a worker without the voucher costs the sale its own node.
    cluster.coordinator.kill();
    all_sell().await;
    cluster.workers[other].kill();
    let dead = Instant::now();
    eventually("the first node sells", async || {
        crowd.first_orders_after(dead).iter().step_by(2).all(Option::is_some)
    })
    .await;
    let none = crowd.first_orders_after(dead).iter().skip(1).step_by(2).all(Option::is_none);
    cluster.workers[other].start_again().await;
    cluster.coordinator.start_again().await;
    all_sell().await;
    assert!(none, "the other node sold without its server");
    crowd.settle(&sale, &[]).await;
}
