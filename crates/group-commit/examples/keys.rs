//! Orders of many vouchers, in batches over all of them; one voucher is held by somebody; then each way in which an
//! item is not worked on.
//!
//! `cargo run -p group-commit --example keys`

use std::error::Error;
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use group_commit::{Answer, Batcher, Limits, Slots, Turn};
use tokio::time::sleep;

type Orders = Batcher<u32, String, Arc<io::Error>, &'static str>;

/// Places orders of several vouchers at once. What is held by somebody comes back and waits alone.
async fn place(
    orders: Vec<(&'static str, u32)>,
    turn: Turn,
) -> Result<Vec<Answer<u32, String>>, Arc<io::Error>> {
    println!("  {turn:?}: {orders:?}");
    sleep(Duration::from_millis(if turn == Turn::Alone { 200 } else { 20 })).await;
    if orders.iter().any(|(voucher, _)| *voucher == "broken") {
        return Err(Arc::new(io::Error::other("the connection broke")));
    }
    let place = |(voucher, order)| match (voucher, turn) {
        ("held", Turn::Shared) => Answer::Alone(order),
        _ => Answer::Done(format!("order {order} of {voucher} is placed")),
    };
    Ok(orders.into_iter().map(place).collect())
}

/// Submits all of `orders` at once and prints what each of them hears.
async fn submit_all(batcher: &Orders, orders: impl IntoIterator<Item = (&'static str, u32)>) {
    let submitted = orders.into_iter().map(|(voucher, order)| {
        let batcher = batcher.clone();
        let told = tokio::spawn(async move { batcher.submit_to(voucher, order).await });
        (voucher, order, told)
    });
    for (voucher, order, told) in submitted.collect::<Vec<_>>() {
        match told.await {
            Ok(Ok(answer)) => println!("  {answer}"),
            Ok(Err(error)) => {
                let why = error.source().map(|why| format!(": {why}")).unwrap_or_default();
                println!("  order {order} of {voucher}: {error}{why}");
            }
            Err(error) => println!("  order {order} of {voucher}: {error}"),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let one = NonZero::<usize>::MIN;
    let limits = Limits::batches_of(4).waiting(4);
    let slots = Slots::new(one);
    let orders = Batcher::keyed(limits, slots, place);

    println!("orders of three vouchers go together, four in a batch");
    submit_all(&orders, [("tea", 1), ("rice", 2), ("tea", 3), ("cake", 4), ("cake", 5)]).await;

    println!("the one that somebody holds waits alone, and holds up no other");
    submit_all(&orders, [("tea", 6), ("held", 7), ("rice", 8), ("tea", 9)]).await;

    println!("a batch that fails is told to those who wait for the same voucher");
    let broken = (10..15).map(|order| ("broken", order));
    submit_all(&orders, broken.chain([("tea", 15)])).await;
}
