//! Nodes that are killed, and nodes that are told to end.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Instant;

use nix::sys::signal::Signal;
use tokio::net::TcpStream;

use super::crowd::{Answer, Crowd, What};
use super::stage::{SOLD_BY, Stage};
use testkit::shop::held_rows::end_those_who_wait;
use testkit::wait::eventually;

/// Waits until nobody is let in any more.
async fn closed(address: SocketAddr) {
    eventually("the node no longer listens", async || TcpStream::connect(address).await.is_err())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_locks_its_buyers_out_no_longer_than_one_lease() {
    for strategy in SOLD_BY {
        let stage = Stage::new(strategy).await;
        let (living, mut dying) = (stage.node().await, stage.node().await);
        // Buyers with even numbers ask the second node.
        let crowd = Crowd::buying(&stage, [&living, &dying]).await;

        let row = stage.hold_the_row().await;
        stage.waiting_for_the_row(2 * stage.at_the_row()).await;
        dying.send(Signal::SIGKILL);
        assert!(!dying.ended().await.success());
        let killed = Instant::now();
        let mut victims = stage.locked();
        // While the row is held nobody gets an order. The locks of those who have one were about to be given back.
        let owners = stage.owners().await;
        victims.retain(|buyer, _| buyer % 2 == 0 && !owners.contains(buyer));
        assert!(!victims.is_empty(), "the node died with purchases under way");
        for (buyer, left_ms) in &victims {
            assert!((1..=5000).contains(left_ms), "buyer {buyer} is locked out for {left_ms} ms");
        }
        // What the dead node had in the database ends without an order, and the row is free.
        end_those_who_wait(&stage.pool).await;
        row.rollback().await.unwrap();

        for buyer in victims.keys() {
            // At the other node, and not before.
            let told = stage.served(&living, *buyer).await;
            assert!(matches!(told, What::Ordered(_)), "{told:?}");
        }
        crowd.orders_after(killed, 100).await;
        let answers = crowd.settle(&stage, &[What::Nothing]).await;
        let nothing = |answer: &&Answer| answer.what == What::Nothing;
        assert!(answers.iter().filter(nothing).all(|answer| answer.worker % 2 == 1));
        stage.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_told_to_end_finishes_what_it_began() {
    for strategy in SOLD_BY {
        let stage = Stage::new(strategy).await;
        let mut node = stage.node().await;
        let crowd = Crowd::buying(&stage, [&node]).await;

        let row = stage.hold_the_row().await;
        stage.waiting_for_the_row(stage.at_the_row()).await;
        // A batch may be of one; the others come.
        eventually("several have begun", async || stage.locked().len() >= 2).await;
        let begun = stage.locked();
        node.send(Signal::SIGTERM);
        closed(node.address).await;
        row.rollback().await.unwrap();
        assert_eq!(node.ended().await.code(), Some(0));
        assert!(stage.locked().is_empty(), "{:?}", stage.locked());
        let answers = crowd.settle(&stage, &[What::Nothing]).await;
        served_or_told_that_it_is_unknown(&stage, &begun, &answers).await;
        stage.end().await;
    }
}

/// Every purchase that had begun has its answer: the order, or within the buyer's patience
/// that it is not known, and then there may be one.
async fn served_or_told_that_it_is_unknown(
    stage: &Stage,
    begun: &HashMap<i64, i64>,
    answers: &[Answer],
) {
    for buyer in begun.keys() {
        let mut own = answers.iter().filter(|answer| answer.buyer == *buyer);
        assert!(own.any(|answer| answer.what != What::Nothing), "buyer {buyer} was told nothing");
    }
    let buyers: Vec<i64> = begun.keys().copied().collect();
    let orders: i64 = sqlx::query_scalar("select count(*) from orders where user_id = any($1)")
        .bind(&buyers)
        .fetch_one(&stage.pool)
        .await
        .unwrap();
    assert!(orders >= stage.at_the_row(), "what was in the database is written: {orders}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_told_twice_to_end_ends_at_once() {
    for strategy in SOLD_BY {
        let stage = Stage::new(strategy).await;
        let mut node = stage.node().await;
        let crowd = Crowd::buying(&stage, [&node]).await;
        // With the row held it cannot finish what it began: only the second signal ends it.
        let row = stage.hold_the_row().await;
        stage.waiting_for_the_row(stage.at_the_row()).await;
        node.send(Signal::SIGTERM);
        closed(node.address).await;
        node.send(Signal::SIGTERM);
        assert_eq!(node.ended().await.code(), Some(130));
        row.rollback().await.unwrap();
        crowd.settle(&stage, &[What::Nothing]).await;
        stage.end().await;
    }
}
