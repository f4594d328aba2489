//! Two batchers share one slot, as of a connection; then each way in which an item is not worked on.
//!
//! `cargo run -p group-commit --example shared_slots`

use std::sync::Arc;
use std::time::Duration;

use group_commit::{BatchError, Batcher, Limits};
use tokio::sync::Semaphore;
use tokio::time::sleep;

type Orders = Batcher<u32, String, String>;

fn batcher(name: &'static str, slots: &Arc<Semaphore>) -> Orders {
    let limits = Limits { batch: 4, waiting: 8, leaders: 1 };
    Batcher::with_slots(limits, Arc::clone(slots), move |orders: Vec<u32>| async move {
        println!("  {name} has the slot and works on {orders:?}");
        sleep(Duration::from_millis(20)).await;
        match orders.iter().find(|order| **order == 13) {
            Some(order) => Err(format!("order {order} broke the connection")),
            None => Ok(orders.iter().map(|order| format!("order {order} is placed")).collect()),
        }
    })
}

/// Submits all of `orders` at once and prints what each of them hears.
async fn submit_all(batcher: &Orders, orders: impl IntoIterator<Item = u32>) {
    let submitted = orders.into_iter().map(|order| {
        let batcher = batcher.clone();
        (order, tokio::spawn(async move { batcher.submit(order).await }))
    });
    for (order, submitted) in submitted.collect::<Vec<_>>() {
        match submitted.await {
            Ok(Ok(answer)) => println!("  {answer}"),
            Ok(Err(error)) => println!("  order {order}: {error}"),
            Err(error) => println!("  order {order}: {error}"),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let slots = Arc::new(Semaphore::new(1));
    let (shop, till) = (batcher("the shop", &slots), batcher("the till", &slots));

    println!("two batchers, one slot: they take turns");
    tokio::join!(submit_all(&shop, 20..26), submit_all(&till, 30..36));

    println!("order 13 fails its batch, and those who wait for the next batch hear of it at once");
    submit_all(&shop, 10..16).await;

    println!("the queue has eight places");
    submit_all(&till, 40..50).await;

    println!("somebody else keeps the slot for longer than a second");
    let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
        unreachable!("nobody closes the slots");
    };
    let answer = shop.submit(99).await;
    assert_eq!(answer, Err(BatchError::NoSlot));
    println!("  order 99: {answer:?}");
    drop(slot);
}
