//! What it promises of items with keys.

use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::{Answer, BatchError, Batcher, Limits, Slots, Turn};

const LIMITS: Limits = Limits::batches_of(4).waiting(3);
const PATIENCE: Duration = Duration::from_secs(1);

fn slots(batches: usize, alone: usize, keys: usize) -> Slots {
    let [batches, alone, keys] = [batches, alone, keys].map(|count| NonZero::new(count).unwrap());
    Slots::new(batches).alone(alone).keys(keys)
}

type Keyed = Batcher<u32, u32, &'static str, char>;
type Told = Result<u32, BatchError<&'static str>>;

/// A batcher whose batches begin when `go` says so. The key 'f' fails, and 'h' is held: what comes of it in a shared batch
/// comes back. Each item is answered by itself, or by a hundred more where it was alone.
#[derive(Clone)]
struct Lab {
    batcher: Keyed,
    go: Arc<Semaphore>,
    go_alone: Arc<Semaphore>,
    /// The batches so far, as they began.
    begun: Arc<Mutex<Vec<String>>>,
}

impl Lab {
    fn new(limits: Limits, slots: Slots) -> Self {
        let [go, go_alone] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
        let begun: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, both) = (Arc::clone(&begun), [Arc::clone(&go), Arc::clone(&go_alone)]);
        let batcher = Batcher::keyed(limits, slots, move |items: Vec<(char, u32)>, turn| {
            let names = items.iter().map(|(key, item)| format!("{key}{item}"));
            let mark = if turn == Turn::Alone { "alone " } else { "" };
            seen.lock().unwrap().push(format!("{mark}{}", names.collect::<Vec<_>>().join(" ")));
            let go = Arc::clone(&both[usize::from(turn == Turn::Alone)]);
            async move {
                go.acquire().await.map_err(|_| "closed")?.forget();
                if items.iter().any(|(key, _)| *key == 'f') {
                    return Err("f");
                }
                let answer = |(key, item)| match (key, turn) {
                    ('h', Turn::Shared) | ('H', _) => Answer::Alone(item),
                    (_, Turn::Shared) => Answer::Done(item),
                    (_, Turn::Alone) => Answer::Done(item + 100),
                };
                Ok(items.into_iter().map(answer).collect())
            }
        });
        Self { batcher, go, go_alone, begun }
    }

    /// Submits these items in their order; the result is complete when all were answered.
    fn submit(&self, items: &str) -> tokio::task::JoinHandle<Vec<Told>> {
        let submitted = items.split(' ').map(|name| {
            let (key, item) = name.split_at(1);
            let (key, item) = (key.chars().next().unwrap(), item.parse().unwrap());
            let batcher = self.batcher.clone();
            async move { batcher.submit_to(key, item).await }
        });
        tokio::spawn(join_all(submitted.collect::<Vec<_>>()))
    }

    /// The same, when all has begun that can.
    async fn begin(&self, items: &str) -> tokio::task::JoinHandle<Vec<Told>> {
        let submitted = self.submit(items);
        self.until_idle().await;
        submitted
    }

    async fn until_idle(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    fn begun(&self) -> Vec<String> {
        self.begun.lock().unwrap().clone()
    }
}

