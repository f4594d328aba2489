//! Sessions that know a statement as it was before a migration changed what it returns. PostgreSQL refuses
//! such a statement for as long as the session lives, so the session is of no more use.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tokio::time::Instant;

/// When a session of each database last refused one: a session that was made later knows the statement as it is
/// now. Shared by all handles of the process, as the migration concerns all of them; another database had none.
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

/// A session of the database that `options` lead to has refused a statement just now.
pub(super) fn found(options: &PgConnectOptions) {
    tracing::info!("statements have changed: connections are made anew");
    let mut found_at = FOUND_AT.lock().unwrap_or_else(PoisonError::into_inner);
    found_at.insert(database_of(options), Instant::now());
}

/// Whether a session of this age in `database` may refuse statements.
pub(super) fn may_be_in_session_of(age: Duration, database: &str) -> bool {
    let found_at = FOUND_AT.lock().unwrap_or_else(PoisonError::into_inner);
    found_at.get(database).is_some_and(|found_at| found_at.elapsed() < age)
}
