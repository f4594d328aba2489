//! A time-out for the answer of a server that does not mistake a busy process for a silent server.
//!
//! A plain time-out also runs out where the server answered long ago and this process has not read
//! the answer yet: when thousands of requests arrive in one moment, each of them is ahead of the
//! answer in the queue for a core. So the time is spent in steps, each a short sleep. A step that
//! took longer, because the process was busy, still counts as one, and in each of them every task
//! gets its turn. Where there is little to do the two are the same.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

const STEPS: u32 = 10;

/// The server did not answer in time. Whether it did what was asked is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {0:?}")]
pub struct TimedOut(Duration);

/// The answer, unless it takes longer than `limit`. The time in which this process is too busy to read it does
/// not count.
///
/// # Errors
/// `TimedOut` when it does; `answer` is then dropped, unless it was passed by reference.
pub async fn within<T>(limit: Duration, answer: impl Future<Output = T>) -> Result<T, TimedOut> {
    unless_silent(limit, || 0, answer).await
}

/// The same for one of many requests that are answered in turn over one connection: while `answers`,
/// the number of answers that came over it, grows, the server is there and the turn comes.
///
/// # Errors
/// `TimedOut` when for `limit` no answer came.
pub async fn unless_silent<T>(
    limit: Duration,
    answers: impl Fn() -> u64,
    answer: impl Future<Output = T>,
) -> Result<T, TimedOut> {
    let mut answer = pin!(answer);
    let (mut before, mut silent) = (answers(), 0);
    let mut begun = real_now();
    while silent < STEPS {
        if let Ok(answer) = timeout(limit / STEPS, &mut answer).await {
            return Ok(answer);
        }
        // The clock of a test has leapt; the server has had no time.
        if begun.elapsed() < limit / STEPS / 2 {
            continue;
        }
        begun = real_now();
        let now = answers();
        silent = if now == before { silent + 1 } else { 0 };
        before = now;
    }
    Err(TimedOut(limit))
}

/// By the clock that no test stops: servers live by it.
fn real_now() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_silence_is_told_after_the_limit_and_an_answer_at_once() {
        let limit = Duration::from_millis(20);
        let begun = tokio::time::Instant::now();
        assert_eq!(within(limit, std::future::pending::<()>()).await, Err(TimedOut(limit)));
        assert!(begun.elapsed() >= limit);
        assert_eq!(within(limit, async { 7 }).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_leaps_is_no_silence_of_the_server() {
        let (answer, answered) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            let _ = answer.send(7);
        });
        assert_eq!(within(Duration::from_millis(500), answered).await, Ok(Ok(7)));
    }

    #[tokio::test]
    async fn an_answer_that_came_while_the_process_was_busy_is_read() {
        let limit = Duration::from_millis(20);
        let (answer, answered) = tokio::sync::oneshot::channel();
        // On the one thread of this test: the time is over before the future is polled again.
        let busy = async {
            std::thread::sleep(limit * 2);
            tokio::task::yield_now().await;
            let _ = answer.send(7);
        };
        let (read, ()) = tokio::join!(within(limit, answered), busy);
        assert_eq!(read, Ok(Ok(7)));
    }
}