/// What items came to: what each was answered, or its error.
fn words(told: &[Told]) -> String {
    let word = |told: &Told| match told {
        Ok(answer) => answer.to_string(),
        Err(error) => format!("{error:?}"),
    };
    told.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A batch is in flight, and others come behind it: what they come to, and the batches in which they begin.
#[tokio::test]
async fn a_batch_has_items_of_several_keys_and_each_key_its_own_limit_and_failures() {
    let failures = ["Failed(\"f\") Failed(\"f\")", "NotStarted(\"f\") NotStarted(\"f\") 1"];
    for (most_keys, first, behind, told, begun) in [
        // Those that waited longest come first. `a` came into the line when the first batch had ended.
        (9, "a1", "b1 a2 b2 c1 d1 d2", ["1", "1 2 2 1 1 2"], "a1, b1 b2 c1 d1, a2 d2"),
        // No more keys than the limit.
        (1, "z0", "a1 b1 a2 c1", ["0", "1 1 2 1"], "z0, a1 a2, b1, c1"),
        (2, "z0", "a1 b1 a2 c1", ["0", "1 1 2 1"], "z0, a1 a2 b1, c1"),
        (9, "z0", "a1 a2 a3 a4 b1", ["0", "1 2 3 Full 1"], "z0, a1 a2 a3 b1"),
        // A failure is told to those who wait for its keys, and to nobody else.
        (2, "f1 a1", "f2 a2 b1", failures, "f1 a1, b1"),
    ] {
        let lab = Lab::new(LIMITS, slots(1, 1, most_keys));
        let in_flight = lab.begin(first).await;
        let rest = lab.begin(behind).await;
        lab.go.add_permits(9);
        let both = [words(&in_flight.await.unwrap()), words(&rest.await.unwrap())];
        assert_eq!(both, told, "{first}, {behind}");
        assert_eq!(lab.begun().join(", "), begun, "{first}, {behind}");
        assert_eq!((lab.batcher.waiting(), lab.batcher.tasks()), (0, 0));
    }
}

#[tokio::test]
async fn of_one_key_one_batch_is_in_flight_and_other_keys_go_on() {
    let lab = Lab::new(LIMITS, slots(2, 1, 9));
    let first = lab.begin("a1").await;
    let second = lab.begin("a2 b1 b2").await;
    assert_eq!(lab.begun(), ["a1", "b1 b2"]);
    let third = lab.begin("c1").await;
    assert_eq!(lab.begun().len(), 2, "there are two slots");
    lab.go.add_permits(9);
    let all = join_all([first, second, third]).await;
    assert!(all.into_iter().flat_map(Result::unwrap).all(|told| told.is_ok()));
    assert_eq!((lab.begun().len(), lab.batcher.tasks()), (3, 0));
}

#[tokio::test]
async fn an_item_that_comes_back_is_alone_with_those_of_its_key_and_holds_up_no_other() {
    let lab = Lab::new(LIMITS, slots(1, 1, 9));
    let held = lab.submit("h1 h2");
    let beside = lab.begin("a1").await;
    lab.go.add_permits(1);
    assert_eq!(beside.await.unwrap(), [Ok(1)]);
    lab.until_idle().await;
    let later = lab.submit("h3 a2");
    lab.go.add_permits(1);
    lab.until_idle().await;
    // The key is busy until those that came back are answered. The only slot is free for others.
    assert_eq!(lab.begun(), ["h1 h2 a1", "alone h1 h2", "a2"]);
    lab.go_alone.add_permits(2);
    lab.go.add_permits(1);
    assert_eq!(held.await.unwrap(), [Ok(101), Ok(102)]);
    assert_eq!(later.await.unwrap(), [Ok(103), Ok(2)]);
    lab.until_idle().await;
    assert_eq!((lab.batcher.waiting(), lab.batcher.tasks()), (0, 0));
}

#[tokio::test]
async fn what_fails_alone_is_told_to_its_key() {
    let lab = Lab::new(LIMITS, slots(1, 1, 9));
    let held = lab.submit("h1 a1");
    lab.go.add_permits(1);
    lab.until_idle().await;
    let later = lab.submit("h2");
    lab.go_alone.close();
    assert_eq!(held.await.unwrap(), [Err(BatchError::Failed("closed")), Ok(1)]);
    assert_eq!(later.await.unwrap(), [Err(BatchError::NotStarted("closed"))]);
}

#[tokio::test]
async fn an_item_that_comes_back_twice_is_a_defect_of_the_work() {
    let lab = Lab::new(LIMITS, slots(1, 1, 9));
    lab.go.add_permits(9);
    lab.go_alone.add_permits(9);
    assert_eq!(lab.submit("H1 a1").await.unwrap(), [Err(BatchError::Interrupted), Ok(1)]);
    assert_eq!(lab.submit("a2").await.unwrap(), [Ok(2)]);
}

/// Each item comes back from its shared batch, and is answered by a hundred more.
fn back_once(items: Vec<(char, u32)>, turn: Turn) -> Result<Vec<Answer<u32, u32>>, &'static str> {
    let answer = |(_, item)| match turn {
        Turn::Shared => Answer::Alone(item),
        Turn::Alone => Answer::Done(item + 100),
    };
    Ok(items.into_iter().map(answer).collect())
}

