//! Whether the database keeps what it acknowledges. A server that runs with `fsync` or
//! `full_page_writes` off loses or breaks orders when its machine crashes, so every new connection asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use sqlx::{PgConnection, Row};

use super::pooler::{is_own_session, set_where_known};
use crate::telemetry::name;

/// Asks, and sees to it that our transactions are durable whatever the default of the role or the
/// database is. A default that is stricter than `local` stays. Behind a pooler each transaction does that
/// for itself: a setting of the session would be one of other clients.
const ASK: &str = concat!(
    "select current_setting('fsync') as fsync,
        current_setting('full_page_writes') as full_page_writes, ",
    is_own_session!(),
    " as is_own,
        set_config('synchronous_commit', case when current_setting('synchronous_commit') = 'off'
            then 'on' else current_setting('synchronous_commit') end, not (",
    is_own_session!(),
    ")), (",
    set_where_known!("transaction_timeout", "0", "not (", is_own_session!(), ")"),
    ")"
);

/// What is known of the database's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseDurability {
    /// No connection was made yet.
    Unknown,
    /// A crash of the server loses nothing that was acknowledged.
    Durable,
    /// `fsync` or `full_page_writes` is off.
    Unsafe,
}

impl DatabaseDurability {
    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Durable => "durable",
            Self::Unsafe => "unsafe: fsync or full_page_writes is off",
        }
    }
}

/// What the newest connection was told. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct DurabilityCheck(Arc<DurabilityState>);

#[derive(Debug, Default)]
struct DurabilityState {
    is_watched: AtomicBool,
    is_required: AtomicBool,
    is_pooled: AtomicBool,
    found: AtomicU8,
}

impl DurabilityCheck {
    /// From now on warns of an unsafe server, and with `required` refuses to connect to one.
    pub(super) fn watch(&self, required: bool) {
        self.0.is_watched.store(true, Ordering::Relaxed);
        self.0.is_required.store(required, Ordering::Relaxed);
        if self.found() == DatabaseDurability::Unsafe {
            tracing::warn!("{WARNING}");
        }
    }

    /// From now on sessions may belong to a pooler.
    pub(super) fn expect_pooler(&self) {
        self.0.is_pooled.store(true, Ordering::Relaxed);
    }

    pub(super) fn found(&self) -> DatabaseDurability {
        match self.0.found.load(Ordering::Relaxed) {
            0 => DatabaseDurability::Unknown,
            1 => DatabaseDurability::Durable,
            _ => DatabaseDurability::Unsafe,
        }
    }

    /// Asks the server of a new connection. Logs each change.
    pub(super) async fn ask(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        // Raw: behind a pooler no statement may have a name.
        let row = sqlx::raw_sql(ASK).fetch_one(connection).await?;
        let (fsync, full_page_writes): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        if !row.try_get::<bool, _>(2)? && !self.0.is_pooled.load(Ordering::Relaxed) {
            return Err(sqlx::Error::Configuration(POOLER.into()));
        }
        let is_durable = fsync == "on" && full_page_writes == "on";
        metrics::gauge!(name::DATABASE_DURABLE).set(u8::from(is_durable));
        let found = if is_durable { 1 } else { 2 };
        let is_news = self.0.found.swap(found, Ordering::Relaxed) != found;
        if is_news && !is_durable && self.0.is_watched.load(Ordering::Relaxed) {
            tracing::warn!(fsync, full_page_writes, "{WARNING}");
        }
        if !is_durable && self.0.is_required.load(Ordering::Relaxed) {
            return Err(sqlx::Error::Configuration(REFUSED.into()));
        }
        Ok(())
    }
}

const WARNING: &str = "the database is not durable (fsync or full_page_writes is off): a crash of its \
                       machine can lose acknowledged orders";
const REFUSED: &str = "the database is not durable (fsync or full_page_writes is off), and \
                       --require-durable is given";
const POOLER: &str = "a connection pooler stands before the database, which was not there when this \
                      process started: start it again";
