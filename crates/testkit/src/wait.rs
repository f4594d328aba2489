//! Waiting for what nobody announces.

use std::time::Duration;

use tokio::time::{sleep, timeout};

/// How long before a test that waits in vain says so. Not a bound on how fast anything is.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again until the answer is yes.
pub async fn eventually(what: &str, holds: impl AsyncFnMut() -> bool) {
    eventually_or_tell(what, holds, String::new).await;
}

/// Asks again and again until the answer is yes. A test that waits in vain says what was `seen` meanwhile.
pub async fn eventually_or_tell(
    what: &str,
    mut holds: impl AsyncFnMut() -> bool,
    seen: impl FnOnce() -> String,
) {
    let asking = async {
        while !holds().await {
            sleep(Duration::from_millis(5)).await;
        }
    };
    if timeout(PATIENCE, asking).await.is_err() {
        panic!("waited in vain until {what} {}", seen());
    }
}

/// Waits for something that must happen, and says what it was if it does not.
pub async fn must<T>(what: &str, event: impl Future<Output = T>) -> T {
    match timeout(PATIENCE, event).await {
        Ok(answer) => answer,
        Err(_) => panic!("waited in vain until {what}"),
    }
}