#[tokio::test(start_paused = true)]
async fn items_that_came_back_have_slots_of_their_own_and_a_second_to_get_one() {
    for (slots, expected) in
        [(slots(1, 1, 1), [Ok(101), Err(BatchError::NoSlot)]), (slots(1, 2, 1), [Ok(101), Ok(102)])]
    {
        let batcher = Batcher::keyed(LIMITS, slots, |items: Vec<(char, u32)>, turn| async move {
            if turn == Turn::Alone {
                sleep(PATIENCE * 11 / 10).await;
            }
            back_once(items, turn)
        });
        let both = tokio::join!(batcher.submit_to('a', 1), batcher.submit_to('b', 2));
        assert_eq!([both.0, both.1], expected);
        assert_eq!(batcher.submit_to('b', 3).await, Ok(103));
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_came_back_is_refused_a_second_after_its_submission() {
    let work = |items: Vec<(char, u32)>, turn| async move {
        sleep(PATIENCE * if turn == Turn::Shared { 6 } else { 7 } / 10).await;
        back_once(items, turn)
    };
    let batcher = Batcher::keyed(LIMITS, slots(1, 1, 9), work);
    let begun = Instant::now();
    let submit = async |key, item, after: Duration| {
        sleep(after).await;
        (batcher.submit_to(key, item).await, begun.elapsed())
    };
    let (first, second, behind) = tokio::join!(
        submit('a', 1, Duration::ZERO),
        submit('b', 2, Duration::ZERO),
        submit('b', 3, PATIENCE / 2),
    );
    assert_eq!([first.0, second.0, behind.0], [Ok(101), Err(BatchError::NoSlot), Ok(103)]);
    assert!(second.1 < PATIENCE * 11 / 10, "{:?}", second.1);
}

/// Below the limit, at it, and beyond: it counts from the submission, however long an earlier batch of the key took.
#[tokio::test(start_paused = true)]
async fn items_that_wait_too_long_for_a_slot_are_refused_and_later_ones_are_not() {
    for (patience, tenths, expected) in [
        (PATIENCE, 8, Ok(2)),
        (PATIENCE, 11, Err(BatchError::NoSlot)),
        (PATIENCE, 30, Err(BatchError::NoSlot)),
        (PATIENCE / 4, 8, Ok(2)),
        (PATIENCE / 4, 11, Err(BatchError::NoSlot)),
        (PATIENCE * 4, 8, Ok(2)),
    ] {
        let (busy_for, slots) = (patience * tenths / 10, slots(1, 1, 9).patience(patience));
        let batcher = Batcher::keyed(LIMITS, slots, move |items: Vec<(char, u32)>, _| async move {
            if items[0].0 == 'z' {
                sleep(busy_for).await;
            }
            Ok::<_, &str>(items.into_iter().map(|(_, item)| Answer::Done(item)).collect())
        });
        let begun = Instant::now();
        let first = batcher.submit_to('z', 1);
        let later = async {
            tokio::task::yield_now().await;
            (batcher.submit_to('a', 2).await, begun.elapsed())
        };
        let (first, (later, waited)) = tokio::join!(first, later);
        assert_eq!((first, later), (Ok(1), expected), "{busy_for:?}");
        assert!(waited <= patience * 11 / 10, "{waited:?}");
        assert_eq!((batcher.submit_to('a', 7).await, batcher.waiting()), (Ok(7), 0));
    }
}

#[test]
fn a_runtime_that_stops_leaves_nobody_waiting() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (callers, leaders) = (runtime(), runtime());
    let lab = leaders.block_on(async { Lab::new(LIMITS, slots(1, 1, 9)) });
    lab.go.add_permits(1);
    let submit = |key, item| {
        let batcher = lab.batcher.clone();
        callers.spawn(async move { batcher.submit_to(key, item).await })
    };
    let first = submit('h', 1);
    callers.block_on(lab.until_idle());
    leaders.block_on(lab.until_idle());
    assert_eq!(lab.begun(), ["h1", "alone h1"]);
    // One waits behind it, and one has come back, too, and has no slot.
    let second = submit('h', 2);
    lab.go.add_permits(1);
    let third = submit('H', 3);
    callers.block_on(lab.until_idle());
    leaders.block_on(lab.until_idle());
    // A shared batch is in flight, too.
    let [one, other] = [4, 5].map(|item| submit('a', item));
    callers.block_on(lab.until_idle());
    leaders.block_on(lab.until_idle());
    assert_eq!(lab.begun(), ["h1", "alone h1", "H3", "a4 a5"]);
    drop(leaders);
    let after = submit('a', 6);
    // Only of those that a batch had is it not known what was done.
    for caller in [first, one, other] {
        assert_eq!(callers.block_on(caller).unwrap(), Err(BatchError::Interrupted));
    }
    for caller in [second, third, after] {
        assert_eq!(callers.block_on(caller).unwrap(), Err(BatchError::Stopped));
    }
    assert_eq!((lab.batcher.tasks(), lab.batcher.waiting()), (0, 0));
}

/// A batcher for as many keys as there are vouchers does not remember all that it ever had.
#[tokio::test]
async fn keys_that_have_nothing_to_do_are_forgotten() {
    let batcher = Batcher::keyed(LIMITS, slots(1, 1, 9), async |items: Vec<(u32, u32)>, _| {
        Ok::<_, ()>(items.into_iter().map(|(_, item)| Answer::Done(item)).collect())
    });
    for key in 0..3_000 {
        assert_eq!(batcher.submit_to(key, key).await, Ok(key));
    }
    tokio::task::yield_now().await;
    assert!(batcher.keys() <= 1_025, "{}", batcher.keys());
}
