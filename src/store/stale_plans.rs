//! Sessions that know a statement as it was before a migration changed what it returns. PostgreSQL refuses
//! such a statement for as long as the session lives, so the session is of no more use.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When a session last refused one. Shared by all handles of the process: a session that was made later knows
/// the statement as it is now.
static FOUND_AT: Mutex<Option<Instant>> = Mutex::new(None);

/// A session has refused a statement just now.
pub(super) fn found() {
    tracing::info!("statements have changed: connections are made anew");
    *FOUND_AT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
}

/// Whether a session of this age may refuse statements.
pub(super) fn may_be_in_session_of(age: Duration) -> bool {
    let found_at = *FOUND_AT.lock().unwrap_or_else(PoisonError::into_inner);
    found_at.is_some_and(|found_at| found_at.elapsed() < age)
}
