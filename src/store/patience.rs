//! How long to wait for a server's answer.
//!
//! A plain time-out also runs out where the server answered long ago and this process has
//! not come round to reading it: when thousands of requests arrive in one moment, each of
//! them is ahead of the answer in the queue for a core, and all would be told that the
//! server is away. So patience is spent in steps, each a short sleep: a step that took
//! longer, because there was much to do, still counts as one, and in each of them everything
//! that waits gets its turn. Where there is little to do the two are the same.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

const STEPS: u32 = 10;

/// The server said nothing in time. Whether it did what was asked is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {0:?}")]
pub struct Silence(Duration);

/// What `answer` brings, unless it takes longer than `patience` of a process that is not
/// too busy to read it.
///
/// # Errors
/// `Silence` when it does; `answer` is then dropped, if it was not lent.
pub async fn within<T>(patience: Duration, answer: impl Future<Output = T>) -> Result<T, Silence> {
    unless_silent(patience, || 0, answer).await
}

/// The same for one of many who are answered in turn over one connection: while `heard`,
/// the number of answers that came over it, grows, the server is there and the turn comes.
///
/// # Errors
/// `Silence` when for `patience` nobody heard anything.
pub async fn unless_silent<T>(
    patience: Duration,
    heard: impl Fn() -> u64,
    answer: impl Future<Output = T>,
) -> Result<T, Silence> {
    let mut answer = pin!(answer);
    let (mut before, mut silent) = (heard(), 0);
    while silent < STEPS {
        if let Ok(answer) = timeout(patience / STEPS, &mut answer).await {
            return Ok(answer);
        }
        let now = heard();
        silent = if now == before { silent + 1 } else { 0 };
        before = now;
    }
    Err(Silence(patience))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn silence_is_told_after_the_patience_and_an_answer_at_once() {
        let patience = Duration::from_millis(20);
        let begun = tokio::time::Instant::now();
        assert_eq!(within(patience, std::future::pending::<()>()).await, Err(Silence(patience)));
        assert!(begun.elapsed() >= patience);
        assert_eq!(within(patience, async { 7 }).await, Ok(7));
    }

    #[tokio::test]
    async fn an_answer_that_came_while_the_process_was_busy_is_read() {
        let patience = Duration::from_millis(20);
        let (answer, answered) = tokio::sync::oneshot::channel();
        // On the one thread of this test: the time is over before anybody is asked again.
        let busy = async {
            std::thread::sleep(patience * 2);
            tokio::task::yield_now().await;
            let _ = answer.send(7);
        };
        let (read, ()) = tokio::join!(within(patience, answered), busy);
        assert_eq!(read, Ok(Ok(7)));
    }
}
