//! Those who ask again and again.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

/// Does `ask` again and again, so many times at once, until `others` are done and each of those who ask has the last answer.
pub async fn flood<T>(
    at_once: usize,
    ask: impl AsyncFn(usize),
    others: impl Future<Output = T>,
) -> T {
    let (ask, is_over) = (&ask, &Cell::new(false));
    let asking = (0..at_once).map(|number| {
        Box::pin(async move {
            while !is_over.get() {
                ask(number).await;
            }
        })
    });
    let mut asking: Vec<_> = asking.collect();
    let all_asking = poll_fn(|context| {
        asking.retain_mut(|it| it.as_mut().poll(context).is_pending());
        if asking.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    });
    let others = async {
        let done = others.await;
        is_over.set(true);
        done
    };
    tokio::join!(all_asking, others).1
}
