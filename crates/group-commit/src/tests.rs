//! What the batcher promises.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::{Notify, Semaphore};

use super::{BatchError, Batcher, Limits};

#[allow(clippy::unwrap_used)]
mod keyed;

const LIMITS: Limits = Limits::batches_of(4).waiting(10);

/// Answers each number with the size of its batch, when `go` says so.
fn sizes(limits: Limits, go: &Arc<Semaphore>) -> Batcher<u32, usize, &'static str> {
    let go = Arc::clone(go);
    Batcher::new(limits, move |items: Vec<u32>| {
        let go = Arc::clone(&go);
        async move {
            go.acquire().await.map_err(|_| "closed")?.forget();
            if items.contains(&13) {
                return Err("13");
            }
            assert!(!items.contains(&7), "a panic on purpose");
            Ok(vec![items.len(); items.len()])
        }
    })
}

/// Submits all of `items` at once, in their order.
async fn submit_all(
    batcher: &Batcher<u32, usize, &'static str>,
    items: impl IntoIterator<Item = u32>,
) -> Vec<Result<usize, BatchError<&'static str>>> {
    join_all(items.into_iter().map(|item| batcher.submit(item))).await
}

#[tokio::test]
async fn items_that_wait_together_are_one_batch_up_to_the_limit_and_one_too_many_is_refused() {
    let batcher = sizes(LIMITS, &Arc::new(Semaphore::new(9)));
    assert_eq!(submit_all(&batcher, [0]).await, [Ok(1)]);
    let answers = submit_all(&batcher, 20..31).await;
    let sizes = [4, 4, 4, 4, 4, 4, 4, 4, 2, 2].map(Ok);
    assert_eq!((&answers[..10], &answers[10]), (&sizes[..], &Err(BatchError::Full)));
    assert_eq!(submit_all(&batcher, [0]).await, [Ok(1)]);
}

#[tokio::test]
async fn those_who_wait_are_told_of_a_failure_unless_it_is_of_its_batch_alone() {
    let (failed, of_its_batch) = (BatchError::Failed("13"), LIMITS.a_failure_is_of_its_batch());
    for (case, limits, permissions, first, told, next) in [
        // There is no permission for a second batch.
        ("a failure", LIMITS, 1, 13, failed.clone(), Err(BatchError::NotStarted("13"))),
        ("a failure of its batch", of_its_batch, 2, 13, failed, Ok(1)),
        ("a panic", LIMITS, 9, 7, BatchError::Interrupted, Ok(1)),
    ] {
        let batcher = sizes(limits, &Arc::new(Semaphore::new(permissions)));
        let answers = submit_all(&batcher, [first, 1, 1, 1, 2]).await;
        assert!(answers[..4].iter().all(|answer| *answer == Err(told.clone())), "{case}");
        assert_eq!(answers[4], next, "{case}");
    }
}

/// Each item has the work of `own` submit to `own`, or to another batcher where it is 0.
#[tokio::test]
async fn work_that_submits_to_its_own_batcher_is_told_and_to_another_one_it_may() {
    type Numbers = Batcher<u32, u32, ()>;
    let own: Arc<OnceLock<Numbers>> = Arc::default();
    let other: Numbers = Batcher::new(LIMITS, async |items: Vec<u32>| Ok(items));
    let nested = Arc::clone(&own);
    let batcher = own.get_or_init(|| {
        Batcher::new(LIMITS, move |items: Vec<u32>| {
            let (own, other) = (Arc::clone(&nested), other.clone());
            async move {
                let asked = if items[0] == 0 { &other } else { own.get().ok_or(())? };
                asked.submit(5).await.map(|answer| vec![answer]).map_err(drop)
            }
        })
    });
    assert_eq!(batcher.submit(1).await, Err(BatchError::Interrupted));
    assert_eq!(batcher.submit(0).await, Ok(5));
}

#[tokio::test]
async fn an_item_is_worked_on_after_its_caller_left() {
    let done = Arc::new(AtomicUsize::new(0));
    let (count, begun) = (Arc::clone(&done), Arc::new(Notify::new()));
    let (permission, start) = (Arc::new(Semaphore::new(0)), Arc::clone(&begun));
    let go = Arc::clone(&permission);
    let batcher = Batcher::new(LIMITS, move |items: Vec<u32>| {
        start.notify_one();
        let (count, go) = (Arc::clone(&count), Arc::clone(&go));
        async move {
            go.acquire().await.map_err(drop)?.forget();
            count.fetch_add(items.len(), Ordering::SeqCst);
            Ok::<_, ()>(items)
        }
    });
    tokio::select! {
        _ = batcher.submit(1) => unreachable!("nothing was permitted"),
        () = begun.notified() => {}
    }
    permission.add_permits(2);
    assert_eq!(batcher.submit(2).await, Ok(2));
    assert_eq!(done.load(Ordering::SeqCst), 2);
}

/// Whether making a batcher with these limits panics.
async fn is_refused(limits: Limits) -> bool {
    let made = async { Batcher::new(limits, async |items: Vec<u32>| Ok::<_, ()>(items)) };
    std::panic::AssertUnwindSafe(made).catch_unwind().await.is_err()
}

#[tokio::test]
async fn a_limit_of_zero_is_a_defect_and_one_of_1_is_not() {
    let ones = Limits::batches_of(1).waiting(1).leaders(1);
    assert!(!is_refused(ones).await);
    for limits in [Limits::batches_of(0), ones.waiting(0), ones.leaders(0)] {
        assert!(is_refused(limits).await, "{limits:?}");
    }
}

#[tokio::test]
async fn the_answers_of_a_batch_are_counted() {
    // Each batch of two is answered by as many answers as its first item says.
    let batcher = Batcher::new(LIMITS, async |items: Vec<usize>| Ok::<_, ()>(vec![(); items[0]]));
    for (answers, expected) in [
        (0, Err(BatchError::Interrupted)),
        (1, Err(BatchError::Interrupted)),
        (2, Ok(())),
        (3, Err(BatchError::Interrupted)),
    ] {
        let both = tokio::join!(batcher.submit(answers), batcher.submit(0));
        assert_eq!(both, (expected.clone(), expected), "{answers} answers for two items");
    }
}

#[derive(Debug)]
struct Gone;

impl std::fmt::Display for Gone {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("gone")
    }
}

impl Error for Gone {}

#[test]
fn an_error_says_what_was_done() {
    for (error, text) in [
        (BatchError::Full, "too many items wait already, nothing was done"),
        (BatchError::NoSlot, "no slot was free in time, nothing was done"),
        (BatchError::Stopped, "the batcher's runtime has stopped, nothing was done"),
        (BatchError::NotStarted(Gone), "an earlier batch failed, nothing was done for this item"),
        (BatchError::Failed(Gone), "the batch failed"),
        (BatchError::Interrupted, "the batch was interrupted, the work may have been done"),
    ] {
        assert_eq!(error.to_string(), text);
        let is_of_a_batch = matches!(error, BatchError::NotStarted(_) | BatchError::Failed(_));
        assert_eq!(error.source().is_some_and(|source| source.is::<Gone>()), is_of_a_batch);
    }
}
