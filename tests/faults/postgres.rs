//! Sessions of PostgreSQL that end, and purchases of which nobody knows.

use std::time::Instant;

use super::crowd::{Crowd, What};
use super::stage::{SOLD_BY, Stage};
use testkit::shop::held_rows::end_those_who_wait;

/// Sessions that the third party ends.
const ENDED: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_a_third_party_ends_cost_nobody_an_order() {
    for strategy in SOLD_BY {
        let stage = Stage::new(strategy).await;
        let nodes = [stage.node().await, stage.node().await];
        let crowd = Crowd::buying(&stage, &nodes).await;
        let mut ended = 0;
        while ended < ENDED {
            let begun = Instant::now();
            let done: Option<bool> = sqlx::query_scalar(
                "select pg_terminate_backend(pid) from (
               select pid from pg_stat_activity where application_name like 'seckill%'
               order by random() limit 1
             ) one",
            )
            .fetch_optional(&stage.pool)
            .await
            .unwrap();
            ended += usize::from(done == Some(true));
            crowd.orders_after(begun, 10).await;
        }
        crowd.settle(&stage, &[]).await;
        stage.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_is_known_on_asking_again() {
    for strategy in SOLD_BY {
        let stage = Stage::new(strategy).await;
        stage.wait_long_for_rows().await;
        let node = stage.node().await;

        // One purchase is written after its buyer was told that nobody knows.
        let row = stage.hold_the_row().await;
        assert_eq!(stage.buy(node.address, 1).await, What::Unavailable);
        stage.waiting_for_the_row(1).await;
        row.rollback().await.unwrap();
        let What::AlreadyBought(order) = stage.served(&node, 1).await else {
            panic!("the order that was written is not named");
        };
        assert_eq!(stage.orders().await, 1);

        // Another one's session is ended, and the order is sent again.
        let row = stage.hold_the_row().await;
        let (told, ()) = tokio::join!(stage.buy(node.address, 2), async {
            stage.waiting_for_the_row(1).await;
            end_those_who_wait(&stage.pool).await;
        });
        assert_eq!(told, What::Unavailable);
        row.rollback().await.unwrap();
        let What::AlreadyBought(anew) = stage.served(&node, 2).await else {
            panic!("the order that was sent again is not named");
        };
        assert!(anew > order);
        assert_eq!(stage.orders().await, 2);
        stage.end().await;
    }
}
