//! Waiting for what nobody announces.

use std::time::Duration;

use tokio::time::{sleep, timeout};

/// How long before a test that waits in vain says so. Not a bound on how fast anything is: six browsers on two slow
/// processors have taken more than a minute for a show of five seconds.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Asks again and again until the answer is yes.
pub async fn eventually(what: &str, holds: impl AsyncFnMut() -> bool) {
    eventually_or_tell(what, holds, String::new).await;
}

/// Asks again and again until the answer is yes. A test that waits in vain says what was `seen` meanwhile.
pub async fn eventually_or_tell(
    what: &str,
    holds: impl AsyncFnMut() -> bool,
    seen: impl FnOnce() -> String,
) {
    assert!(comes_true(holds).await, "waited in vain until {what} {}", seen());
}

/// Asks again and again, and no longer than a test is patient: whether the answer was yes.
pub async fn comes_true(mut holds: impl AsyncFnMut() -> bool) -> bool {
    // Rarer the longer it takes: on two slow processors the questions would be most of the work.
    let mut pause = Duration::from_millis(1);
    let asking = async {
        while !holds().await {
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(25));
        }
    };
    timeout(PATIENCE, asking).await.is_ok()
}

/// Waits for something that must happen, and says what it was if it does not.
pub async fn must<T>(what: &str, event: impl Future<Output = T>) -> T {
    match timeout(PATIENCE, event).await {
        Ok(answer) => answer,
        Err(_) => panic!("waited in vain until {what}"),
    }
}
