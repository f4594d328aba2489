//! PostgreSQL goes away in the middle of a sale, and comes back.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use seckill::embedded::Server;
use seckill::seckill::StrategyName;

use super::crowd::{Crowd, What, figures, in_progress, only};
use super::stage::{SOLD_BY, Stage};
use crate::processes::{Node, eventually};

/// Long enough for every pause and memory of the node to run out.
const OUTAGE: Duration = Duration::from_millis(2500);
/// Sessions that the third party ends.
const ENDED: usize = 20;

/// What needs the database says 503, and nothing hangs.
async fn the_rest_of_the_api_says_so(stage: &Stage, node: &Node) {
    assert_eq!(stage.get(node.address, "/healthz").await.0, 200);
    let (status, ready) = stage.get(node.address, "/readyz").await;
    assert_eq!(status, 503, "{ready:?}");
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

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_database_costs_buyers_a_503_and_no_order() {
    for strategy in SOLD_BY {
        let mut stage = Stage::durable(strategy).await;
        let nodes = [stage.node().await, stage.node().await];
        let crowd = Crowd::start(&stage, &[nodes[0].address, nodes[1].address]);
        crowd.orders_after(Instant::now(), 200).await;

        let fault = Instant::now();
        stage.signal(Server::Postgres, Signal::SIGKILL);
        crowd.refusals_after(fault).await;
        the_rest_of_the_api_says_so(&stage, &nodes[0]).await;
        crowd.refusals_after(fault + OUTAGE).await;
        stage.restart(Server::Postgres);
        let mended = Instant::now();
        crowd.orders_after(mended, 200).await;

        let answers = crowd.go_home().await;
        figures("PostgreSQL killed", &answers, fault, mended);
        only(&answers, &[What::Unavailable, in_progress()]);
        stage.settle(&answers).await;
        stage.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_database_costs_buyers_a_503_and_no_order() {
    for strategy in SOLD_BY {
        let stage = Stage::new(strategy).await;
        let nodes = [stage.node().await, stage.node().await];
        let crowd = Crowd::start(&stage, &[nodes[0].address, nodes[1].address]);
        crowd.orders_after(Instant::now(), 200).await;

        let fault = Instant::now();
        stage.signal(Server::Postgres, Signal::SIGSTOP);
        crowd.refusals_after(fault).await;
        the_rest_of_the_api_says_so(&stage, &nodes[0]).await;
        crowd.refusals_after(fault + OUTAGE).await;
        stage.signal(Server::Postgres, Signal::SIGCONT);
        let mended = Instant::now();
        crowd.orders_after(mended, 200).await;

        let answers = crowd.go_home().await;
        figures("PostgreSQL paused", &answers, fault, mended);
        only(&answers, &[What::Unavailable, in_progress()]);
        stage.settle(&answers).await;
        stage.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_a_third_party_ends_cost_nobody_an_order() {
    for strategy in SOLD_BY {
        let stage = Stage::new(strategy).await;
        let nodes = [stage.node().await, stage.node().await];
        let crowd = Crowd::start(&stage, &[nodes[0].address, nodes[1].address]);
        crowd.orders_after(Instant::now(), 100).await;

        let fault = Instant::now();
        let mut ended = 0;
        while ended < ENDED {
            let begun = Instant::now();
            let done: Option<bool> = sqlx::query_scalar(
                "select pg_terminate_backend(pid) from (
               select pid from pg_stat_activity where application_name = 'seckill'
               order by random() limit 1
             ) one",
            )
            .fetch_optional(&stage.pool)
            .await
            .unwrap();
            ended += usize::from(done == Some(true));
            crowd.orders_after(begun, 10).await;
        }
        let answers = crowd.go_home().await;
        figures("sessions ended", &answers, fault, fault);
        only(&answers, &[What::Unavailable, in_progress()]);
        stage.settle(&answers).await;
        stage.end().await;
    }
}

/// Asks until the buyer is served, and brings back with what.
async fn served(stage: &Stage, node: &Node, buyer: i64) -> What {
    let mut told = None;
    eventually("the buyer is served", async || {
        let what = stage.buy(node.address, buyer).await;
        let served = matches!(what, What::Ordered(_) | What::AlreadyBought(_));
        assert!(served || what == What::Unavailable || what == in_progress(), "{what:?}");
        told = Some(what);
        served
    })
    .await;
    told.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_is_known_on_asking_again() {
    for strategy in SOLD_BY {
        let stage = Stage::new(strategy).await;
        let node = stage.node().await;

        // One purchase is written after its buyer was told that nobody knows.
        let row = stage.hold_the_row().await;
        assert_eq!(stage.buy(node.address, 1).await, What::Unavailable);
        stage.waiting_for_the_row(1).await;
        row.rollback().await.unwrap();
        let What::AlreadyBought(order) = served(&stage, &node, 1).await else {
            panic!("the order that was written is not named");
        };
        assert_eq!(stage.orders().await, 1);

        // Another is not, or only by being sent again.
        let row = stage.hold_the_row().await;
        let (told, ()) = tokio::join!(stage.buy(node.address, 2), async {
            stage.waiting_for_the_row(1).await;
            stage.end_those_waiting_for_the_row().await;
        });
        assert_eq!(told, What::Unavailable);
        row.rollback().await.unwrap();
        let anew = match (strategy, served(&stage, &node, 2).await) {
            (StrategyName::Locked, What::Ordered(anew)) => anew,
            (StrategyName::GroupCommit, What::AlreadyBought(anew)) => anew,
            other => panic!("{other:?}"),
        };
        assert!(anew > order);
        assert_eq!(stage.orders().await, 2);
        stage.end().await;
    }
}

/// What `node` has counted.
async fn count(stage: &Stage, node: &Node, name: &str) -> u64 {
    let metrics = stage.client.get(format!("http://{}/metrics", node.address));
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    let mut counts = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    counts.next().map_or(0, |count| count.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_of_his_order_before_it_is_on_disk() {
    let stage = Stage::new(StrategyName::Locked).await;
    stage.let_the_disk_be_held().await;
    let node = stage.node().await;
    let disk = stage.hold_the_disk().await;

    // Two are at the row, and the second does not keep it until its order is on disk.
    let row = stage.hold_the_row().await;
    let second = async {
        stage.waiting_for_the_row(1).await;
        let mut told = Vec::new();
        eventually("the second order is there", async || {
            told.push(stage.buy(node.address, 2).await);
            stage.orders().await == 1
        })
        .await;
        told
    };
    let freed = async {
        stage.waiting_for_the_row(2).await;
        stage.end_the_first_waiting_for_the_row().await;
        row.rollback().await.unwrap();
    };
    let (first, mut told, ()) = tokio::join!(stage.buy(node.address, 1), second, freed);
    assert_eq!(first, What::Unavailable);
    // Nor when he asks again, and comes as far as the disk: that is what trips the breaker here.
    let tripped = count(&stage, &node, "seckill_breaker_tripped_total").await;
    eventually("he has been there twice", async || {
        told.push(stage.buy(node.address, 2).await);
        count(&stage, &node, "seckill_breaker_tripped_total").await >= tripped + 2
    })
    .await;
    told.retain(|what| *what != What::Unavailable && *what != in_progress());
    assert_eq!(told, [], "the buyer was told what may be lost");

    disk.rollback().await.unwrap();
    assert!(matches!(served(&stage, &node, 2).await, What::AlreadyBought(_)));
    assert!(matches!(served(&stage, &node, 1).await, What::Ordered(_)));
    assert_eq!(stage.orders().await, 2);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_of_another_node_is_not_named_before_it_is_on_disk() {
    for strategy in SOLD_BY {
        let stage = Stage::new(strategy).await;
        stage.let_the_disk_be_held().await;
        let node = stage.node().await;
        let disk = stage.hold_the_disk().await;
        let order = sqlx::query("insert into orders (id, user_id, voucher_id) values (7, 1, $1)");
        order.bind(stage.voucher.get()).execute(&stage.pool).await.unwrap();
        let stock = sqlx::query("update seckill_vouchers set stock = stock - 1");
        stock.execute(&stage.pool).await.unwrap();
        let told = stage.buy(node.address, 1).await;
        if strategy == StrategyName::Locked {
            assert_eq!(told, What::Unavailable);
        } else {
            // It finds out by a commit of its own, which nobody holds here.
            eventually("it has asked", async || {
                count(&stage, &node, "seckill_group_settled_total").await == 1
            })
            .await;
        }
        disk.rollback().await.unwrap();
        assert_eq!(served(&stage, &node, 1).await, What::AlreadyBought(7));
        stage.end().await;
    }
}
