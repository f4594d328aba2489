//! Clients that hang up.

use std::collections::HashMap;
use std::time::Instant;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::crowd::{Crowd, What, in_progress, only};
use super::stage::{SOLD_BY, Stage};
use testkit::wait::eventually;

/// Buyers who hang up, with numbers that no buyer of the crowd reaches.
const FIRST: i64 = 40_001;
const COUNT: i64 = 200;

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_who_hangs_up_leaves_a_whole_order_or_none_and_no_lock() {
    for strategy in SOLD_BY {
        let stage = Stage::new(strategy).await;
        let node = stage.node().await;
        let crowd = Crowd::start(&stage, &[node.address]);
        crowd.orders_after(Instant::now(), 100).await;

        for buyer in FIRST..FIRST + COUNT {
            let mut stream = TcpStream::connect(node.address).await.unwrap();
            let request = format!(
                "POST {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-length: 0\r\n\r\n",
                stage.path(),
                node.address,
                stage.token(buyer),
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            // Every other one with a reset in place of a farewell.
            if buyer % 2 == 0 {
                stream.set_zero_linger().unwrap();
            }
        }
        let last = Instant::now();
        crowd.orders_after(last, 100).await;
        eventually("the locks of those who left are given back", async || {
            !stage.locked().keys().any(|buyer| *buyer >= FIRST)
        })
        .await;

        let rows: Vec<(i64, i64)> =
            sqlx::query_as("select user_id, id from orders where user_id >= $1")
                .bind(FIRST)
                .fetch_all(&stage.pool)
                .await
                .unwrap();
        let bought: HashMap<i64, i64> = rows.into_iter().collect();
        eprintln!("figures: hang-ups: {} of {COUNT} left an order", bought.len());
        assert!(!bought.is_empty(), "nobody's purchase was begun");
        for buyer in FIRST..FIRST + COUNT {
            match (stage.buy(node.address, buyer).await, bought.get(&buyer)) {
                (What::AlreadyBought(told), Some(order)) => assert_eq!(told, *order),
                (What::Ordered(_), None) => {}
                other => panic!("buyer {buyer}: {other:?}"),
            }
        }
        let answers = crowd.go_home().await;
        only(&answers, &[in_progress()]);
        stage.settle(&answers).await;
        stage.end().await;
    }
}
