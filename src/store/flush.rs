//! Commits that wait for the disk together.
//!
//! A commit of PostgreSQL keeps its rows locked until it is on disk: whoever is next at a hot row
//! waits for the disk, too, and there is one commit after another. An asynchronous commit
//! ([`Commit::Asynchronous`]) lets the row go as soon as it is in the log, and [`Flusher::flush`]
//! then waits until the log is on disk, once for all who committed meanwhile. Whatever reads from
//! a commit is behind it in the log, so that a crash may take the last commits, but never one of
//! which a later one is left. (Early lock release: `DeWitt` et al., "Implementation techniques for
//! main memory database systems", 1984; "Asynchronous Commit" in PostgreSQL's documentation.)
//!
//! Nobody may be told of such a commit before it is flushed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

use super::patience::within;
use super::{Database, Service, StoreError};

/// When a statement is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// When its commit is on disk, as the server's `synchronous_commit` says; until then its rows
    /// are locked.
    Synchronous,
    /// When its commit is in the server's memory: [`Database::flush`] is still to be waited for.
    Asynchronous,
}

/// A commit of its own, which has to write something to be one: on disk with it is all that was
/// committed before. (A message in the log that nobody reads.)
const FLUSH: &str = "select pg_logical_emit_message(true, 'seckill', ''::text)";

/// A connection that is silent for so long may be dead without anybody having noticed. Whoever
/// waits behind this tries another.
const GIVE_UP_AFTER: Duration = Duration::from_secs(2);

/// Waits for the disk, for one after the other.
#[derive(Debug, Default)]
pub(super) struct Flusher {
    /// So many came.
    came: AtomicU64,
    /// What so many had committed when they came is on disk.
    flushed: Mutex<u64>,
}

impl Flusher {
    /// Whoever comes while `database` is flushed comes too late for that, and waits for the next.
    pub(super) async fn flush(&self, database: &Database) -> Result<(), StoreError> {
        let number = self.came.fetch_add(1, Ordering::SeqCst) + 1;
        // In the order in which they came.
        let mut flushed = self.flushed.lock().await;
        if *flushed >= number {
            return Ok(());
        }
        let came = self.came.load(Ordering::SeqCst);
        let flush = database.with_kept(async |connection| {
            sqlx::query(FLUSH).execute(connection).await?;
            Ok(())
        });
        // Whatever the reason is, what was committed may be on disk soon.
        let unknown = |cause| StoreError::Unknown { service: Service::Postgres, cause };
        match within(GIVE_UP_AFTER, flush).await {
            Ok(done) => done.map_err(|error| unknown(error.into()))?,
            Err(silence) => return Err(unknown(silence.into())),
        }
        *flushed = came;
        Ok(())
    }
}
