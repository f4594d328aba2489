//! Sessions that are of no more use, and are not the only ones: they know a statement as it was before a migration changed
//! what it returns, which PostgreSQL refuses for as long as the session lives; or they began while the database took no
//! writes, and take none for as long.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tokio::time::Instant;

use super::StoreError;

/// Each new session of a database that takes no writes is refused, too. So long the others, which serve readers, are left
/// alone.
const READ_ONLY_AGAIN: Duration = Duration::from_secs(1);

/// When a session of each database was last found to be of no more use: one that was made later is. Shared by all handles
/// of the process, as what happened concerns all of them; another database is not concerned.
static FOUND_AT: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

/// The database that `options` lead to.
pub(super) fn database_of(options: &PgConnectOptions) -> String {
    let (host, port) = (options.get_host(), options.get_port());
    // Without a name, PostgreSQL takes that of the user.
    let name = options.get_database().unwrap_or_else(|| options.get_username());
    match options.get_socket() {
        Some(socket) => format!("{}:{port}/{name}", socket.display()),
        None => format!("{host}:{port}/{name}"),
    }
}

/// A session of the database that `options` lead to has answered with `error` just now. Sessions as old as it may be no
/// better: they are replaced when they are next asked for.
pub(super) fn learn(error: &StoreError, options: &PgConnectOptions) {
    if error.is_stale_plan() {
        tracing::info!("statements have changed: connections are made anew");
        end_those_before_now(options);
    } else if error.is_read_only() && !may_be_in_session_of(READ_ONLY_AGAIN, &database_of(options))
    {
        end_those_before_now(options);
    }
}

/// No session that was made before now is used again.
pub(super) fn end_those_before_now(options: &PgConnectOptions) {
    let mut found_at = FOUND_AT.lock().unwrap_or_else(PoisonError::into_inner);
    found_at.insert(database_of(options), Instant::now());
}

/// Whether a session of this age in `database` may be of no more use.
pub(super) fn may_be_in_session_of(age: Duration, database: &str) -> bool {
    let found_at = FOUND_AT.lock().unwrap_or_else(PoisonError::into_inner);
    found_at.get(database).is_some_and(|found_at| found_at.elapsed() < age)
}
